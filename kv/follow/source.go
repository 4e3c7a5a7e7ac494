package follow

import (
	"context"
	"slices"
	"sync"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// Store is what cursors need of a store; see [kv.Store].
type Store interface {
	Revision() kv.Revision
	Get(ns, key []byte) (*kv.Entry, kv.Revision)
	View() kv.View
	Namespaces(after string, limit int) (list []kv.Namespace, more bool)
	Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error)
	Follow(fn func(*kv.Batch)) (stop func())
}

// Selective is a Store that makes changes only for those who want them.
type Selective interface {
	Store
	// Want has changes that match the filter told, among others, until stop is called.
	Want(kv.Filter) (stop func())
	// ChangesOf is Changes of which only those that match one of the filters must be there.
	ChangesOf(ctx context.Context, filters []kv.Filter, after kv.Revision, maxBytes int) ([]kv.Change, error)
}

// Source is a store as the cursors of one user share it. It knows their open views
// and which of them hold a whole state.
type Source struct {
	// set at open
	Store Store
	// Piece is about how many bytes of entries are read from the log at a time. It is
	// four times as much if all readers may be spared events, because the more is
	// read, the more can be left out.
	Piece int
	// Holders is how many cursors may hold a whole state at a time.
	Holders int
	// Long is where a revision that takes more than a Piece finds its memory as long as a cursor is
	// in the middle of it; nil: 64 MiB of its own. For which there is none, it is read once for each
	// piece.
	Long *memory.Pool

	mu sync.Mutex
	// guarded by mu
	views   map[*heldView]struct{}
	holding int
	midway  int // cursors in the middle of a revision
	long    long
}

// long is a revision that was read while a cursor was in the middle of it. All who have to read it find
// it there, so that each of them costs what it is told, and not that times the revision.
type long struct {
	after   kv.Revision // it is what comes next after this one
	filters []kv.Filter // of a Selective store
	changes []kv.Change // just the one; none: nothing is kept
	weight  int64
}

// longBytes is the limit of Source.Long where none is given.
const longBytes = 64 << 20

// heldView makes a view of any type usable as a map key.
type heldView struct{ kv.View }

// Chunk is all changes after one revision up to another. It is shared and
// immutable.
type Chunk struct {
	After, Last kv.Revision
	Changes     []kv.Change
	Part        bool // there are more changes since
	old         bool // read back from the store
}

// Read reads the log once for all of the cursors, from the position of the one
// furthest behind; the chunk can then be offered to each. Cursors that the log does
// not reach back to will send Resync and the state. It may wait for a disk.
func (s *Source) Read(ctx context.Context, cursors []*Cursor) (Chunk, error) {
	after, size := cursors[0].at.Rev, 4*s.Piece
	for _, c := range cursors {
		after = min(after, c.at.Rev)
		if c.spare == Nothing {
			size = s.Piece
		}
	}
	newest := s.Store.Revision() // before reading, so that an empty result holds up to it
	changes, err := s.changes(ctx, cursors, after, size)
	if codes.Of(err) == codes.Compacted {
		for _, c := range s.lapsed(ctx, cursors, after) {
			c.Forget()
			c.state = &state{resync: true}
		}
		return Chunk{After: after, Last: after}, nil
	}
	if err != nil {
		return Chunk{}, err
	}
	chunk := Chunk{After: after, Last: newest, Changes: changes, old: true}
	if len(changes) > 0 {
		chunk.Last = changes[len(changes)-1].Revision
	}
	for _, c := range cursors {
		if c.at.Rev >= c.target {
			c.target = newest
		}
	}
	return chunk, nil
}

// lapsed returns which of the cursors at a revision the log does not reach back to, as it does not
// for all together. Of a Selective store that may be some of them only.
func (s *Source) lapsed(ctx context.Context, cursors []*Cursor, after kv.Revision) []*Cursor {
	there := slices.DeleteFunc(slices.Clone(cursors), func(c *Cursor) bool { return c.at.Rev != after })
	alone := slices.DeleteFunc(slices.Clone(there), func(c *Cursor) bool {
		_, err := s.changes(ctx, []*Cursor{c}, after, s.Piece)
		return codes.Of(err) != codes.Compacted
	})
	if len(alone) > 0 {
		return alone
	}
	return there
}

func (s *Source) changes(ctx context.Context, cursors []*Cursor, after kv.Revision, size int) (list []kv.Change, err error) {
	var filters []kv.Filter
	selective, ok := s.Store.(Selective)
	if ok {
		for _, c := range cursors {
			if !slices.Contains(filters, c.filter) {
				filters = append(filters, c.filter)
			}
		}
	}
	if list := s.kept(filters, after); list != nil {
		return list, nil
	}
	if ok {
		list, err = selective.ChangesOf(ctx, filters, after, size)
	} else {
		list, err = s.Store.Changes(ctx, after, size)
	}
	if len(list) == 1 && err == nil {
		s.keep(long{after, filters, list, int64(Weight(&list[0]))})
	}
	return list, err
}

// kept is the long revision, if it is what comes after a revision.
func (s *Source) kept(filters []kv.Filter, after kv.Revision) []kv.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := &s.long; len(l.changes) > 0 && l.after <= after && after < l.changes[0].Revision && slices.Equal(l.filters, filters) {
		return l.changes
	}
	return nil
}

// keep keeps a revision in place of the one before, if it takes more than a piece and a cursor is in
// the middle of one.
func (s *Source) keep(l long) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Long = s.Long.Or(longBytes)
	if l.weight <= int64(s.Piece) || s.midway == 0 {
		return
	}
	s.forgetLocked()
	if s.Long.Take(l.weight) {
		s.long = l
	}
}

func (s *Source) forgetLocked() {
	if s.long.weight > 0 {
		s.Long.Give(s.long.weight)
	}
	s.long = long{}
}

// stays takes note that a cursor is in the middle of a revision, or no longer.
func (s *Source) stays(midway bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if midway {
		s.midway++
		return
	}
	if s.midway--; s.midway == 0 {
		s.forgetLocked()
	}
}

// Fetch reads what comes next from the store when Offer cannot: a piece of the
// changes since, or of the state. It may wait for a disk. Once the cursor has
// caught up with the feed, Offer suffices again.
func (c *Cursor) Fetch(ctx context.Context) error {
	if c.state != nil {
		return c.fetchState()
	}
	chunk, err := c.source.Read(ctx, []*Cursor{c})
	if err != nil {
		return err
	}
	c.Offer(chunk)
	return nil
}

func (s *Source) open() *heldView {
	held := &heldView{s.Store.View()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.views == nil {
		s.views = make(map[*heldView]struct{})
	}
	s.views[held] = struct{}{}
	return held
}

// closeView closes the view of the state, if it is open.
func (s *Source) closeView(st *state) {
	if st.view == nil {
		return
	}
	s.mu.Lock()
	delete(s.views, st.view)
	s.mu.Unlock()
	st.view.Close()
	st.view = nil
}

// hold asks for permission to hold a whole state; release returns it.
func (s *Source) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holding == s.Holders {
		return false
	}
	s.holding++
	return true
}

// release releases everything that st holds.
func (s *Source) release(st *state) {
	s.closeView(st)
	st.held = nil
	if st.holding {
		st.holding = false
		s.mu.Lock()
		s.holding--
		s.mu.Unlock()
	}
}

// Holding returns how many cursors hold a whole state, for tests and metrics.
func (s *Source) Holding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holding
}

// Close closes the views of cursors that were not closed. No cursor may be used any
// more.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for held := range s.views {
		held.Close()
	}
	clear(s.views)
}
