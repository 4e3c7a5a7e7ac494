// Package kvstore is the contract of the state store's engines: what an engine
// offers beyond kv.Store, and what it says about itself.
//
// kvstore/pebblekv is the embedded engine. kvstore/memory is the engine of tests,
// and kvstore/suite has the tests that every engine passes.
//
// What must stay true of each:
//
//   - Acknowledged means on disk, and reads show nothing earlier. One committer decides the
//     order. A group of transactions is one record of the log, from which everything else on
//     disk can be made again.
//   - A transaction that changes something is one revision; revisions rise. No one sees half a
//     transaction, whether by reading, listing or following.
//   - What cannot be proven is said: a version that may be gone is "compacted", never
//     "absent", and a data directory that may have lost acknowledged writes is refused by name.
//   - An expiry is a write like any other, decided by the committer. No lease ends early
//     because the process stood still.
//   - A lock is its key and nothing in memory; its fence is the key's create revision. Lines
//     of waiters may be lost, fences not.
//   - Users know package kv only. They follow by a cursor of kv/follow: told in order, once,
//     without a gap. Who falls behind reads back from the log, or is told to forget everything
//     and is given the state.
package kvstore

import (
	"confcenter/internal/health"
	"confcenter/kv"
)

// Engine is a store with what its owner needs.
type Engine interface {
	kv.Archive
	kv.Forgetter
	kv.Copier
	// Stats may be called from any goroutine and is cheap.
	Stats() kv.Stats
	// Writable returns why writes are not accepted at the moment, nil if they are. It is
	// cheap, and may be called from any goroutine.
	Writable() error
	// Owned are the leases that have an owner. Any goroutine may call it; with many
	// leases it takes long.
	Owned() []kv.LeaseID
	// Holding tells about a lease with its keys. codes.LeaseGone. Any goroutine may call it.
	Holding(id kv.LeaseID) (kv.Holding, error)
	// Trouble says the same at more length, for those who operate the server. nil: all
	// writes are accepted. It is cheap, and may be called from any goroutine.
	Trouble() *health.Trouble
	// Damage says what cannot be read any more although writes go on; nil: nothing that is known of.
	Damage() *health.Trouble
	// Close finishes what Commit accepted, calls every done, and gives the data
	// directory up. Nothing may be called after it but methods that fail with
	// codes.Closed.
	Close() error
}
