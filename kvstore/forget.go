package kvstore

import (
	"reflect"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/kv"
)

const (
	// mostForgetting is how many entries may wait to be forgotten.
	mostForgetting = 1 << 18
	// forgetAtOnce is how many the committer forgets between two groups: some tenths of a
	// millisecond. forgetSlice is for how many the index is locked.
	forgetAtOnce, forgetSlice = 256, 32
)

// forgetting is one call of Forget.
type forgetting struct {
	list  []kv.Held
	done  func(n int, err error)
	bytes int64 // of memory, that it holds while it waits

	// committer only
	at, n int // entries looked at, entries forgotten
}

// forgets is what Forget has taken.
type forgets struct {
	ready atomic.Int64 // len(list)

	mu sync.Mutex

	// guarded by mu
	list    []*forgetting // all that was committed before them is done
	waiting int           // entries, of these and of those behind transactions
	over    error         // why the committer has ended
}

// Forget implements kv.Forgetter.
func (s *Store) Forget(list []kv.Held, done func(n int, err error)) error {
	f := &forgetting{list: list, done: done}
	for i := range list {
		if !kv.Reserved(list[i].NS) {
			return codes.Errorf(codes.BadRequest, "entry %d is in namespace %.64q, whose entries are never forgotten", i, list[i].NS)
		}
		f.bytes += int64(reflect.TypeFor[kv.Held]().Size()) + bytesCost(len(list[i].Key))
	}
	if err := s.forgets.reserve(len(list)); err != nil {
		return s.noted(err)
	}
	s.cfg.Queues.Add(f.bytes)
	// A transaction that does nothing is answered after all before it.
	err := s.Commit(&kv.Txn{}, func(_ *kv.Result, err error) {
		if err == nil {
			err = s.forgets.add(f)
		}
		if err != nil {
			s.forgotten(f, err)
			return
		}
		s.queue.poke()
	})
	if err != nil {
		s.forgets.reserve(-len(list))
		s.cfg.Queues.Give(f.bytes)
	}
	return err
}

// forgotten ends a call of Forget.
func (s *Store) forgotten(f *forgetting, err error) {
	s.forgets.reserve(-len(f.list))
	s.cfg.Queues.Give(f.bytes)
	f.done(f.n, err)
}

// reserve makes room for n entries, or gives it back.
func (f *forgets) reserve(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > 0 && f.waiting > 0 && f.waiting+n > mostForgetting {
		return codes.Errorf(codes.Busy, "%d entries are waiting to be forgotten, the limit is %d", f.waiting, mostForgetting)
	}
	f.waiting += n
	return nil
}

func (f *forgets) add(one *forgetting) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		f.list = append(f.list, one)
		f.ready.Add(1)
	}
	return f.over
}

func (f *forgets) first() *forgetting {
	if f.ready.Load() == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.list[0]
}

func (f *forgets) dropFirst() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = f.list[1:]
	f.ready.Add(-1)
}

// end has nothing more taken, and returns what was not begun or not finished.
func (f *forgets) end(why error) []*forgetting {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.list
	f.list, f.over = nil, why
	f.ready.Store(0)
	return rest
}

// forget forgets some of the entries that wait for it, and reports whether there may be
// more. No group is under way.
func (c *committer) forget() (more bool) {
	s := c.store
	f := s.forgets.first()
	if f == nil {
		return false
	}
	part := f.list[f.at:min(f.at+forgetAtOnce, len(f.list))]
	f.at += len(part)
	if gone := s.index.forget(part, c.group.counters); len(gone) > 0 {
		f.n += len(gone)
		s.log.Forget(gone)
		c.group.counters.tell()
		c.group.counters.settled()
	}
	if f.at == len(f.list) {
		s.forgets.dropFirst()
		s.forgotten(f, nil)
	}
	return true
}

// forget removes those of the entries that no one needs, and returns them.
func (x *index) forget(list []kv.Held, b *counters) (gone []*kv.Entry) {
	for len(list) > 0 {
		n := min(forgetSlice, len(list))
		gone = x.forgetSlice(list[:n], b, gone)
		list = list[n:]
	}
	return gone
}

func (x *index) forgetSlice(list []kv.Held, b *counters, gone []*kv.Entry) []*kv.Entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	newest := x.views.newest()
	for i := range list {
		h := &list[i]
		sp, s := x.find(h.NS, h.Key)
		if s == nil || s.older != nil || s.entry.Mod != h.Mod || newest >= h.Mod {
			continue
		}
		e := s.entry
		if e.Deleted() || e.Expires != 0 || e.Lease != 0 {
			continue
		}
		b.move(sp, s, e, nil)
		x.removeLocked(sp, s)
		gone = append(gone, e)
	}
	x.countLocked(b.spaces)
	return gone
}
