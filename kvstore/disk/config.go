package disk

import (
	"cmp"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"

	"confcenter/internal/clock"
	"confcenter/internal/memory"
)

// Config says where and how to keep data. Only Dir must be set; a limit of 0 is
// its default.
//
// wide: settings, each with a default.
type Config struct {
	Dir   string // made if it does not exist; its parent must exist
	FS    vfs.FS // nil: the machine's
	Clock clock.Clock
	Log   zerolog.Logger

	// AckBeforeDisk lets Append return before the group is durable. A crash of the machine
	// may then lose about a second of acknowledged writes, but none of documents.
	AckBeforeDisk bool
	// AcceptLoss opens a store with what is left although acknowledged writes are lost or
	// may be lost. It is meant for one start.
	AcceptLoss bool

	LogBytes        int64         // of changes that can be read back, and at least TableBytes; 512 MiB
	LogAge          time.Duration // 24 h
	HistoryVersions int           // of each key that are kept besides the current one; 100; below 0: none
	HistoryBytes    int64         // of all older versions; 1 GiB
	HistoryAge      time.Duration // 7 days
	TokenAge        time.Duration // after which a request token may be forgotten; 1 h

	// ReserveBytes of the file system must be free for writes to be accepted; deletes may
	// use three quarters of it. 256 MiB.
	ReserveBytes int64
	// QuotaBytes is how much the store may occupy on disk before it accepts only deletes.
	// 0: no limit.
	QuotaBytes int64
	// Free returns the free bytes of the file system; nil: asks FS.
	Free func() (uint64, error)

	// Engine is for what is in memory beside the store's current state; nil: one of 192 MiB.
	// The sizes below are parts of its limit, and what is in use is counted in it.
	Engine *memory.Pool
	// TableBytes are collected, of log or of the memory that it takes, before they are
	// written to tables; three and a half twelfths, but not much more than a quarter of
	// LogBytes. Append blocks while three times TableBytes are waiting.
	TableBytes    int64
	RingBytes     int64         // of recent changes; a twelfth
	CacheBytes    int64         // of blocks of tables; a twelfth
	MemTableBytes int64         // of log, about twice; a twelfth
	TableDelay    time.Duration // how long changes may wait for tables; 30 s
	BlockBytes    int           // of a table are read and checked together; 32 KiB

	// ReadOnly opens a store that exists without writing anything: Append fails, and nothing
	// is done in the background.
	ReadOnly bool

	HangAfter time.Duration // after which a write that does not return counts as hanging; 2 s
}

func (c Config) withDefaults() Config {
	c.FS = cmp.Or(c.FS, vfs.Default)
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.LogBytes = cmp.Or(c.LogBytes, 512<<20)
	c.LogAge = cmp.Or(c.LogAge, 24*time.Hour)
	c.HistoryVersions = cmp.Or(c.HistoryVersions, 100)
	c.HistoryVersions = max(c.HistoryVersions, 0)
	c.HistoryBytes = cmp.Or(c.HistoryBytes, 1<<30)
	c.HistoryAge = cmp.Or(c.HistoryAge, 7*24*time.Hour)
	c.TokenAge = cmp.Or(c.TokenAge, time.Hour)
	c.ReserveBytes = cmp.Or(c.ReserveBytes, 256<<20)
	c.Engine = c.Engine.Or(192 << 20)
	const part, tables = 12, 3.5
	each := c.Engine.Limit() / part
	c.TableBytes = cmp.Or(c.TableBytes, min(int64(tables*float64(each)), max(c.LogBytes/4, 1<<20)))
	c.RingBytes = cmp.Or(c.RingBytes, each)
	c.CacheBytes = cmp.Or(c.CacheBytes, each)
	c.MemTableBytes = cmp.Or(c.MemTableBytes, each)
	c.TableDelay = cmp.Or(c.TableDelay, 30*time.Second)
	c.HangAfter = cmp.Or(c.HangAfter, 2*time.Second)
	c.BlockBytes = cmp.Or(c.BlockBytes, 32<<10)
	return c
}
