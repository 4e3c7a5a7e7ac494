// Package clients handles the commands about clients themselves: identification, messages
// between them, keep-alives, and operators' queries. It also keeps the operation log.
package clients

import (
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/protocol"
	"confcenter/server/gate"
)

// Handlers serve the commands about clients themselves.
type Handlers struct {
	// set at open
	gate     *gate.Gate
	serverID int32
	clock    clock.Clock
	store    profiles

	oplog    oplog
	departed departed
	asking   sync.Mutex // held by Census, so that calls do not pile up
}

// profiles is what WHOAMI's answer is made from.
type profiles interface {
	Snapshot() *confstore.Snapshot
	Epoch() string
}

// Add makes g serve the commands about clients.
func Add(g *gate.Gate, store profiles, serverID int32, clock clock.Clock) *Handlers {
	f := &Handlers{gate: g, serverID: serverID, clock: clock, store: store}
	f.oplog.init(clock)
	g.Left = f.left
	g.Add(map[protocol.Command]gate.Route{
		protocol.Whoami:      {Handle: f.whoami, Raw: true},
		protocol.GetCli:      {Handle: f.getClients, Named: true},
		protocol.Hungup:      {Handle: f.hungup, Named: true},
		protocol.GetLogr:     {Handle: f.getLog},
		protocol.Exchang:     {Handle: f.exchange, Named: true, PassOn: func(s *gate.Session, h protocol.Header) { relay(s, h) }},
		protocol.SetArgs:     {Handle: f.setArgs},
		protocol.GetWarn:     {Handle: f.getWarnings, Named: true},
		protocol.KeepAlive:   {Handle: keepAlive, Raw: true},
		protocol.Testing:     {Handle: f.testing},
		protocol.EvNotify:    {Handle: f.notify, Named: true, PassOn: f.routeReply},
		protocol.SvrRegister: {Handle: reserved, Raw: true},
		protocol.SvrSearch:   {Handle: reserved, Raw: true},
		protocol.SvrShow:     {Handle: reserved, Raw: true},
		protocol.AppRunLog:   {Handle: f.appRunLog, Named: true, PassOn: f.routeReply},
	})
	return f
}

func reserved(s *gate.Session, h protocol.Header, _ []byte) bool {
	s.Result(h, int(codes.NotImplemented), "the service registry is not part of this server yet")
	return true
}

func keepAlive(s *gate.Session, h protocol.Header, _ []byte) bool {
	s.Reply(h, nil)
	return true
}

// AskSilent makes every loop probe its silent sessions and close those that have been
// silent for two intervals.
func (f *Handlers) AskSilent(now time.Time, interval time.Duration) {
	for _, d := range f.gate.Desks() {
		d.Loop.Post(&keepAliveSweep{now: now.UnixNano(), interval: interval.Nanoseconds()})
	}
}

// Changed records a change of a document, requested or done, in the operation log.
func (f *Handlers) Changed(deleted bool, name string, mtime int32, by *access.Actor, result string) {
	f.oplog.config(deleted, name, mtime, by, result)
}
