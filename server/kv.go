package server

import (
	"context"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvlock"
	"confcenter/protocol"
)

// What the state store's handlers do on the loop is bounded by these; anything
// larger is done by a worker.
const (
	loopEntries = 256       // entries looked up or listed
	loopBytes   = 128 << 10 // bytes of keys and values encoded
)

// maxReply is the most bytes of keys and values that one reply holds: what is
// read in pages is cut there, anything else is refused.
const maxReply = kv.MaxTxnBytes

// stateHandlers serve the state store.
type stateHandlers struct {
	// set at open
	store kv.Store
	locks *kvlock.Manager
	stats func() protocol.KVStats // must be cheap
	life  context.Context         // of what workers read
}

// addState has g serve store, with locks that are made of it. stats is what it says
// about itself, nil: only its revision. Workers read it for as long as life lasts.
func addState(life context.Context, g *gate, store kv.Store, locks *kvlock.Manager, stats func() protocol.KVStats) *stateHandlers {
	f := &stateHandlers{store: store, locks: locks, stats: stats, life: life}
	if stats == nil {
		f.stats = func() protocol.KVStats { return protocol.KVStats{Revision: store.Revision()} }
	}
	routes := map[protocol.Command]route{
		protocol.KVGet:     {handle: f.kvGet, ahead: f.lookAhead, answer: f.answerAhead},
		protocol.KVMGet:    {handle: f.kvGetMany},
		protocol.KVList:    {handle: f.kvList},
		protocol.KVNames:   {handle: f.kvNames},
		protocol.KVHistory: {handle: f.kvHistory},
		protocol.KVStat:    {handle: f.kvStat},

		protocol.KVPut:       {handle: f.kvWrite, write: true},
		protocol.KVDel:       {handle: f.kvWrite, write: true},
		protocol.KVDelPrefix: {handle: f.kvWrite, write: true},
		protocol.KVDrop:      {handle: f.kvWrite, write: true},
		protocol.KVTxn:       {handle: f.kvWrite, write: true},
		protocol.KVCas:       {handle: f.kvWrite, write: true},
		protocol.KVIncr:      {handle: f.kvWrite, write: true},
		protocol.KVLease:     {handle: f.kvWrite, write: true},
		protocol.KVRevoke:    {handle: f.kvWrite, write: true},
		protocol.KVRestore:   {handle: f.kvRestore}, // reads first, so it waits

		protocol.KVAlive:     {handle: f.kvAlive},
		protocol.KVLeaseInfo: {handle: f.kvLeaseInfo},
		protocol.KVLock:      {handle: f.kvLock, write: true},
		protocol.KVUnlock:    {handle: f.kvUnlock, write: true},
	}
	for cmd, r := range routes {
		r.tailed = true
		routes[cmd] = r
	}
	g.add(routes)
	g.keep(ofState, func(*desk) any { return &getRun{} })
	return f
}

// addNoState has g say that there is no state store.
func addNoState(g *gate) {
	none := func(s *session, h protocol.Header, _ []byte) bool {
		s.result(h, int(codes.NotImplemented), "this server has no state store")
		return true
	}
	routes := make(map[protocol.Command]route)
	for _, row := range protocol.Commands {
		if row.ID.IsState() && row.Role == protocol.Served {
			routes[row.ID] = route{handle: none, raw: true}
		}
	}
	g.add(routes)
}

// kvNames lists the namespaces.
func (f *stateHandlers) kvNames(s *session, h protocol.Header, _ []byte) bool {
	q, err := s.desk.req.KVNames()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	state := f.store
	s.later(h, func(dst []byte) []byte {
		rev := state.Revision()
		list, more := state.Namespaces(q.After, q.Limit)
		return protocol.AppendKVNamespaces(dst, rev, list, more)
	})
	return true
}

// kvStat tells what the store says about itself.
func (f *stateHandlers) kvStat(s *session, h protocol.Header, _ []byte) bool {
	s.later(h, func(dst []byte) []byte { return protocol.AppendKVStats(dst, f.stats()) })
	return true
}

// kvAlive begins a lease's time anew.
func (f *stateHandlers) kvAlive(s *session, h protocol.Header, _ []byte) bool {
	return aboutLease(s, h, func(id kv.LeaseID) (kv.Lease, error) {
		lease, err := f.store.KeepAlive(id)
		if err == nil { // whoever keeps it alive has it, also one that another connection was granted
			holdingsOf(s).lease(id)
		}
		return lease, err
	}, protocol.AppendKVAlive)
}

// kvLeaseInfo tells about a lease.
func (f *stateHandlers) kvLeaseInfo(s *session, h protocol.Header, _ []byte) bool {
	return aboutLease(s, h, f.store.Lease, protocol.AppendKVLeaseInfo)
}

func aboutLease(s *session, h protocol.Header, ask func(kv.LeaseID) (kv.Lease, error), appendReply func([]byte, kv.Lease) []byte) bool {
	id, err := s.desk.req.KVLeaseID()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	lease, err := ask(id)
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	s.end(appendReply(s.begin(h.Command.Reply(), h.Seq), lease))
	return true
}
