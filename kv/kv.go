// Package kv is the vocabulary of the state store: values, entries, operations,
// transactions and events, what is valid in them, and the interface that users of a
// store need.
//
// The store holds entries under a namespace and a key. Each entry has a typed value
// that is returned exactly as it was written. All changes go through [Txn]:
// compares, then operations, applied together or not at all, under one new
// [Revision]. Puts, batches, compare-and-swaps and increments are special
// transactions; so are granting and revoking a [Lease]. What a
// transaction changed is published as a [Change], and kv/follow turns changes into
// notices, in order and without gaps.
//
// Begin with [Entry], [Txn] and [Store], in that order. Engines are in kvstore/…;
// nothing here does I/O.
package kv

import (
	"context"
	"time"

	"confcenter/access"
	"confcenter/codes"
)

// Revision counts the transactions that changed the store, from 1. Later changes
// have greater revisions; they need not be consecutive. 0 is before the first.
type Revision int64

// LeaseID names a lease: the revision that granted it. 0 is none.
type LeaseID int64

// Entry is one key as of some revision. Entries are shared and immutable: a caller
// may keep one but must not modify it, including the bytes of its value.
type Entry struct {
	NS, Key string
	Value   Value
	Create  Revision // of the transaction that made the key
	Mod     Revision // of the transaction that changed it last
	Version int64    // how many transactions changed it since Create, from 1; 0 marks a deleted key
	Updated int64    // when, in ms since 1970
	Expires int64    // when it expires, in ms since 1970; 0: never
	Lease   LeaseID  // when it ends, so does the entry; 0: none

	// Ends is Expires if that came from a time to live, by a clock of the server that setting the time
	// of day does not move: then the entry ends by that. 0: it ends at Expires.
	Ends int64
}

// Deleted reports whether the entry stands for a deletion: it has no value, and Mod
// and Updated are the deletion's.
func (e *Entry) Deleted() bool { return e.Version == 0 }

// Size is what an entry counts towards quotas: the bytes of key and value.
func (e *Entry) Size() int { return len(e.Key) + len(e.Value.Data) }

// EventKind is how a key changed.
type EventKind uint8

// The kinds of events.
const (
	Put    EventKind = iota + 1 // written, by whatever operation
	Delete                      // deleted by a request
	Expire                      // ended by its time to live or its lease
)

var eventNames = [...]string{Put: "put", Delete: "delete", Expire: "expire"}

func (k EventKind) String() string {
	if int(k) < len(eventNames) && eventNames[k] != "" {
		return eventNames[k]
	}
	return "unknown"
}

// Event is the net effect of a transaction on one key.
type Event struct {
	Kind  EventKind
	Entry *Entry // for Delete and Expire one that is Deleted
	// Prev is the entry before the transaction; nil if the key was absent, or if the
	// event was read back and the version is no longer kept.
	Prev *Entry
}

// Change is all events of one transaction, sorted by namespace and key. It has no
// events if only a lease was granted or ended, or a token was kept.
type Change struct {
	Revision Revision
	Time     int64 // ms since 1970
	Events   []Event
}

// Batch is what the store made durable in one go: one or more changes in the order
// of their revisions. It is shared and immutable.
type Batch struct {
	Changes []Change
	// Reset says that the store missed changes of others between the previous batch
	// and this one, whose only change is their net effect. A follower that passes on
	// every change reads back, and learns from Changes that they are gone.
	Reset bool
}

// Last is the revision of the batch's last change.
func (b *Batch) Last() Revision { return b.Changes[len(b.Changes)-1].Revision }

// Namespace is one namespace that has keys.
type Namespace struct {
	Name  string `kv:"ns"`
	Keys  int64  `kv:"keys"`
	Bytes int64  `kv:"bytes"` // of keys and values
}

// Lease is a time to live that several keys can share: when it ends, they all
// expire.
type Lease struct {
	ID   LeaseID       `kv:"lease,must"`
	TTL  time.Duration `kv:"ttl"`  // as granted; each keep-alive restarts it
	Left time.Duration `kv:"left"` // until it ends, when asked
	Keys int           `kv:"keys"` // how many keys it has
	// Owner is who it was granted to, who alone may use it; nil: it was not known who.
	Owner *access.Identity
}

// NotHeld says that a lock is not held with a token, which is also the answer to those who may
// not give it back.
func NotHeld(f Fence) error {
	return codes.Errorf(codes.FenceLost, "if_fence: the lock %q of namespace %q is not held with token %d", f.Key, f.NS, f.Token)
}

// Holding is a lease with its keys.
type Holding struct {
	Lease
	Held []Fence // without tokens; some may not be on disk yet
}

// NoLease says that there is no lease, which is also the answer to those who may not use it.
func NoLease(id LeaseID) error {
	return codes.Errorf(codes.LeaseGone, "there is no lease %d, or it has ended", id)
}

// List asks for the keys of a namespace with a prefix, in byte order.
type List struct {
	NS     string `kv:"ns"`
	Prefix string `kv:"prefix"`
	After  string `kv:"after,omit"`       // continue after this key; "" from the beginning
	Limit  int    `kv:"limit,count,omit"` // maximum number of entries; 0 or more than MaxList: MaxList
	// MaxBytes ends the page after the entry that reaches it; 0: MaxPage.
	MaxBytes int
	// CountOnly asks for no entries: Count is then the exact number of keys with the
	// prefix, whatever After and Limit are.
	CountOnly bool `kv:"count_only"`
}

// Page is a part of a list, all of it at one revision.
type Page struct {
	Revision Revision
	Entries  []*Entry
	// Count is the number of entries in the page, or with CountOnly the number
	// of keys that have the prefix.
	Count int64
	More  bool // there are more keys: continue After the last one
}

