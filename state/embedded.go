package state

import (
	"context"
	"sync"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/follow"
)

// Limits of what the watches of an Embedded share.
const (
	recentBytes = 4 << 20   // of the newest changes
	pieceBytes  = 64 << 10  // of changes that a watch takes in one go
	noticeBytes = 256 << 10 // of a notice
	maxHolders  = 8         // watches that are told the state at a time
)

// Embedded is a Store on the engine of this process. It may write to guarded namespaces.
type Embedded struct {
	// set at open
	store  kv.Store
	source follow.Source
	recent *follow.Recent
	unhook func()

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu
	closed  bool                // guarded by mu
}

// Embed makes a Store of store, which must outlive it. What watches keep counts in pool,
// which may be nil. Close it.
func Embed(store kv.Store, pool *memory.Pool) *Embedded {
	s := &Embedded{
		store:   store,
		source:  follow.Source{Store: store, Piece: pieceBytes, Holders: maxHolders, Long: pool},
		recent:  follow.NewRecent(recentBytes, pool),
		watches: map[*watch]struct{}{},
	}
	s.unhook = store.Follow(s.follow)
	s.recent.Begin(store.Revision())
	return s
}

// Close ends all watches.
func (s *Embedded) Close() {
	s.unhook()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for w := range s.watches {
		w.end()
	}
	s.recent.Pass(s.store.Revision())
}

// follow runs on the store's goroutine.
func (s *Embedded) follow(b *kv.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watches) == 0 {
		s.recent.Pass(b.Last())
		return
	}
	s.recent.Add(b)
	for w := range s.watches {
		w.poke()
	}
}

// Get implements Store.
func (s *Embedded) Get(ns, key string) *kv.Entry {
	e, _ := s.store.Get([]byte(ns), []byte(key))
	return e
}

// GetMany implements Store.
func (s *Embedded) GetMany(ns string, keys ...string) []*kv.Entry {
	reads, entries := make([]kv.Read, len(keys)), make([]*kv.Entry, len(keys))
	for i, key := range keys {
		reads[i] = kv.Read{NS: []byte(ns), Key: []byte(key)}
	}
	s.store.GetEach(reads)
	for i := range reads {
		entries[i] = reads[i].Entry
	}
	return entries
}

// View implements Store.
func (s *Embedded) View() kv.View { return s.store.View() }

// List implements Store.
func (s *Embedded) List(l kv.List) (kv.Page, error) {
	view := s.store.View()
	defer view.Close()
	return view.List(l)
}

// Txn implements Store.
func (s *Embedded) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	own := *txn // the store keeps it
	own.System = true
	return kv.Commit(ctx, s.store, &own)
}

// KeepLease implements Store.
func (s *Embedded) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return s.store.KeepAlive(ctx, id)
}

// Watch implements Store.
func (s *Embedded) Watch(_ context.Context, f kv.Filter, after kv.Revision) (Watch, error) {
	w := &watch{store: s, news: make(chan struct{}, 1), over: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	s.watches[w] = struct{}{} // before the cursor: it must be told of everything since
	s.mu.Unlock()
	cursor, _, err := s.source.Open(follow.Request{Filter: f, From: after, State: after == 0})
	if err != nil {
		w.Stop()
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cursor = cursor
	return w, nil
}

var errClosed = codes.Errorf(codes.Closed, "the watch has ended")

type watch struct {
	// set at open
	store *Embedded
	news  chan struct{} // capacity 1: the store has changed
	over  chan struct{} // closed when the watch has ended
	once  sync.Once

	mu     sync.Mutex     // held while the cursor is used
	cursor *follow.Cursor // guarded by mu
}

func (w *watch) poke() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watch) end() { w.once.Do(func() { close(w.over) }) }

// Next implements Watch.
func (w *watch) Next(ctx context.Context) (kv.Notice, error) {
	for {
		n, ok, err := w.poll(ctx)
		if ok || err != nil {
			return n, err
		}
		select {
		case <-w.news:
		case <-w.over:
		case <-ctx.Done():
			return kv.Notice{}, ctx.Err()
		}
	}
}

func (w *watch) poll(ctx context.Context) (kv.Notice, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.over:
		return kv.Notice{}, false, errClosed
	default:
	}
	since := func(after kv.Revision) follow.Chunk { return w.store.recent.Since(after, pieceBytes) }
	cost := func(e *kv.Event) int { return e.Entry.Size() + memory.VersionCost }
	return w.cursor.Poll(ctx, since, follow.Cut{Max: noticeBytes, Cost: cost})
}

// Stop implements Watch.
func (w *watch) Stop() {
	w.end()
	w.store.mu.Lock()
	delete(w.store.watches, w)
	w.store.mu.Unlock()
	w.mu.Lock() // no cursor is in use any more
	defer w.mu.Unlock()
	if w.cursor != nil {
		w.cursor.Close()
		w.cursor = nil
	}
}
