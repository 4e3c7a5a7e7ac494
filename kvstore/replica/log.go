package replica

import (
	"context"
	"errors"
	"time"

	"confcenter/kv"
	"confcenter/kvstore"
)

// Log is where transactions become durable, where those of other replicas come
// from, and where what was there before is read back: all of an engine that a
// replica is not. A replica changes nothing by itself: it proposes, and applies what
// Tail brings. A log that keeps leases, too, is a [LeaseKeeper].
//
// One goroutine of the replica calls Propose and Tail, the other methods may be
// called from any. Nothing is called after Close.
type Log interface {
	// Load tells what is stored and returns its revision, after which Tail goes on.
	// It is called before everything else, and again when Tail says ErrReset.
	Load(ctx context.Context, load Loader) (kv.Revision, error)
	// Shared says that others write to the log as well. Revisions of commits that
	// are proposed are then guesses, and each needs its Proof. In a log that is not
	// shared they follow each other without a gap.
	Shared() bool

	// Propose makes transactions durable, in this order, each with a revision of its
	// own, which it writes into the commit. It returns how many it took: the others
	// behind them were not tried, but for the first, of which the error tells.
	// ErrConflict: its proof does not hold, it has no effect; what it conflicts with
	// is below the next Barrier. ErrUnknown: it may have taken effect or do so yet;
	// Tail brings it if it does. With any other error that is not known either, and
	// the log takes no more. The log owns group, with all it refers to. ctx ends when
	// the store is being closed and has waited long enough.
	Propose(ctx context.Context, group []Commit, proofs []Proof) (taken int, err error)
	// Tail returns the transactions after a revision, whoever proposed them: all that
	// have arrived, in order, none missing, and the revision through which there are no
	// others. It does not wait. What Propose took has arrived when it returns, unless
	// the log is shared. ErrReset: what came after that revision can no longer be had
	// one by one; the replica loads anew, and tells those who follow it that it has
	// missed something. Any other error ends it.
	Tail(after kv.Revision) (tail []Commit, through kv.Revision, err error)
	// Arrived gets something when Tail may have something that it had not before;
	// nil if the log is not shared.
	Arrived() <-chan struct{}
	// Barrier returns a revision that is not below that of any transaction that took
	// effect before it was called.
	Barrier(ctx context.Context) (kv.Revision, error)

	// Writable says why a transaction cannot be taken now; deletesOnly: it only
	// deletes. It is asked for every transaction that writes: it must be cheap.
	Writable(deletesOnly bool) error
	// DropTokens says that the tokens of transactions up to rev are forgotten.
	DropTokens(rev kv.Revision)

	// These may see what Propose has made durable before readers of the store see
	// it. They are as in kv.Store, where Versions is History.
	Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error)
	GetAt(ctx context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error)
	Versions(ctx context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error)
	// Floors says how far back these reach: changes after the one can be read, and
	// versions that ended before the other may be gone. It is cheap.
	Floors() (changes, versions kv.Revision)

	Capabilities() kvstore.Capabilities
	Stats() LogStats
	Close() error
}

// ErrReset is what Tail says when it cannot go on from a revision: what followed it is
// compacted, or the log's history is another one now.
var ErrReset = errors.New("the log cannot go on from there; it has to be loaded again")

// What Propose says of the first transaction that it did not take.
var (
	ErrConflict = errors.New("another transaction came first")
	ErrUnknown  = errors.New("it is not known whether the transaction took effect")
)

// Proof is what a transaction was evaluated on: it may take effect only where all
// of it is so. The keys that it changes are among its reads.
type Proof struct {
	Reads  []Read
	Leases []kv.LeaseID // exist

	// After is what the replica had seen of others: in none of Ranges a key was
	// written later (those that were deleted are among Reads, if they mattered), no
	// key was given later to one of Ending, and no later transaction has the token of
	// this one.
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

// Commit is one transaction as the log keeps it. Events may be empty: a lease was
// granted, or a transaction with a token changed nothing. The revision of every
// event's entry is the change's. Events of keys that existed carry Prev when they
// are proposed; when they come by Tail they need not.
type Commit struct {
	kv.Change
	Token  *Token
	Leases []LeaseChange
}

// Token remembers what a transaction with a request token answered.
type Token struct {
	NS, Name string
	Digest   [16]byte // of the transaction, by which a reuse is recognised
	Revision kv.Revision
	Time     int64  // ms since 1970
	Result   []byte // in the replica's own form
}

// LeaseChange is a lease that was granted, or has ended.
type LeaseChange struct {
	ID    kv.LeaseID
	TTL   time.Duration // whole ms
	Ended bool
}

// Loader takes what a log finds when it is loaded; its functions are called one at
// a time and may keep what they get. First come entries, in the order of namespace
// and key, leases, and tokens, oldest first: the store as of one revision. Then
// come the transactions after it, as the log got them but without Prev.
type Loader struct {
	Entry  func(*kv.Entry)
	Lease  func(LeaseChange)
	Token  func(*Token)
	Commit func(*Commit)
}

// LogStats is what a log tells of what it keeps.
type LogStats struct {
	DiskBytes int64 // everything on disk; about a second old
	FreeBytes int64 // of the file system, likewise; below 0 if not known
}
