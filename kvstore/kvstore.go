// Package kvstore is the contract of the state store's engines: what an engine
// offers beyond kv.Store, what it says about itself, and what it cannot do.
//
// kvstore/pebblekv is the embedded engine. kvstore/kvtest is the suite that every
// engine passes: its first level always, its second as far as Capabilities go.
package kvstore

import (
	"confcenter/codes"
	"confcenter/kv"
)

// Capabilities names what not every engine can do. The embedded engine can do all
// of it.
type Capabilities struct {
	// ExpireEvents: kv.Expire is told from kv.Delete.
	ExpireEvents bool
	// MillisecondTTL: keys and leases end within some ms of their time, not within
	// some seconds.
	MillisecondTTL bool
	// HistoryByCount: as many versions of each key are kept as were asked for,
	// whatever happened to other keys.
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
	// DeletionTime: an entry that tells of a deletion tells when it was.
	DeletionTime bool
	// HistoryAcrossDeletions: a key's history reaches back beyond its last deletion.
	HistoryAcrossDeletions bool
	// LargeTxns: a transaction may have kv.MaxTxnBytes, not just what the largest
	// value needs.
	LargeTxns bool
}

// Everything is all capabilities.
func Everything() Capabilities {
	return Capabilities{
		ExpireEvents: true, MillisecondTTL: true, HistoryByCount: true, ManyOps: true, DurableTokens: true, TxnLeases: true,
		LeaseIsRevision: true, DeletionTime: true, HistoryAcrossDeletions: true, LargeTxns: true,
	}
}

// What every engine takes in one transaction.
const (
	fewOps   = 128
	fewBytes = kv.MaxValue + 64<<10
)

// Check says whether an engine with these capabilities takes a transaction that kv
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

// Stats is what an engine tells about itself: counters since it was opened, and
// the present state of what is stored. Revisions are as in kv.
type Stats struct {
	Revision   kv.Revision // newest
	Namespaces int64
	Keys       int64
	Bytes      int64 // of keys and values
	Leases     int64
	Tokens     int64

	LogFloor     kv.Revision // changes after it can be read back
	HistoryFloor kv.Revision // versions that ended before it may be gone
	DiskBytes    int64       // everything on disk
	FreeBytes    int64       // of the file system

	Queue    int64  // transactions waiting for the committer
	Commits  uint64 // transactions that changed something
	Groups   uint64 // durable writes they shared
	Failed   uint64 // transactions refused after they were queued
	Busy     uint64 // transactions not taken because the queue was full
	Refused  uint64 // writes refused for want of space or quota
	Replayed uint64 // transactions answered from their token
	Expired  uint64 // keys ended by their time or lease
	Views    int64  // open now
	ViewsCut uint64 // views ended because they were open for too long
}

// Engine is a store with what its owner needs.
type Engine interface {
	kv.Store
	Capabilities() Capabilities
	// Stats may be called from any goroutine and is cheap.
	Stats() Stats
	// Close finishes what Commit accepted, calls every done, and gives the data
	// directory up. Nothing may be called after it but methods that fail with
	// codes.Closed.
	Close() error
}
