package replica

import (
	"context"
	"errors"
	"time"

	"confcenter/access"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore"
)

// Log makes transactions durable, delivers those of other replicas, and reads past
// state back: it is everything in an engine that the replica is not. A replica changes
// nothing by itself: it proposes, and applies what Tail returns. A log that also keeps
// leases is a [LeaseKeeper].
//
// One goroutine of the replica calls Propose and Tail; the other methods may be called
// from any goroutine. No method is called after Close.
type Log interface {
	// Load passes what is stored to load and returns its revision, from which Tail
	// continues. It is called before anything else, and again after Tail returned
	// ErrReset.
	Load(ctx context.Context, load Loader) (kv.Revision, error)
	// Shared reports whether others write to the log as well. If so, the revisions of
	// proposed commits are guesses, and each commit needs its Proof. In a log that is
	// not shared, revisions follow each other without a gap.
	Shared() bool

	// Propose makes transactions durable, in this order, each at a revision of its
	// own, which it writes into the commit. It returns how many it took. The error is
	// about the first that it did not take; those after it were not tried.
	// ErrConflict: the proof does not hold and the transaction has no effect; the
	// conflicting one is at or below the next Barrier. ErrUnknown: the transaction may
	// have taken effect or may still do so; if it does, Tail returns it. Unless the log is
	// shared, this is so of all that were not taken, and Writable refuses everything until
	// Tail has said what became of them. Any other
	// error leaves that open as well, and the log takes no more. The log owns group
	// and everything it refers to. ctx is cancelled when the store has been closing
	// for too long.
	Propose(ctx context.Context, group []Commit, proofs []Proof) (taken int, err error)
	// Tail returns all transactions after a revision that have arrived, no matter who
	// proposed them, in order and without gaps, and the revision through which it is
	// complete. It does not wait. Unless the log is shared, what Propose took has
	// arrived when Propose returns. ErrReset: the transactions after that revision are
	// no longer available one by one; the replica reloads and tells its followers that
	// it has missed something. ErrUnknown: the log does not know yet what became of a
	// proposal that failed; Arrived tells when it does. Any other error is fatal to the
	// replica.
	Tail(after kv.Revision) (tail []Commit, through kv.Revision, err error)
	// Arrived receives a value when Tail may have something new; nil if the log is not
	// shared and never fails with ErrUnknown.
	Arrived() <-chan struct{}
	// Barrier returns a revision at or above that of every transaction that took effect
	// before the call.
	Barrier(ctx context.Context) (kv.Revision, error)

	// Writable returns why a transaction cannot be taken now that may use so much. It must be
	// cheap, since it is called for every transaction that writes.
	Writable(uses Room) error
	// Trouble says at more length why Writable(Ordinary) fails; nil if it does not. It may
	// fail to notice what was not tried.
	Trouble() *health.Trouble
	// DropTokens lets the log forget the tokens of transactions up to a revision, and those of
	// others. It need not last: what is still there when the log is loaded again is there again.
	DropTokens(through kv.Revision, others []kv.Revision)

	// These are as in kv.Store, where Versions is called History. They may return what
	// Propose has made durable before readers of the store can see it.
	Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error)
	GetAt(ctx context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error)
	Versions(ctx context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error)
	// ListArchive is as in kv.Archive.
	ListArchive(ctx context.Context, l kv.List) (kv.Page, error)
	// Floors returns how far back these reach: changes after the first revision can be
	// read, and versions superseded before the second may be gone. It is cheap.
	Floors() (changes, versions kv.Revision)

	// Identity is as in kv.Archive.
	Identity() string

	Capabilities() kvstore.Capabilities
	Stats() LogStats
	Close() error
}

// Room is how much of a disk that is nearly full a transaction may use.
type Room uint8

// The rooms.
const (
	Ordinary Room = iota // what is not kept in reserve
	Reserve              // most of the reserve as well: it only deletes, or lets others leave
	LastByte             // all there is: it takes rights away, see kv.Txn.Lessens
)

// ErrReset is returned by Tail when it cannot continue from a revision: what followed
// has been compacted, or the log's history has been replaced.
var ErrReset = errors.New("the log cannot continue from there; it has to be reloaded")

// Errors that Propose returns for the first transaction it did not take.
var (
	ErrConflict = errors.New("another transaction came first")
	ErrUnknown  = errors.New("it is not known whether the transaction took effect")
)

// Proof is what the evaluation of a transaction relied on: the transaction may take
// effect only while all of it still holds. The keys it changes are among its reads.
type Proof struct {
	Reads  []Read
	Leases []kv.LeaseID // exist

	// After is the revision up to which the replica had seen the log. Since then no key
	// in Ranges was written (deleted ones are among Reads if they mattered), no key was
	// attached to a lease in Ending, and no transaction used the token of this one.
	After  kv.Revision
	Ranges []Range
	Ending []kv.LeaseID
}

// Read is a key and the revision that changed it last; 0: it does not exist.
type Read struct {
	NS, Key string
	Mod     kv.Revision
}

// Range is the keys with a prefix.
type Range struct{ NS, Prefix string }

// Commit is one transaction as the log keeps it. Events is empty if only a lease was
// granted, or if a transaction with a token changed nothing. Every event's entry has
// the revision of the change. A proposed event of an existing key carries Prev; an
// event returned by Tail need not.
type Commit struct {
	kv.Change
	Token   *Token
	Leases  []LeaseChange
	Archive []kv.Event // of kv.Archived namespaces, sorted like Events and without Prev
}

// Token is the remembered answer to a transaction with a request token.
type Token struct {
	NS, Name string
	Who      string   // was proved to ask; empty: nobody
	Digest   [16]byte // of the transaction, by which a reuse is recognised
	Revision kv.Revision
	Time     int64  // ms since 1970
	Result   []byte // in the replica's own encoding

	own int64 // Time by the monotonic clock, by which it is forgotten; set when it is remembered
}

// LeaseChange is a lease that was granted, or has ended.
type LeaseChange struct {
	ID    kv.LeaseID
	TTL   time.Duration // whole ms
	Ended bool
	Owner *access.Identity // who it was granted to; nil: nobody who was known, or it has ended
}

// Loader receives the contents of a log as it is loaded. Its functions are called one
// at a time and may keep what they are given. The store as of one revision comes first:
// entries in the order of namespace and key, then leases, then tokens, oldest first.
// The transactions after that revision follow, as they were proposed but without Prev.
type Loader struct {
	Entry  func(*kv.Entry)
	Lease  func(LeaseChange)
	Token  func(*Token)
	Commit func(*Commit)
}

// LogStats describes what a log keeps.
type LogStats struct {
	DiskBytes int64 // everything on disk; about a second old
	FreeBytes int64 // of the file system, likewise; below 0 if not known
}
