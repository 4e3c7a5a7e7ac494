package disk

import (
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kvstore"
)

// gate decides whether writes are accepted. A log that cannot be written holds up all of them,
// deletes included, so writes must stop before the disk is full.
type gate struct {
	*database // set at open

	verdict atomic.Pointer[verdict]
	used    atomic.Int64 // bytes of the store
	free    atomic.Int64 // bytes of the file system; below 0: not known
	pressed atomic.Bool  // over the quota, or into the reserve
	unseen  atomic.Int64 // bytes written since the last look
	live    atomic.Int64 // bytes that the current entries take in tables, or somewhat fewer

	lookAfter int64 // set at open
	soon      chan struct{}

	told atomic.Int64 // of the database's memory, to the pool; by measure
}

// verdict has the reasons to refuse; nil where there are none.
type verdict struct {
	writes, deletes error
	kind            health.Kind
	since           time.Time
}

// lookAfter is how many bytes may be written before the space is measured again without
// waiting for the next tick: few enough that a good part of the reserve is still there and
// the quota is not exceeded by much.
func (c *Config) lookAfter() int64 {
	after := min(16<<20, c.ReserveBytes/8)
	if c.QuotaBytes > 0 {
		after = min(after, c.QuotaBytes/16)
	}
	return max(after, 64<<10)
}

func (g *gate) wrote(n int64) {
	if g.unseen.Add(n) >= g.lookAfter {
		g.unseen.Store(0)
		g.look()
	}
}

// look triggers a measurement of the space without waiting for the next tick.
func (g *gate) look() { clock.Nudge(g.soon) }

// Writable reports whether a write would be taken now: nil, or an error with
// codes.Storage or codes.Quota whose text says what to do. What may use the reserve is
// taken until a quarter of it is left, and what may use all there is as long as the disk is
// whole: it waits if there is no space at all. It costs two loads.
func (d *Disk) Writable(uses kvstore.Room) error {
	if err := d.broken(); err != nil || uses == kvstore.LastByte {
		return err
	}
	switch v := d.gate.verdict.Load(); {
	case v == nil:
		return nil
	case uses == kvstore.Ordinary:
		return v.writes
	default:
		return v.deletes
	}
}

// Trouble says at more length why Writable(kvstore.Ordinary) fails; nil if it does not.
func (d *Disk) Trouble() *health.Trouble {
	if f := d.failure.Load(); f != nil {
		return &health.Trouble{Kind: f.kind, Dir: d.cfg.Dir, Since: f.since, Err: f.err, Restart: true}
	}
	if t := d.hanging(); t != nil {
		return t
	}
	if v := d.gate.verdict.Load(); v != nil {
		return &health.Trouble{Kind: v.kind, Dir: d.cfg.Dir, Since: v.since, Err: v.writes}
	}
	return nil
}

// hanging is the trouble of a disk that holds up a write; nil if none is held up for long.
func (d *Disk) hanging() *health.Trouble {
	now := d.cfg.Clock.Steady()
	for _, since := range [...]int64{d.busy.Load(), d.probing.Load()} {
		waits := now.Sub(time.UnixMilli(since))
		if since == 0 || waits < d.cfg.HangAfter {
			continue
		}
		t := &health.Trouble{Kind: health.Hanging, Dir: d.cfg.Dir, Since: d.cfg.Clock.Now().Add(-waits)}
		if full := d.fence.waiting.Load(); full != nil {
			t.Kind, t.Err = health.Full, codes.Errorf(codes.Storage, "the disk of %s is full, and writes wait for space: %w", d.cfg.Dir, *full)
		} else {
			t.Err = codes.Errorf(codes.Storage, "the disk of %s does not answer; writes go on when it does", d.cfg.Dir)
		}
		return t
	}
	return nil
}

// follow has a verdict begin when the one before it did, if they are of the same kind.
func (v *verdict) follow(was *verdict, now time.Time) {
	v.since = now
	if was != nil && was.kind == v.kind {
		v.since = was.since
	}
}

// measure measures the space and decides.
func (g *gate) measure() {
	metrics := g.db.Metrics()
	inUse := int64(metrics.MemTable.Size+metrics.MemTable.ZombieSize) + metrics.BlockCache.Size + metrics.FileCache.Size
	g.cfg.Engine.Add(inUse - g.told.Swap(inUse))
	used := int64(metrics.DiskSpaceUsage())
	free := g.freeBytes()
	g.used.Store(used)
	g.free.Store(free)
	v := g.judge(used, free)
	was := g.verdict.Load()
	if v != nil {
		v.follow(was, g.cfg.Clock.Now())
	}
	g.verdict.Store(v)
	g.pressed.Store(v != nil)
	switch {
	case v != nil && was == nil:
		g.cfg.Log.Warn().Int64("free", free).Int64("used", used).Msg("refusing writes: " + v.writes.Error())
	case v == nil && was != nil:
		g.cfg.Log.Info().Int64("free", free).Int64("used", used).Msg("writes are accepted again")
	}
}

func (d *database) freeBytes() int64 {
	free := d.cfg.Free
	if free == nil {
		free = func() (uint64, error) {
			usage, err := d.cfg.FS.GetDiskUsage(d.cfg.Dir)
			return usage.AvailBytes, err
		}
	}
	n, err := free()
	if err != nil {
		if !errors.Is(err, vfs.ErrUnsupported) {
			d.cfg.Log.Warn().Err(err).Msg("the free space of the data directory cannot be determined")
		}
		return -1
	}
	return int64(min(n, math.MaxInt64))
}

func (g *gate) judge(used, free int64) *verdict {
	reserve := g.cfg.ReserveBytes
	switch {
	case free >= 0 && free < reserve/4:
		err := codes.Errorf(codes.Storage, "the disk is full: %s are free, so not even deletes are accepted; free space on the server's disk", bytesText(free))
		return &verdict{writes: err, deletes: err, kind: health.Full}
	case free >= 0 && free < reserve:
		return &verdict{kind: health.Full, writes: codes.Errorf(codes.Storage, "the disk is nearly full: %s are free, %s are kept in reserve; free space on the server's disk, or delete something", bytesText(free), bytesText(reserve))}
	case g.cfg.QuotaBytes > 0 && used > g.cfg.QuotaBytes:
		return &verdict{kind: health.Quota, writes: codes.Errorf(codes.Quota, "the store occupies %s on disk, its limit is %s; delete something or raise the server's --kv-quota", bytesText(used), bytesText(g.cfg.QuotaBytes))}
	}
	return nil
}

func bytesText(n int64) string {
	switch {
	case n >= 10<<20:
		return strconv.FormatInt(n>>20, 10) + " MiB"
	case n >= 10<<10:
		return strconv.FormatInt(n>>10, 10) + " KiB"
	}
	return strconv.FormatInt(n, 10) + " bytes"
}
