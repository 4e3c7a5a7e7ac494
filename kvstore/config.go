package kvstore

import (
	"cmp"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access/audit"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
)

// Config sets up a Store. The zero value works.
//
// wide: settings, each with a default.
type Config struct {
	Clock clock.Clock // nil: the machine's
	// Name is the store's among those that share its log, and the same whenever it is opened again:
	// it ends the leases that were granted under this name. It is not used over a log of its own.
	Name string
	// Log receives what no error reports: that writing has failed for good, or that the
	// process was paused. The zero value discards it.
	Log zerolog.Logger

	// What the store may use of memory. The committer counts in them once per group.
	//
	// Store is for keys, values and leases with what finds them; nil: one of 4 GiB. Writes
	// that need more are refused with codes.Quota; deletes are not, and neither is what
	// was stored already when the store is opened.
	Store *memory.Pool
	// Tokens is for request tokens with their remembered results, which are long if values
	// were read or previous entries requested; nil: one of 256 MiB. Beyond it the
	// identity with most bytes loses its oldest.
	Tokens *memory.Pool
	// Queues is for transactions that wait for the committer, which may use a third of it,
	// and for the versions kept only for Views, likewise; nil: one of 192 MiB. Beyond the
	// one, Commit fails with codes.Busy; beyond the other, the oldest View is ended.
	Queues *memory.Pool

	// Limits of what is kept in memory. Writes beyond them are refused; deletes are not.
	MaxKeys      int64         // 0: 20 million; codes.Quota
	MaxLeases    int           // 0: 1 million; codes.Limit
	MaxLeaseKeys int           // of one lease, since they end together; 0: 100,000; codes.Limit
	MaxTokens    int           // request tokens; likewise; 0: 1 million
	TokenAge     time.Duration // how long request tokens are remembered; 0: an hour

	// MaxQueue is how many transactions may wait for the committer; 0: 16384. Commit fails
	// with codes.Busy beyond it, administrators' beyond an eighth more.
	MaxQueue int

	// GroupBytes and GroupSize bound what becomes durable and visible at once: bytes of
	// keys and values (0: 4 MiB) and transactions (0: 4096).
	GroupBytes, GroupSize int

	// ViewAge is how old the oldest View gets before it is ended if versions are kept for
	// it; 0: ten minutes.
	ViewAge time.Duration

	// WriteTimeout is how long the log may take for a group before its writers are answered
	// with codes.Timeout, and others are refused with codes.Storage until it returns. It
	// should be shorter than the time-outs of clients; 0: 5 s.
	WriteTimeout time.Duration
	// ReadTimeout is how long a read of past state may take, which may have to wait for the
	// disk, before it fails with codes.Timeout; 0: 5 s.
	ReadTimeout time.Duration
	// MaxSlowReads is how many such reads may be under way; beyond it they fail with
	// codes.Busy; 0: 64.
	MaxSlowReads int

	// PauseAfter is how long the store must have stood still to conclude that the process
	// was paused. Holders of leases could not reach it then, so every lease gets its full
	// time again. 0: half a second with the machine's clock, never with another clock,
	// whose steps are not pauses. Negative: never.
	PauseAfter time.Duration

	// Trail takes the audit's lines about transactions that someone asked for, which become
	// durable with these; nil: there is no audit. Stores that share a log write one chain. With TrailNotesOnly
	// there are lines only about transactions that have a Note.
	Trail          *audit.Trail
	TrailNotesOnly bool
}

func (c Config) withDefaults() Config {
	c.Clock = cmp.Or(c.Clock, clock.Real())
	if c.PauseAfter == 0 && c.Clock == clock.Real() {
		c.PauseAfter = 500 * time.Millisecond
	}
	c.Store, c.Tokens, c.Queues = c.Store.Or(4<<30), c.Tokens.Or(256<<20), c.Queues.Or(192<<20)
	c.MaxKeys = cmp.Or(c.MaxKeys, 20_000_000)
	c.MaxLeases = cmp.Or(c.MaxLeases, 1_000_000)
	c.MaxLeaseKeys = min(cmp.Or(c.MaxLeaseKeys, 100_000), maxChanges)
	c.MaxTokens = cmp.Or(c.MaxTokens, 1_000_000)
	c.TokenAge = cmp.Or(c.TokenAge, time.Hour)
	c.MaxQueue = cmp.Or(c.MaxQueue, 16384)
	c.GroupBytes = cmp.Or(c.GroupBytes, 4<<20)
	c.GroupSize = cmp.Or(c.GroupSize, 4096)
	c.ViewAge = cmp.Or(c.ViewAge, 10*time.Minute)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 5*time.Second)
	c.MaxSlowReads = cmp.Or(c.MaxSlowReads, 64)
	return c
}

// queueShares is how many uses the pool of queues is for: transactions, versions, and
// those who wait for locks.
const queueShares = 3
