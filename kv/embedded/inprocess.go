package embedded

import (
	"context"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/follow"
)

// shared is what the watches of an InProcess share.
var shared = follow.Config{
	Keep: 4 << 20, Piece: 64 << 10, Holders: 8, Readers: 8,
	Cut: follow.Cut{Max: 256 << 10, Cost: func(e *kv.Event) int { return e.Entry.Size() + memory.VersionCost }},
}

// InProcess is a Store on the engine of this process. It may write to guarded namespaces.
type InProcess struct {
	store   kv.Store
	watches *follow.Exact
}

// New makes a Store of store, which must outlive it. What watches keep counts in pool,
// which may be nil. Close it.
func New(store kv.Store, pool *memory.Pool) *InProcess {
	cfg := shared
	cfg.Store, cfg.Pool = store, pool
	return &InProcess{store, follow.NewExact(cfg)}
}

// Close ends all watches.
func (s *InProcess) Close() { s.watches.Close() }

// Get implements Store.
func (s *InProcess) Get(ns, key string) *kv.Entry {
	e, _ := s.store.Get([]byte(ns), []byte(key))
	return e
}

// GetMany implements Store.
func (s *InProcess) GetMany(ns string, keys ...string) []*kv.Entry {
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
func (s *InProcess) View() kv.View { return s.store.View() }

// List implements Store.
func (s *InProcess) List(l kv.List) (kv.Page, error) {
	view := s.store.View()
	defer view.Close()
	return view.List(l)
}

// Txn implements Store.
func (s *InProcess) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	own := *txn // the store keeps it
	own.System = true
	return kv.Commit(ctx, s.store, &own)
}

// KeepLease implements Store.
func (s *InProcess) KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error) {
	return s.store.KeepAlive(ctx, id)
}

// Watch implements Store.
func (s *InProcess) Watch(_ context.Context, f kv.Filter, after kv.Revision) (Watch, error) {
	w, err := s.watches.Follow(follow.Request{Filter: f, From: after, State: after == 0})
	if err != nil {
		return nil, err
	}
	return w, nil
}
