package server

import (
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

// clientHandlers serve what is between a client and the server, or between clients:
// who they are, messages among them, signs of life, and what operators ask.
type clientHandlers struct {
	// set at open
	gate     *gate
	serverID int32
	clock    clock.Clock
	store    profiles

	oplog    oplog
	departed departed
	asking   sync.Mutex // held by census, so that questions do not pile up
}

// profiles is what WHOAMI is answered from.
type profiles interface {
	Snapshot() *confstore.Snapshot
	Epoch() string
}

// addClients has g serve clients as such.
func addClients(g *gate, store profiles, serverID int32, clock clock.Clock) *clientHandlers {
	f := &clientHandlers{gate: g, serverID: serverID, clock: clock, store: store}
	f.oplog.init(clock)
	g.left = f.left
	g.add(map[protocol.Command]route{
		protocol.Whoami:      {handle: f.whoami, raw: true},
		protocol.GetCli:      {handle: f.getClients},
		protocol.Hungup:      {handle: f.hungup},
		protocol.GetLogr:     {handle: f.getLog},
		protocol.Exchang:     {handle: f.exchange, passOn: func(s *session, h protocol.Header) { relay(s, h) }},
		protocol.SetArgs:     {handle: f.setArgs},
		protocol.GetWarn:     {handle: f.getWarnings},
		protocol.KeepAlive:   {handle: keepAlive, raw: true},
		protocol.Testing:     {handle: f.testing},
		protocol.EvNotify:    {handle: f.notify, passOn: f.routeReply},
		protocol.SvrRegister: {handle: reserved, raw: true},
		protocol.SvrSearch:   {handle: reserved, raw: true},
		protocol.SvrShow:     {handle: reserved, raw: true},
		protocol.AppRunLog:   {handle: f.appRunLog, passOn: f.routeReply},
	})
	return f
}

func reserved(s *session, h protocol.Header, _ []byte) bool {
	s.result(h, int(codes.NotImplemented), "the service registry is not part of this server yet")
	return true
}

func keepAlive(s *session, h protocol.Header, _ []byte) bool {
	s.reply(h, nil)
	return true
}

// askSilent has every loop ask its silent sessions for a sign of life, and close those
// that have given none for two intervals.
func (f *clientHandlers) askSilent(now time.Time, interval time.Duration) {
	for _, d := range f.gate.allDesks() {
		d.loop.post(&keepAliveSweep{now: now.UnixNano(), interval: interval.Nanoseconds(), next: -1})
	}
}

// Changed notes a change of a document, wanted or done, in the operation log.
func (f *clientHandlers) Changed(deleted bool, name string, mtime int32, by *access.Actor, result string) {
	f.oplog.config(deleted, name, mtime, by, result)
}
