// Package embedded is the state store of a server as its models use it, in the same process: a few methods
// that wait for the answer. A model is written against [Store] alone, and runs on [InProcess], where it may
// write to the namespaces that are guarded for it.
package embedded

import (
	"context"
	"iter"

	"confcenter/kv"
)

// Store is the state store of a server, as its models use it. Its methods may be called from any
// goroutine. What writes may wait for a disk until the context ends, and is not for event loops; what
// reads is answered from memory.
type Store interface {
	// Get reads one key; nil if it is absent.
	Get(ns, key string) *kv.Entry
	// GetMany reads keys of one namespace at one revision; nil for each that is absent.
	GetMany(ns string, keys ...string) []*kv.Entry
	// View is the store as it is now, to be read at one moment, page after page. Close it.
	View() kv.View
	// List reads one page, all of it at one revision.
	List(l kv.List) (kv.Page, error)
	// Txn applies a transaction, also such a one that grants or ends a lease. If the context
	// ends first, it may still be applied later: with a Token it can be sent again without
	// harm.
	Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error)
	// KeepLease begins a lease's time anew. codes.LeaseGone.
	KeepLease(ctx context.Context, id kv.LeaseID) (kv.Lease, error)
	// Watch follows the keys that the filter selects: what changes after a revision or, after
	// 0, first the state there is, as notices of kv.State and kv.Synced. Events have Prev
	// where the store still knows it. The context is for opening it only.
	Watch(ctx context.Context, f kv.Filter, after kv.Revision) (Watch, error)
}

// Watch tells of changes, in their order, without a gap and without a repetition. If that is
// not possible, because they are no longer kept, there is a notice of kv.Resync: what was
// told before is void, and the state follows.
type Watch interface {
	// Next waits for the next notice. Its events are valid until the next call. It fails once
	// the watch is stopped, its store is closed or the context has ended; only the last of
	// these leaves the watch as it is. One goroutine at a time may call it.
	Next(ctx context.Context) (kv.Notice, error)
	// Stop ends the watch, from any goroutine.
	Stop()
}

// Each reads what l asks for with read, page after page; the last may be an error instead.
func Each(read func(kv.List) (kv.Page, error), l kv.List) iter.Seq2[*kv.Entry, error] {
	return func(yield func(*kv.Entry, error) bool) {
		for more := true; more; {
			page, err := read(l)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range page.Entries {
				if l.After = e.Key; !yield(e, nil) {
					return
				}
			}
			more = page.More && len(page.Entries) > 0
		}
	}
}
