package replica

import (
	"cmp"
	"time"

	"confcenter/internal/clock"

	"github.com/rs/zerolog"
)

// Config sets up a Store. The zero value works.
//
// wide: settings, each with a default.
type Config struct {
	Clock clock.Clock // nil: the machine's
	// Log receives what no error reports: that writing has failed for good, or that the
	// process was paused. The zero value discards it.
	Log zerolog.Logger

	// Limits of what is kept in memory. Writes beyond them are refused; deletes are not.
	MaxBytes     int64 // of keys and values that exist; 0: 4 GiB; codes.Quota
	MaxKeys      int64 // 0: 20 million; codes.Quota
	MaxLeases    int   // 0: 1 million; codes.Limit
	MaxLeaseKeys int   // of one lease, since they end together; 0: 100,000; codes.Limit
	MaxTokens    int   // request tokens; the oldest are dropped beyond it; 0: 1 million
	// MaxTokenBytes likewise limits the size of the tokens with their remembered results,
	// which are long if values were read or previous entries requested; 0: 256 MiB.
	MaxTokenBytes int64
	TokenAge      time.Duration // how long request tokens are remembered; 0: an hour

	// Limits of what may wait for the committer. Commit fails with codes.Busy beyond them.
	MaxQueue      int // transactions; 0: 16384
	MaxQueueBytes int // of keys and values; 0: 64 MiB

	// GroupBytes and GroupSize bound what becomes durable and visible at once: bytes of
	// keys and values (0: 4 MiB) and transactions (0: 4096).
	GroupBytes, GroupSize int

	// ViewBytes and ViewAge bound what open Views cost. The oldest View is ended when the
	// versions kept only for Views exceed ViewBytes (0: 64 MiB), or when versions are
	// kept for a View older than ViewAge (0: ten minutes).
	ViewBytes int64
	ViewAge   time.Duration

	// PauseAfter is how long the store must have stood still to conclude that the process
	// was paused. Holders of leases could not reach it then, so every lease gets its full
	// time again. 0: half a second with the machine's clock, never with another clock,
	// whose steps are not pauses. Negative: never.
	PauseAfter time.Duration
}

func (c Config) withDefaults() Config {
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.PauseAfter == 0 && c.Clock == clock.Real() {
		c.PauseAfter = 500 * time.Millisecond
	}
	c.MaxBytes = cmp.Or(c.MaxBytes, 4<<30)
	c.MaxKeys = cmp.Or(c.MaxKeys, 20_000_000)
	c.MaxLeases = cmp.Or(c.MaxLeases, 1_000_000)
	c.MaxLeaseKeys = min(cmp.Or(c.MaxLeaseKeys, 100_000), maxChanges)
	c.MaxTokens = cmp.Or(c.MaxTokens, 1_000_000)
	c.MaxTokenBytes = cmp.Or(c.MaxTokenBytes, 256<<20)
	c.TokenAge = cmp.Or(c.TokenAge, time.Hour)
	c.MaxQueue = cmp.Or(c.MaxQueue, 16384)
	c.MaxQueueBytes = cmp.Or(c.MaxQueueBytes, 64<<20)
	c.GroupBytes = cmp.Or(c.GroupBytes, 4<<20)
	c.GroupSize = cmp.Or(c.GroupSize, 4096)
	c.ViewBytes = cmp.Or(c.ViewBytes, 64<<20)
	c.ViewAge = cmp.Or(c.ViewAge, 10*time.Minute)
	return c
}
