// Package kvstore is the state store, but for its log: all current values in memory, one goroutine that
// changes them, and everything that kv.Store promises, over a [Log] that makes transactions durable. What a
// server needs of it is an [Engine].
//
// kvstore/disk has the log on disk, kvstore/memory one that is a list, for tests, and kvstore/suite the tests
// that a store on either passes.
//
// The path of a transaction: Commit puts it into the queue (queue.go). The committer
// (committer.go) takes everything that is queued, evaluates it in order against the index
// and the transactions before it (evaluate.go, group.go), appends the group to the log
// (log.go), makes it visible at once (index.go), tells the followers and completes the
// callers. Readers therefore see only what is durable, and never half of a transaction.
//
// Reads return the newest version of a key at or below the visible revision. A View
// keeps the versions of its revision (view.go). Past state (GetAt, History, Changes)
// comes from the log.
//
// Several stores may share a log, a [SharedLog], each with all state in its own memory. A transaction is
// evaluated by the store it came to and nowhere else. Its group is appended under one compare: the log
// takes it if nothing was appended since what it was evaluated against. Otherwise the store takes its
// evaluation back, applies what the others have appended, and evaluates those again who still wait
// (shared.go). Evaluation therefore has no lasting effect: what is kept of tokens, leases, the audit's chain
// and counts changes when a group is applied, the store's own and those of others alike. Times to live may
// end at any store. A lease ends at, and is kept alive by, the store that granted it, its home; a store that
// is not opened again leaves its leases. Tokens are forgotten by each store's own clock and settings.
//
// What must stay true, over each log:
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
