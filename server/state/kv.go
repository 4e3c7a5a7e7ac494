// Package state handles the commands of the state store except those about watches: it
// answers reads from memory, or by a worker if they are long, and hands writes and locks
// over.
package state

import (
	"context"

	"confcenter/kv"
	"confcenter/kv/lock"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// Limits of what the handlers do on the loop; a worker does anything larger.
const (
	loopEntries = 256       // entries looked up or listed
	loopBytes   = 128 << 10 // bytes of keys and values encoded
)

// maxReply is the limit on bytes of keys and values in one reply: pages are cut there,
// anything else is refused.
const maxReply = kv.MaxTxnBytes

// Handlers serve the state store.
type Handlers struct {
	// set at open
	store kv.Store
	locks *lock.Manager
	stats func() kv.Stats // must be cheap
}

// local is what is kept for one loop.
type local struct {
	loop *loop.Loop // set at open

	// loop only
	writes []*kv.Write  // of the session being served, not handed over yet
	free   []*kvWriting // for reuse
}

func deskOf(s *gate.Session) *local { return s.Local.Part(gate.OfState).(*local) }

// Add makes g serve store and locks, which are made on it. stats returns its figures; nil:
// only its revision is known.
func Add(g *gate.Gate, store kv.Store, locks *lock.Manager, stats func() kv.Stats) *Handlers {
	f := &Handlers{store: store, locks: locks, stats: stats}
	if stats == nil {
		f.stats = func() kv.Stats { return kv.Stats{Revision: store.Revision()} }
	}
	routes := map[protocol.Command]gate.Route{
		protocol.KVGet:     {Handle: f.kvGet, Together: func(*gate.Local) gate.Together { return &gets{store: store} }},
		protocol.KVMGet:    {Handle: f.kvGetMany},
		protocol.KVList:    {Handle: f.kvList},
		protocol.KVNames:   gate.Cold(gate.Works, protocol.Read[protocol.KVNamesQuery], f.kvNames),
		protocol.KVHistory: gate.Cold(gate.Works, protocol.Read[protocol.KVHistoryQuery], f.kvHistory),
		protocol.KVStat:    gate.Cold(gate.Works, protocol.Read[struct{}], f.kvStat),

		protocol.KVRestore: {Handle: f.kvRestore}, // reads first, so it waits

		protocol.KVAlive:     {Handle: f.kvAlive, Early: f.kvAliveEarly},
		protocol.KVLeaseInfo: {Handle: f.kvLeaseInfo},
		protocol.KVLock:      {Handle: f.kvLock, Write: true},
		protocol.KVUnlock:    {Handle: f.kvUnlock, Write: true},
	}
	for _, row := range protocol.Commands {
		if row.ID.IsWrite() {
			routes[row.ID] = gate.Route{Handle: f.kvWrite, Write: true}
		}
	}
	for cmd, r := range routes {
		r.Tailed = true
		routes[cmd] = r
	}
	g.Add(routes)
	g.Keep(gate.OfState, func(d *gate.Local) any { return &local{loop: d.Loop} })
	g.HandOver(func(s *gate.Session) { f.handOver(s) })
	return f
}

// AddNone makes g answer that there is no state store.
func AddNone(g *gate.Gate) {
	routes := make(map[protocol.Command]gate.Route)
	for _, row := range protocol.Commands {
		if row.ID.IsState() && row.Role == protocol.Served {
			routes[row.ID] = gate.Absent("this server has no state store")
		}
	}
	g.Add(routes)
}

// kvNames lists the namespaces.
func (f *Handlers) kvNames(_ context.Context, r *edge.Request, dst []byte, q *protocol.KVNamesQuery) ([]byte, error) {
	rev := f.store.Revision()
	list, more, err := r.Rights.Namespaces(f.store, q.After, q.Limit)
	return protocol.AppendReply(dst, &protocol.KVNamespaces{Revision: rev, Namespaces: list, More: more}), err
}

// kvStat answers with the store's figures.
func (f *Handlers) kvStat(_ context.Context, _ *edge.Request, dst []byte, _ *struct{}) ([]byte, error) {
	return protocol.AppendKVStats(dst, f.stats()), nil
}

// kvAlive renews a lease.
func (f *Handlers) kvAlive(s *gate.Session, h protocol.Header, _ []byte) bool {
	id, err := f.leaseAsked(s)
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	lease, err := f.store.KeepAlive(s.Gate.Life(), id)
	if err == nil { // the connection that keeps a lease alive has it, even if it was granted to another
		holdingsOf(s).lease(id)
	}
	answerLease(s, h, lease, err, protocol.AppendKVAlive)
	return true
}

// kvAliveEarly renews a lease before it is the request's turn. Nothing that was sent before can make
// that wrong: what ends the lease does so all the same.
func (f *Handlers) kvAliveEarly(s *gate.Session) {
	if id, err := f.leaseAsked(s); err == nil {
		_, _ = f.store.KeepAlive(s.Gate.Life(), id)
	}
}

// kvLeaseInfo describes a lease.
func (f *Handlers) kvLeaseInfo(s *gate.Session, h protocol.Header, _ []byte) bool {
	id, err := f.leaseAsked(s)
	var lease kv.Lease
	if err == nil {
		lease, err = f.store.Lease(id)
	}
	answerLease(s, h, lease, err, func(dst []byte, l kv.Lease) []byte { return protocol.AppendReply(dst, &l) })
	return true
}

// leaseAsked reads which lease a request is about, which its sender must be allowed to use.
func (f *Handlers) leaseAsked(s *gate.Session) (kv.LeaseID, error) {
	id, err := s.Local.Req.KVLeaseID()
	if err == nil && s.Rights != nil {
		err = s.Rights.Lease(f.store.Lease(id))
	}
	return id, err
}

func answerLease(s *gate.Session, h protocol.Header, lease kv.Lease, err error, appendReply func([]byte, kv.Lease) []byte) {
	if err != nil {
		s.Refuse(h, err)
		return
	}
	s.End(appendReply(s.Begin(h.Command.Reply(), h.Seq), lease))
}
