package replica

import (
	"context"
	"time"

	"confcenter/kv"
	"confcenter/kvstore"
)

// Log is where transactions become durable and what was there before is read
// back: all of an engine that a replica is not. The replica alone calls it, and
// calls nothing after Close.
type Log interface {
	// Load tells what is stored and returns the newest revision. It is called once,
	// before everything else.
	Load(ctx context.Context, load Loader) (kv.Revision, error)
	// Append makes a group durable and keeps it, with all it refers to. One
	// goroutine calls it, and never again after it has failed.
	Append(group []Commit) error
	// Writable says why a transaction cannot be taken now; deletesOnly: it only
	// deletes. It is asked for every transaction that writes: it must be cheap.
	Writable(deletesOnly bool) error
	// DropTokens says that the tokens of transactions up to rev are forgotten.
	DropTokens(rev kv.Revision)

	// These may be called from any goroutine and may see what Append has made
	// durable before readers of the store see it. They are as in kv.Store.
	Changes(after kv.Revision, maxBytes int) ([]kv.Change, error)
	GetAt(ns, key string, rev kv.Revision) (*kv.Entry, error)
	History(ns, key string, before kv.Revision, limit int) (kv.Versions, error)

	Capabilities() kvstore.Capabilities
	Stats() LogStats
	Close() error
}

// Commit is one transaction as the log keeps it. Events may be empty: a lease was
// granted, or a transaction with a token changed nothing. The revision of every
// event's entry is the change's. Events of keys that existed must carry Prev.
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
	LogFloor     kv.Revision // changes after it can be read back
	HistoryFloor kv.Revision // versions that ended before it may be gone
	DiskBytes    int64       // everything on disk; about a second old
	FreeBytes    int64       // of the file system, likewise; below 0 if not known
}
