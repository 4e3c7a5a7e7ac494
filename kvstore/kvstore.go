// Package kvstore is the contract of the state store's engines: what an engine
// offers beyond kv.Store, what it says about itself, and what it cannot do.
//
// kvstore/pebblekv is the embedded engine. kvstore/kvtest is the suite that every
// engine passes: its first level always, its second as far as Capabilities go.
//
// What must stay true of each:
//
//   - Acknowledged means on disk, and reads show nothing earlier. One committer decides the
//     order. A group of transactions is one record of the log, from which everything else on
//     disk can be made again.
//   - A transaction that changes something is one revision; revisions rise. Nobody sees half a
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
	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
)

// Capabilities names what not every engine can do. The embedded engine can do all
// of it.
type Capabilities struct {
	// ExpireEvents: kv.Expire events are distinguished from kv.Delete.
	ExpireEvents bool
	// MillisecondTTL: keys and leases end within milliseconds of their time, not seconds.
	MillisecondTTL bool
	// HistoryByCount: the configured number of versions of each key is kept, independent
	// of changes to other keys.
	HistoryByCount bool
	// ManyOps: a transaction may have kv.MaxOps operations, not just 128.
	ManyOps bool
	// DurableTokens: request tokens are remembered across restarts.
	DurableTokens bool
	// TxnLeases: leases are granted and revoked among other operations of a
	// transaction, not just alone.
	TxnLeases bool
	// LeaseIsRevision: a lease's ID is the revision that granted it.
	LeaseIsRevision bool
	// LeasesInMemory: KeepAlive answers from memory, without waiting, and after a start
	// each lease has its full time again.
	LeasesInMemory bool
	// DeletionTime: the entry of a deletion has the time of the deletion.
	DeletionTime bool
	// HistoryAcrossDeletions: a key's history reaches back beyond its last deletion.
	HistoryAcrossDeletions bool
	// LargeTxns: a transaction may have kv.MaxTxnBytes, not just the size of the largest
	// value.
	LargeTxns bool
	// Forgets: the engine is a kv.Forgetter that does not refuse.
	Forgets bool
}

// Everything is all capabilities.
func Everything() Capabilities {
	return Capabilities{
		ExpireEvents: true, MillisecondTTL: true, HistoryByCount: true, ManyOps: true, DurableTokens: true, TxnLeases: true,
		LeaseIsRevision: true, LeasesInMemory: true, DeletionTime: true, HistoryAcrossDeletions: true, LargeTxns: true, Forgets: true,
	}
}

// What every engine takes in one transaction.
const (
	fewOps   = 128
	fewBytes = kv.MaxValue + 64<<10
)

// Check reports whether an engine with these capabilities takes a transaction that kv
// allows.
func (c Capabilities) Check(txn *kv.Txn) error {
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		if !c.ManyOps && len(ops) > fewOps {
			return codes.Errorf(codes.TooManyOps, "transaction has %d operations, this store takes %d", len(ops), fewOps)
		}
		if !c.TxnLeases {
			if err := checkAlone(txn, ops); err != nil {
				return err
			}
		}
	}
	if !c.LargeTxns {
		if size := txn.Size(); size > fewBytes {
			return codes.Errorf(codes.TooLarge, "transaction has %d bytes of keys and values, this store takes %d", size, fewBytes)
		}
	}
	return nil
}

func checkAlone(txn *kv.Txn, ops []kv.Op) error {
	for i := range ops {
		kind := ops[i].Kind
		if (kind == kv.OpGrant || kind == kv.OpRevoke) && len(txn.Then)+len(txn.Else)+len(txn.If)+len(txn.Fences) > 1 {
			return codes.Errorf(codes.BadOp, "operation %d: this store takes %s only as a transaction's one operation, without conditions", i, kind)
		}
	}
	return nil
}

// Stats are an engine's figures.
type Stats = kv.Stats

// Engine is a store with what its owner needs.
type Engine interface {
	kv.Archive
	Capabilities() Capabilities
	// Stats may be called from any goroutine and is cheap.
	Stats() Stats
	// Writable returns why writes are not accepted at the moment, nil if they are. It is
	// cheap, and may be called from any goroutine.
	Writable() error
	// Owned are the leases that belong to somebody. Any goroutine may call it; with many
	// leases it takes long.
	Owned() []kv.LeaseID
	// Holding tells about a lease with its keys. codes.LeaseGone. Any goroutine may call it.
	Holding(id kv.LeaseID) (kv.Holding, error)
	// Trouble says the same at more length, for those who operate the server. nil: all
	// writes are accepted. It is cheap, and may be called from any goroutine.
	Trouble() *health.Trouble
	// Close finishes what Commit accepted, calls every done, and gives the data
	// directory up. Nothing may be called after it but methods that fail with
	// codes.Closed.
	Close() error
}
