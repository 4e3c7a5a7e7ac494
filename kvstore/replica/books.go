package replica

import "confcenter/kv"

// books are the derived data beside the index: byte counts, the keys of leases, expiry.
// They always agree with the newest version of each key, including the group under way.
// Only the committer writes them.
type books struct {
	index  *index
	leases *leases
	expiry expiry
	spaces []*space // touched by the group under way
}

// move updates the books when a key changes from old to e, either of which is nil if
// the key is absent. It returns the leases that lost or gained the key.
func (b *books) move(sp *space, s *slot, old, e *kv.Entry) (changed [2]*lease) {
	if !sp.touched {
		sp.touched = true
		b.spaces = append(b.spaces, sp)
	}
	var d tally
	var from, to kv.LeaseID
	var was, is int64
	if old != nil {
		d, from, was = tally{-1, -int64(old.Size())}, old.Lease, old.Expires
	}
	if e != nil {
		d.keys++
		d.bytes += int64(e.Size())
		to, is = e.Lease, e.Expires
	}
	sp.next.add(d)
	b.index.total.add(d)
	if was != is {
		b.expiry.plan(sp, s, is)
	}
	if from != to {
		changed = [2]*lease{b.leases.byID[from], b.leases.byID[to]}
		if changed[0] != nil {
			delete(changed[0].keys, s)
		}
		if changed[1] != nil {
			changed[1].keys[s] = sp
		}
	}
	return changed
}

func (t *tally) add(d tally) {
	t.keys += d.keys
	t.bytes += d.bytes
}

// settled clears the list of spaces that the group touched.
func (b *books) settled() {
	for _, sp := range b.spaces {
		sp.touched = false
	}
	b.spaces = emptied(b.spaces)
}
