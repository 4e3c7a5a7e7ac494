package kvstore

import (
	"maps"
	"slices"

	"confcenter/kv"
)

// loading builds the state from the log when the store is opened. There are no readers
// yet, so it takes no locks.
type loading struct {
	counters *counters
	tokens   *tokens
	last     *space // of the entry before

	lines *kv.Entry // the newest ones of the audit among the commits
}

func (l *loading) loader() Loader {
	return Loader{Entry: l.entry, Lease: l.lease, Token: l.tokens.add, Commit: l.commit}
}

// entry adds the current entry of a key. Entries come in order.
func (l *loading) entry(e *kv.Entry) {
	if kv.Archived(e.NS) {
		return // an older program took it for an entry like any other
	}
	if e.Lease != 0 && l.counters.leases.byID.of[e.Lease] == nil {
		l.counters.leases.grant(LeaseChange{ID: e.Lease, TTL: kv.MinLease}) // the rest comes later
	}
	x := l.counters.index
	sp := l.last
	if sp == nil || sp.name != e.NS {
		if sp = x.spaces.of[e.NS]; sp == nil {
			sp = newSpace(e.NS)
			x.spaces.of[sp.name] = sp
			x.names.Set(sp)
		}
		l.last = sp
	}
	e.NS, e.Ends = sp.name, l.counters.ends(e)
	s := &slot{entry: e}
	sp.keys.of[e.Key] = s
	sp.tree.Load(s)
	l.counters.move(sp, s, nil, e)
}

func (l *loading) lease(c LeaseChange) {
	leases := l.counters.leases
	known := leases.byID.of[c.ID]
	switch {
	case c.Ended && known != nil:
		leases.drop(known)
	case c.Ended:
	case known != nil:
		leases.learn(known, c)
	default:
		leases.grant(c)
	}
}

// commit applies a transaction that is newer than the entries.
func (l *loading) commit(c *Commit) {
	for _, change := range c.Leases {
		if !change.Ended {
			l.lease(change)
		}
	}
	for i := range c.Events {
		l.event(&c.Events[i])
	}
	for i := range c.Archive {
		if e := c.Archive[i].Entry; e.NS == kv.AuditLines && !e.Deleted() {
			l.lines = e
		}
	}
	for _, change := range c.Leases {
		if change.Ended {
			l.lease(change)
		}
	}
	if c.Token != nil {
		l.tokens.add(c.Token)
	}
}

func (l *loading) event(event *kv.Event) {
	x, e := l.counters.index, event.Entry
	sp, s := x.find(e.NS, e.Key)
	switch {
	case s == nil && e.Deleted():
	case s == nil:
		l.entry(e)
	case e.Deleted():
		l.counters.move(sp, s, s.entry, nil)
		x.removeLocked(sp, s)
		l.last = nil // it may have been the last key
	default:
		old := s.entry
		e.NS, e.Key, e.Ends = sp.name, old.Key, l.counters.ends(e)
		s.entry = e
		l.counters.move(sp, s, old, e)
	}
}

// done makes everything visible to readers. Every lease starts with its full time.
func (l *loading) done(newest kv.Revision) {
	b := l.counters
	b.leases.publish(slices.AppendSeq(make([]*lease, 0, len(b.leases.byID.of)), maps.Values(b.leases.byID.of)))
	b.index.publish(nil, b.spaces, newest)
	b.tell()
	b.settled()
	l.tokens.settled()
}
