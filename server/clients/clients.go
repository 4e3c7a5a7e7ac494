// Package clients handles the commands about clients themselves: identification, messages
// between them, keep-alives, and operators' queries. It also keeps the operation log.
package clients

import (
	"sync"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/clock"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
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
	unserved unserved
	asking   sync.Mutex // held by Census, so that calls do not pile up
}

// profiles is what WHOAMI's answer is made from.
type profiles interface {
	Snapshot() *snapshot.Snapshot
	Epoch() string
}

// Add makes g serve the commands about clients.
func Add(g *gate.Gate, store profiles, serverID int32, clock clock.Clock) *Handlers {
	f := &Handlers{gate: g, serverID: serverID, clock: clock, store: store, unserved: unserved{told: map[protocol.Command]untold{}}}
	f.oplog.init(clock)
	g.Left = f.left
	g.Add(map[protocol.Command]gate.Route{
		protocol.Whoami:      {Handle: f.whoami, Raw: true},
		protocol.GetCli:      {Handle: f.getClients},
		protocol.Hungup:      {Handle: f.hungup},
		protocol.GetLogr:     {Handle: f.getLog},
		protocol.Exchang:     {Handle: f.exchange, PassOn: func(s *gate.Session, h protocol.Header) { relay(s, h) }},
		protocol.SetArgs:     {Handle: f.setArgs},
		protocol.GetWarn:     {Handle: f.getWarnings},
		protocol.KeepAlive:   {Handle: keepAlive, Raw: true},
		protocol.Testing:     {Handle: f.testing},
		protocol.EvNotify:    {Handle: f.notify, PassOn: f.routeReply},
		protocol.SvrRegister: {Handle: f.reserved, Raw: true},
		protocol.SvrSearch:   {Handle: f.reserved, Raw: true},
		protocol.SvrShow:     {Handle: f.reserved, Raw: true},
		protocol.SvrStat:     {Handle: f.counters, Raw: true},
		protocol.AppRunLog:   {Handle: f.appRunLog, PassOn: f.routeReply},
	})
	return f
}

// reserved refuses what is about CppCloud's service registry.
func (f *Handlers) reserved(s *gate.Session, h protocol.Header, _ []byte) bool {
	f.unserved.tell(s, h.Command, f.clock.Now())
	s.Result(h, int(codes.NotImplemented), "the service registry is not part of this server yet")
	return true
}

// counters takes what programs say of the services that they called. CppCloud does not answer it.
func (f *Handlers) counters(s *gate.Session, h protocol.Header, _ []byte) bool {
	f.unserved.tell(s, h.Command, f.clock.Now())
	return true
}

// unserved tells the log of commands that are not served: programs go on asking for as long as
// they run.
type unserved struct {
	mu   sync.Mutex
	told map[protocol.Command]untold // guarded by mu
}

// untold is what the log has not been told of a command.
type untold struct {
	since    time.Time // of the line before
	requests int
}

// unservedEvery is how often there is a line about a command.
const unservedEvery = time.Minute

func (u *unserved) tell(s *gate.Session, cmd protocol.Command, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one, before := u.told[cmd]
	one.requests++
	if !before || now.Sub(one.since) >= unservedEvery {
		s.Group().Log.Warn().Stringer("command", cmd).Stringer("peer", s.Peer).Str("client", s.Name()).Int("requests", one.requests).
			Msg("the service registry is not served: what asks for it goes without")
		one = untold{since: now}
	}
	u.told[cmd] = one
}

func keepAlive(s *gate.Session, h protocol.Header, _ []byte) bool {
	s.Reply(h, nil)
	return true
}

// AskSilent makes every loop probe its silent sessions and close those that have been
// silent for two intervals.
func (f *Handlers) AskSilent(now time.Time, interval time.Duration) {
	for _, d := range f.gate.Locals() {
		d.Loop.Post(&keepAliveSweep{now: now.UnixNano(), interval: interval.Nanoseconds()})
	}
}

// Changed records a change of a document, requested or done, in the operation log.
func (f *Handlers) Changed(deleted bool, name string, mtime int32, by *access.Actor, result string) {
	f.oplog.config(deleted, name, mtime, by, result)
}
