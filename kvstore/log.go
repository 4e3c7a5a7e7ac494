package kvstore

import (
	"context"
	"time"

	"confcenter/access"
	"confcenter/internal/health"
	"confcenter/kv"
)

// Log makes transactions durable and reads past state back: it is everything in an
// engine that the Store is not. Only one Store writes to it, unless it is a SharedLog.
//
// One goroutine of the Store calls Append and Forget; the other methods may be called
// from any goroutine. No method is called after Close.
type Log interface {
	// Load passes what is stored to load and returns its revision. It is called once,
	// before anything else.
	Load(ctx context.Context, load Loader) (kv.Revision, error)

	// Append makes transactions durable, in this order, all or none; their revisions follow
	// each other without a gap. After an error the log takes no more, and whether it has the
	// group shows when it is loaded by the next Store. The log owns group and everything it
	// refers to.
	Append(group []Commit) error
	// Failed is closed when the log takes nothing more until it is opened again. Trouble says why.
	Failed() <-chan struct{}
	// Forget has the log forget entries, each the newest of its key. It does not wait, and
	// need not last: what is still there when the log is loaded again is there again. It is
	// called between two groups.
	Forget(entries []*kv.Entry)

	// Writable returns why a transaction cannot be taken now that may use so much. It must be
	// cheap, since it is called for every transaction that writes.
	Writable(uses Room) error
	// Trouble says at more length why Writable(Ordinary) fails; nil if it does not. It may
	// fail to notice what was not tried.
	Trouble() *health.Trouble
	// Damage says what cannot be read any more; nil: nothing that is known of. Writes go on.
	Damage() *health.Trouble
	// DropTokens lets the log forget the tokens of transactions up to a revision, and those of
	// others. It need not last: what is still there when the log is loaded again is there again.
	DropTokens(through kv.Revision, others []kv.Revision)

	// These are as in kv.Store, where Versions is called History. They may return what
	// Append has made durable before readers of the store can see it.
	Changes(after kv.Revision, maxBytes int) ([]kv.Change, error)
	GetAt(ns, key string, rev kv.Revision) (*kv.Entry, error)
	Versions(ns, key string, before kv.Revision, limit int) (kv.Versions, error)
	// ListArchive is as in kv.Archive, and Copy as in kv.Copier.
	ListArchive(l kv.List) (kv.Page, error)
	Copy() (kv.Copy, error)
	// Floors returns how far back these reach: changes after the first revision can be
	// read, and versions superseded before the second may be gone. It is cheap.
	Floors() (changes, versions kv.Revision)

	// Identity is as in kv.Archive.
	Identity() string

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

// Commit is one transaction as the log keeps it. Events is empty if only a lease was
// granted, or if a transaction with a token changed nothing. Every event's entry has
// the revision of the change. The event of a key that existed carries Prev.
type Commit struct {
	kv.Change
	Token   *Token
	Leases  []LeaseChange
	Archive []kv.Event // of kv.Archived namespaces, sorted like Events and without Prev
}

// Token is the remembered answer to a transaction with a request token.
type Token struct {
	NS, Name string
	Who      string   // was proved to ask; empty: no one
	Digest   [16]byte // of the transaction, by which a reuse is recognised
	Revision kv.Revision
	Time     int64  // ms since 1970
	Result   []byte // in the Store's own encoding

	own int64 // Time by the monotonic clock, by which it is forgotten; set when it is remembered
}

// LeaseChange is a lease that was granted, or has ended.
type LeaseChange struct {
	ID    kv.LeaseID
	TTL   time.Duration // whole ms
	Ended bool
	Owner *access.Identity // who it was granted to; nil: it is not known who, or it has ended
	Home  string           // the name of the store that granted it, see Config.Name; empty if the log is not shared
}

// Loader receives the contents of a log as it is loaded. Its functions are called one
// at a time and may keep what they are given. The store as of one revision comes first:
// entries in the order of namespace and key, then leases, then tokens, oldest first.
// The transactions after that revision follow, as they were appended but without Prev.
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
