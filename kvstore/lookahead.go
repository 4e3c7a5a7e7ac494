package kvstore

import "confcenter/kv"

// lookAhead is where the keys of the next transactions are, if they exist: looked up
// for several at a time, for the reason that getEach has. The committer removes no slot
// while it evaluates, so what was found stays right.
type lookAhead struct {
	ahead [eachSlots]ahead
	found *ahead // of the transaction under way
}

type ahead struct {
	op    *kv.Op // its first, if its slot was found
	space *space
	slot  *slot
	entry *kv.Entry
	mod   kv.Revision // of the entry: reading it is what brings it into the cache
}

// look finds the first key of each of at most eachSlots transactions.
func (g *group) look(list []queued) {
	n := 0
	for i := range list {
		a := &g.ahead[i]
		*a = ahead{}
		if ops := list[i].txn.Then; len(ops) > 0 {
			if a.space, a.slot = g.counters.index.find(ops[0].NS, ops[0].Key); a.slot != nil {
				a.op, n = &ops[0], n+1
			}
		}
	}
	if n < 2 {
		return
	}
	for i := range list {
		if a := &g.ahead[i]; a.slot != nil {
			a.entry = a.slot.entry
		}
	}
	for i := range list {
		if a := &g.ahead[i]; a.entry != nil {
			a.mod = a.entry.Mod
		}
	}
}

// find is the index's for the key of an operation.
func (g *group) find(op *kv.Op) (*space, *slot) {
	if g.found != nil && g.found.op == op {
		return g.found.space, g.found.slot
	}
	return g.counters.index.find(op.NS, op.Key)
}
