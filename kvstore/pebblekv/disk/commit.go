package disk

import (
	"time"

	"confcenter/kv"
)

// Token remembers what a transaction with a request token answered.
type Token struct {
	NS, Name string
	Digest   [16]byte // of the transaction, by which a reuse is recognised
	Revision kv.Revision
	Time     int64  // ms since 1970
	Result   []byte // in the engine's own form
}

// LeaseChange is a lease that was granted, or has ended.
type LeaseChange struct {
	ID    kv.LeaseID
	TTL   time.Duration // whole ms
	Ended bool
}

// Commit is one transaction. Events may be empty: a lease was granted, or a
// transaction with a token changed nothing. The revision of every event's entry
// is the change's. Events of keys that existed must carry Prev.
type Commit struct {
	kv.Change
	Token  *Token
	Leases []LeaseChange
}

// Loader takes what Open finds; its functions are called one at a time, before
// Open returns, and may keep what they get. First come entries, in the order of
// namespace and key, leases, and tokens, oldest first: the store as of one
// revision. Then come the transactions after it, as they were given to Append but
// without Prev.
type Loader struct {
	Entry  func(*kv.Entry)
	Lease  func(LeaseChange)
	Token  func(*Token)
	Commit func(*Commit)
}

func (l Loader) withDefaults() Loader {
	if l.Entry == nil {
		l.Entry = func(*kv.Entry) {}
	}
	if l.Lease == nil {
		l.Lease = func(LeaseChange) {}
	}
	if l.Token == nil {
		l.Token = func(*Token) {}
	}
	if l.Commit == nil {
		l.Commit = func(*Commit) {}
	}
	return l
}

// Stats is the state of what is on disk.
type Stats struct {
	LogFloor     kv.Revision // changes after it can be read back
	HistoryFloor kv.Revision // versions that ended before it may be gone
	DiskBytes    int64       // about a second old
	FreeBytes    int64       // likewise; below 0 if not known
}