// View is the whole store at one revision, in memory, for reads that belong
// together. It costs the store memory while it is open, so the store may end a View
// that is open for long: its methods then fail with codes.Compacted. Methods may be
// called from any goroutine; a call may take some time for a long page.
type View interface {
	Revision() Revision
	// Get returns nil for an absent key.
	Get(ns, key string) (*Entry, error)
	List(List) (Page, error)
	// Close must be called exactly once, after all other calls.
	Close()
}

// Versions is a part of a key's history, newest first.
type Versions struct {
	Entries []*Entry // Deleted ones stand for deletions
	More    bool     // there are older ones: ask again with Before = the last one's Mod
	// Floor is not 0 if versions older than it are no longer kept.
	Floor Revision
}

// Read is one key to look up with GetEach, and the result.
type Read struct {
	NS, Key []byte // not kept
	Entry   *Entry // nil: the key is absent
}

// Prefetch makes the processor fetch the values that were found, all at once, for a caller who
// is about to copy them one by one. The sum means nothing, but has to be kept somewhere: it is
// why the values are read.
func Prefetch(reads []Read) (sum byte) {
	const line, most = 64, 512 // the processor itself fetches what follows
	for i := range reads {
		if e := reads[i].Entry; e != nil {
			data := e.Value.Data
			for at := 0; at < min(len(data), most); at += line {
				sum += data[at]
			}
		}
	}
	return sum
}

// Write is one transaction of CommitEach, and its result. It belongs to the store
// until the caller gets it back; then the caller may reuse it and its Txn, but not
// the keys and values in it, which the store keeps.
type Write struct {
	Txn *Txn
	For any // the caller's own

	Result Result // if Err is nil
	Err    error

	one [1]OpResult
}

// Room clears the result and makes room for that many operations. It is for
// engines.
func (w *Write) Room(ops int) *Result {
	w.Result, w.Err, w.one[0] = Result{}, nil, OpResult{}
	if ops == len(w.one) {
		w.Result.Ops = w.one[:]
	} else {
		w.Result.Ops = make([]OpResult, ops)
	}
	return &w.Result
}

// Caller hands over transactions with CommitEach.
type Caller interface {
	// Committed returns finished transactions: in one call all that the store made
	// durable, or refused, in one go. Otherwise it is like the function given to
	// Commit. The list belongs to the caller.
	Committed([]*Write)
}

// Store is what its users need: servers, gateways, state models. Every method may
// be called from any goroutine.
type Store interface {
	// Revision is the newest revision that reads see; it is durable.
	Revision() Revision
	// Get reads one key from memory, without waiting and without allocating: it
	// may be called on an event loop. The entry is nil if the key is absent, and
	// is current at the revision returned. ns and key are not kept.
	Get(ns, key []byte) (*Entry, Revision)
	// GetEach is Get for each of some dozens of keys, all current at the revision
	// returned. Together they may be faster than one by one, because most of a
	// look-up is waiting for memory, and waits can overlap.
	GetEach([]Read) Revision
	// View pins the current revision. It does not wait.
	View() View
	// Namespaces lists those that have keys, in the order of their names, behind
	// after, at most limit (0: all). ConfigNamespace is not among them: it is there
	// whenever there are configurations.
	Namespaces(after string, limit int) (list []Namespace, more bool)

	// GetAt is the key as it was when rev was current: nil if it was absent.
	// codes.Compacted if that is no longer known, codes.FutureRevision if rev is
	// not reached. It may wait for a disk or a network: not for event loops, as
	// History and Changes are not.
	GetAt(ctx context.Context, ns, key string, rev Revision) (*Entry, error)
	// History lists at most limit (0 or more than MaxHistory: MaxHistory) versions
	// of a key older than before (0: all).
	History(ctx context.Context, ns, key string, before Revision, limit int) (Versions, error)
	// Changes returns what happened after revision after, oldest first and without
	// a gap, at least one change if there is one, else nil; it stops behind the
	// change that reaches maxBytes of entries with what the engine adds for each. codes.Compacted if changes after
	// that revision are no longer kept, codes.FutureRevision if it is not reached.
	// Events carry Prev where the store still has it.
	Changes(ctx context.Context, after Revision, maxBytes int) ([]Change, error)

	// Commit hands over a transaction, which the store owns from then on, with
	// everything it refers to. done is called exactly once, from a goroutine of the
	// store that it must not hold up, after the transaction is durable, visible to
	// all reads and told to all functions given to Follow; or with an error, when
	// nothing of it was or will be applied. Transactions are applied in the order
	// in which Commit was called. Commit itself fails, without calling done, with
	// codes.Busy when too much is waiting, codes.Closed, or what Check finds.
	Commit(txn *Txn, done func(*Result, error)) error
	// CommitEach is Commit for each of several transactions, handed over in one go, in
	// this order: the same is promised of each. It returns how many it took, and what
	// Commit would have said of the next if those are not all. The caller is told of
	// them in as few calls as possible.
	CommitEach(caller Caller, writes []*Write) (taken int, err error)
	// KeepAlive begins a lease's time again, and answers from memory. codes.LeaseGone;
	// codes.NotImplemented at a store that shares its log with the one that granted the lease.
	KeepAlive(ctx context.Context, id LeaseID) (Lease, error)
	// Lease tells about a lease, from memory. codes.LeaseGone.
	Lease(id LeaseID) (Lease, error)

	// Follow has fn called with every batch from now on, in order, by a goroutine
	// of the store that it must not hold up: before the batch's callers are
	// completed, after its changes are visible. stop ends that; when it returns,
	// fn is not running and is not called again. fn must not call stop.
	Follow(fn func(*Batch)) (stop func())
}
