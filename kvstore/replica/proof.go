package replica

import "confcenter/kv"

// saw records what the transaction under way found of a key in its slot, which may be
// nil. What the transaction has changed itself proves nothing.
func (g *group) saw(ns, key string, s *slot) {
	if !g.shared || (s != nil && s.next != nil && s.next.txn == g.txn) {
		return
	}
	read := Read{NS: ns, Key: key}
	if e := s.now(); e != nil {
		read.Mod = e.Mod
	}
	g.proof.Reads = append(g.proof.Reads, read)
}

// sawRange records that the transaction depends on which keys have a prefix. Keys
// written by the group under way count as changed, because their guessed revisions may
// turn out to belong to other transactions. Such a transaction is tried again when the
// revisions are known.
func (g *group) sawRange(ns, prefix string) {
	if g.shared {
		g.proof.Ranges = append(g.proof.Ranges, Range{NS: ns, Prefix: prefix})
	}
}

func (g *group) sawLease(id kv.LeaseID) {
	if g.shared {
		g.proof.Leases = append(g.proof.Leases, id)
	}
}

// sawKeysOf records that the transaction depends on which keys a lease has.
func (g *group) sawKeysOf(id kv.LeaseID) {
	if g.shared {
		g.proof.Leases, g.proof.Ending = append(g.proof.Leases, id), append(g.proof.Ending, id)
	}
}

// asGuessed reports whether the log took the whole group at the guessed revisions, so
// that nothing of others came between.
func (p *proposal) asGuessed(taken int) bool {
	return taken == len(p.commits) && p.commits[taken-1].Revision == p.base+kv.Revision(taken)
}

// abandon undoes the whole group under way.
func (g *group) abandon() {
	for _, ch := range g.changes {
		if ch.fresh {
			g.set(ch, nil)
		} else {
			g.set(ch, ch.slot.entry)
		}
	}
	for _, l := range g.leases {
		ending := l.ending
		l.ending = false
		switch {
		case !l.seen && g.books.leases.byID[l.id] == l:
			g.books.leases.drop(l)
		case ending && l.over:
			g.books.leases.putBack(l, 0)
		}
	}
	for i := range g.commits {
		if token := g.commits[i].Token; token != nil {
			g.tokens.takeBack(token)
		}
	}
	g.books.index.placeSlice(g.changes)
	g.reset()
	g.rev = g.base
}

// adopt applies a transaction that arrived from the log.
func (g *group) adopt(c *Commit) {
	g.start(kv.Delete)
	for _, l := range c.Leases {
		if !l.Ended && g.books.leases.byID[l.ID] == nil {
			g.note(g.books.leases.grant(l.ID, l.TTL, l.Owner))
		}
	}
	for i := range c.Events {
		g.adoptEvent(&c.Events[i])
	}
	for _, l := range c.Leases {
		if known := g.books.leases.byID[l.ID]; l.Ended && known != nil {
			known.ending = true
			g.note(known)
		}
	}
	if c.Token != nil {
		g.tokens.add(c.Token)
	}
	g.rev = c.Revision
	g.commits = append(g.commits, *c)
}

func (g *group) adoptEvent(event *kv.Event) {
	e := event.Entry
	if event.Kind == kv.Expire {
		g.expired++
	}
	sp, s := g.books.index.find(e.NS, e.Key)
	event.Prev = s.now()
	if e.Ends == e.Expires { // it comes from the log
		e.Ends = g.books.ends(e)
	}
	switch {
	case !e.Deleted():
		g.put(sp, s, e)
	case event.Prev != nil:
		e.NS, e.Key = sp.name, s.entry.Key
		g.set(g.touch(sp, s), e)
	}
}

// real returns the real revision of a transaction of the group for the guessed one, and
// any other revision as it is.
func (p *proposal) real(rev kv.Revision) kv.Revision {
	if i := rev - p.base - 1; i >= 0 && int(i) < len(p.commits) {
		return p.commits[i].Revision
	}
	return rev
}

// renumber replaces the guessed revisions in a result by the real ones of its
// transaction and those before it in the group.
func (g *group) renumber(r *kv.Result) {
	real := g.proposal.real
	entry := func(e *kv.Entry) *kv.Entry {
		if e == nil || real(e.Mod) == e.Mod && real(e.Create) == e.Create {
			return e
		}
		again := *e
		again.Mod, again.Create = real(e.Mod), real(e.Create)
		return &again
	}
	r.Revision = real(r.Revision)
	for i := range r.Ops {
		op := &r.Ops[i]
		op.Entry, op.Prev = entry(op.Entry), entry(op.Prev)
		if g.books.leases.keeper == nil {
			op.Lease.ID = kv.LeaseID(real(kv.Revision(op.Lease.ID)))
		}
	}
}
