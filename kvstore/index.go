package kvstore

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"confcenter/internal/memory"
	"confcenter/kv"
)

// sliceKeys is for how many keys the index is locked at a time: some tens of
// microseconds. A reader on an event loop waits no longer.
const sliceKeys = 512

// index is the current state in memory: of each key the newest version, and older
// ones as long as a reader may need them. A reader sees of each key the newest
// version that is not above a revision: its View's, or visible. Only the
// committer writes; it therefore reads without the lock.
type index struct {
	slice int // sliceKeys, but for tests; at least 2

	mu     sync.RWMutex
	spaces shrinking[string, *space] // guarded by mu
	names  *btree.BTreeG[*space]     // the same in order; guarded by mu
	rev    atomic.Int64              // visible; stored with mu held, loaded also without
	keys   atomic.Int64              // visible, of all spaces
	bytes  atomic.Int64              // likewise
	count  atomic.Int64              // spaces that have visible keys
	views  views

	// committer only
	kept      []kept // versions that only views need, in the order in which they were replaced
	keptBytes int64
	keptHeld  account
	total     usage // with the group under way
}

// space is one namespace.
type space struct {
	name string
	keys shrinking[string, *slot] // guarded by the index's mu
	tree *btree.BTreeG[*slot]     // the same in order; guarded by the index's mu
	seen usage                    // visible; guarded by the index's mu

	// committer only
	next    usage  // with the group under way
	touched bool   // the group under way changes it
	txn     uint64 // the last transaction that changed it
	began   usage  // next when that transaction began
}

// slot is one key. The key itself is in entry, which is never nil: of a key that
// the group under way makes it is a version that is not visible yet.
type slot struct {
	entry *kv.Entry // the newest version; guarded by the index's mu
	older *version  // guarded by the index's mu
	next  *change   // what the group under way makes of it, or nil; committer only
	plan  *plan     // of its end, or nil; committer only
}

// version is an old version and those before it.
type version struct {
	entry *kv.Entry
	older *version
}

// kept is an old version that was replaced at revision at and stays in its slot
// while a View older than that is open.
type kept struct {
	space *space
	slot  *slot
	at    kv.Revision
	size  int64
}

func newIndex() *index {
	return &index{
		slice:  sliceKeys,
		spaces: shrinking[string, *space]{of: map[string]*space{}},
		names:  btree.NewBTreeGOptions(func(a, b *space) bool { return a.name < b.name }, btree.Options{NoLocks: true}),
	}
}

func newSpace(name string) *space {
	return &space{
		name: name,
		keys: shrinking[string, *slot]{of: map[string]*slot{}},
		tree: btree.NewBTreeGOptions(func(a, b *slot) bool { return a.entry.Key < b.entry.Key }, btree.Options{NoLocks: true}),
	}
}

func (x *index) revision() kv.Revision { return kv.Revision(x.rev.Load()) }

// live returns e, or nil if it records a deletion.
func live(e *kv.Entry) *kv.Entry {
	if e == nil || e.Deleted() {
		return nil
	}
	return e
}

// at returns the version of the key at rev, nil if the key is absent there. Call it with
// mu held for reading.
func (s *slot) at(rev kv.Revision) *kv.Entry {
	if s.entry.Mod <= rev {
		return live(s.entry)
	}
	for v := s.older; v != nil; v = v.older {
		if v.entry.Mod <= rev {
			return live(v.entry)
		}
	}
	return nil
}

// get is the hot read: two look-ups under the lock, and nothing allocated.
func (x *index) get(ns, key []byte) (*kv.Entry, kv.Revision) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	rev := x.revision()
	if sp := x.spaces.of[string(ns)]; sp != nil {
		if s := sp.keys.of[string(key)]; s != nil {
			return s.at(rev), rev
		}
	}
	return nil, rev
}

func (x *index) getAt(ns, key string, rev kv.Revision) *kv.Entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if sp := x.spaces.of[ns]; sp != nil {
		if s := sp.keys.of[key]; s != nil {
			return s.at(rev)
		}
	}
	return nil
}

// find looks a key up for the committer.
func (x *index) find(ns, key string) (*space, *slot) {
	sp := x.spaces.of[ns]
	if sp == nil {
		return nil, nil
	}
	return sp, sp.keys.of[key]
}

// insert makes a slot for a new key. e must not be visible yet.
func (x *index) insert(sp *space, e *kv.Entry) (*space, *slot) {
	s := &slot{entry: e}
	x.mu.Lock()
	defer x.mu.Unlock()
	if sp == nil {
		sp = newSpace(e.NS)
		x.spaces.of[sp.name] = sp
		x.names.Set(sp)
	}
	sp.keys.of[e.Key] = s
	sp.tree.Set(s)
	return sp, s
}

