package kvstore

import (
	"confcenter/internal/memory"
	"confcenter/kv"
)

// counters are the derived data beside the index: byte counts, the keys of leases, expiry.
// They always agree with the newest version of each key, including the group under way.
// Only the committer writes them.
type counters struct {
	index  *index
	leases *leases
	expiry expiry
	spaces []*space // touched by the group under way
	held   account  // of the store's pool
}

// ends is when the time to live of a key that comes from the log is over, by the monotonic clock. The log
// knows it by the time of day.
func (b *counters) ends(e *kv.Entry) int64 {
	if e.Ends == 0 {
		return 0
	}
	c := b.leases.clock
	return e.Expires + c.Steady().UnixMilli() - c.Now().UnixMilli()
}

// total is what there is, with the group under way.
func (b *counters) total() usage {
	t := b.index.total
	t.cost += b.leases.cost
	return t
}

// move updates the counters when a key changes from old to e, either of which is nil if
// the key is absent. It returns the leases that lost or gained the key.
func (b *counters) move(sp *space, s *slot, old, e *kv.Entry) (changed [2]*lease) {
	if !sp.touched {
		sp.touched = true
		b.spaces = append(b.spaces, sp)
	}
	var d usage
	var from, to kv.LeaseID
	var was, is end
	if old != nil {
		d, from, was = usage{keys: -1, bytes: -int64(old.Size()), cost: -costOf(old)}, old.Lease, end{old.Expires, old.Ends}
	}
	if e != nil {
		d.keys++
		d.bytes += int64(e.Size())
		d.cost += costOf(e)
		to, is = e.Lease, end{e.Expires, e.Ends}
	}
	d.leased = oneIf(to) - oneIf(from)
	sp.next.add(d)
	if d.keys > 0 && sp.next.keys == 1 || d.keys < 0 && sp.next.keys == 0 { // made, or gone
		d.cost += d.keys * (memory.OwnerCost + bytesCost(len(sp.name)))
	}
	b.index.total.add(d)
	if was != is {
		b.expiry.plan(sp, s, is)
	}
	if from != to {
		changed = [2]*lease{b.leases.byID.of[from], b.leases.byID.of[to]}
		if changed[0] != nil {
			b.leases.detach(changed[0], s)
		}
		if changed[1] != nil {
			b.leases.attach(changed[1], s, sp)
		}
	}
	return changed
}

// tell tells the pool what is in use.
func (b *counters) tell() { b.held.tell(b.total().cost) }

// settled ends a group: it gives room back, and clears the list of spaces that the group
// touched.
func (b *counters) settled() {
	b.index.spaces.shrink(&b.index.mu)
	for _, sp := range b.spaces {
		sp.keys.shrink(&b.index.mu)
		sp.touched = false
	}
	b.spaces = emptied(b.spaces)
}
