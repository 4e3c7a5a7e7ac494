package kvstore

import "confcenter/kv"

// eachSlots is how many keys are looked up at a time.
const eachSlots = 32

// GetEach implements kv.Store.
func (s *Store) GetEach(reads []kv.Read) kv.Revision { return s.index.getEach(reads) }

// getEach does in steps what get does for one key: first the look-ups in the maps,
// then all slots, then all entries. The memory accesses of one step do not depend on
// each other, so the processor waits for several of them at once; among many keys
// that takes a third of the time.
func (x *index) getEach(reads []kv.Read) kv.Revision {
	x.mu.RLock()
	defer x.mu.RUnlock()
	rev := x.revision()
	for len(reads) > 0 {
		n := min(eachSlots, len(reads))
		x.eachLocked(reads[:n], rev)
		reads = reads[n:]
	}
	return rev
}

func (x *index) eachLocked(reads []kv.Read, rev kv.Revision) {
	var slots [eachSlots]*slot
	var sp *space
	for i := range reads {
		r := &reads[i]
		if sp == nil || sp.name != string(r.NS) {
			sp = x.spaces.of[string(r.NS)]
		}
		if sp != nil {
			slots[i] = sp.keys.of[string(r.Key)]
		}
	}
	for i := range reads {
		reads[i].Entry = nil
		if slots[i] != nil {
			reads[i].Entry = slots[i].entry
		}
	}
	for i := range reads {
		if slots[i] != nil {
			reads[i].Entry = slots[i].at(rev)
		}
	}
}