// removeLocked removes a slot that is no longer needed, and its space with the last slot.
func (x *index) removeLocked(sp *space, s *slot) {
	if sp.keys.of[s.entry.Key] != s {
		return
	}
	sp.tree.Delete(s)
	delete(sp.keys.of, s.entry.Key)
	if len(sp.keys.of) == 0 {
		x.names.Delete(sp)
		delete(x.spaces.of, sp.name)
	}
}

// publish puts a group's versions in place and makes them visible all at once. Versions
// of failed transactions are removed. rev is the newest revision, spaces are those in
// which something changed.
func (x *index) publish(changes []*change, spaces []*space, rev kv.Revision) {
	small := len(changes) <= x.slice
	for len(changes) > x.slice {
		x.placeSlice(changes[:x.slice])
		changes = changes[x.slice:]
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.placeLocked(changes, !small)
	x.countLocked(spaces)
	x.rev.Store(int64(rev))
}

// countLocked makes visible how much there is.
func (x *index) countLocked(spaces []*space) {
	for _, sp := range spaces {
		if (sp.seen.keys > 0) != (sp.next.keys > 0) {
			x.count.Add(int64(cmp.Compare(sp.next.keys, sp.seen.keys)))
		}
		sp.seen = sp.next
	}
	x.keys.Store(x.total.keys)
	x.bytes.Store(x.total.bytes)
}

func (x *index) placeSlice(changes []*change) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.placeLocked(changes, true)
}

// placeLocked puts versions in place. With all, every old version is kept beside the new
// one, because readers use the old ones until the whole group is in place; otherwise
// only those that a View needs are kept.
func (x *index) placeLocked(changes []*change, all bool) {
	newest := x.views.newest()
	for _, ch := range changes {
		s, old, e := ch.slot, ch.slot.entry, ch.entry
		s.next = nil
		switch {
		case ch.fresh && live(e) == nil:
			x.removeLocked(ch.space, s)
			continue
		case ch.fresh:
			s.entry = e
			continue
		case e == old:
			continue
		}
		if all || newest >= old.Mod {
			s.older = &version{old, s.older}
			x.keep(kept{ch.space, s, e.Mod, memory.VersionCost + bytesCost(len(old.Value.Data))})
		}
		s.entry = e
		if e.Deleted() && s.older == nil {
			x.removeLocked(ch.space, s)
		}
	}
}

func (x *index) keep(k kept) {
	x.kept = append(x.kept, k)
	x.keptBytes += k.size
	x.views.keeping.Store(true)
}

// trim drops the old versions that no open View needs. Call it between groups.
func (x *index) trim() {
	for len(x.kept) > 0 && x.trimSlice() {
	}
	if len(x.kept) == 0 {
		x.kept = nil
		x.views.keeping.Store(false)
	}
	x.keptHeld.tell(x.keptBytes)
}

// trimSlice drops some of them and reports whether there may be more.
func (x *index) trimSlice() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	oldest := x.views.oldest(x.revision())
	n := 0
	for ; n < len(x.kept) && n < x.slice && x.kept[n].at <= oldest; n++ {
		k := &x.kept[n]
		x.keptBytes -= k.size
		k.slot.dropOlder(oldest)
		if k.slot.entry.Deleted() && k.slot.older == nil {
			x.removeLocked(k.space, k.slot)
		}
		*k = kept{}
	}
	x.kept = x.kept[n:]
	return n == x.slice
}

// dropOlder drops the versions that cannot be seen at oldest or any later revision.
func (s *slot) dropOlder(oldest kv.Revision) {
	if s.entry.Mod <= oldest {
		s.older = nil
		return
	}
	for v := s.older; v != nil; v = v.older {
		if v.entry.Mod <= oldest {
			v.older = nil
			return
		}
	}
}

// keysOf returns how many visible keys a namespace has.
func (x *index) keysOf(ns string) int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if sp := x.spaces.of[ns]; sp != nil {
		return sp.seen.keys
	}
	return 0
}

// seen is what a namespace has visibly.
func (x *index) seen(ns string) usage {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if sp := x.spaces.of[ns]; sp != nil {
		return sp.seen
	}
	return usage{}
}

// namespaces lists the namespaces with visible keys, but for that of the configurations.
func (x *index) namespaces(after string, limit int) (list []kv.Namespace, more bool) {
	for {
		n, done := 0, true
		x.mu.RLock()
		x.names.Ascend(&space{name: after}, func(sp *space) bool {
			if sp.name == after || sp.seen.keys == 0 || sp.name == kv.ConfigNamespace {
				return true
			}
			if limit > 0 && len(list) == limit {
				more = true
				return false
			}
			if n++; n > x.slice {
				done = false
				return false
			}
			list = append(list, kv.Namespace{Name: sp.name, Keys: sp.seen.keys, Bytes: sp.seen.bytes})
			return true
		})
		x.mu.RUnlock()
		if done || more {
			return list, more
		}
		after = list[len(list)-1].Name
	}
}
