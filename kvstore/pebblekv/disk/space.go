package disk

import (
	"errors"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"confcenter/codes"
)

// gate decides whether writes are taken. The database ends the process if its log
// cannot be written, so writes must end before the disk is full.
type gate struct {
	verdict atomic.Pointer[verdict]
	backlog atomic.Pointer[verdict] // likewise, because tables cannot be made
	used    atomic.Int64            // bytes of the store
	free    atomic.Int64            // bytes of the file system; below 0: not known
	pressed atomic.Bool             // over the quota, or into the reserve
	unseen  atomic.Int64            // bytes written since the last look

	lookAfter int64 // set at open
	soon      chan struct{}
}

// verdict is nil where writes are taken.
type verdict struct{ writes, deletes error }

// lookAfter is after how many bytes written the space is measured again, without
// waiting for the next tick: while a good part of the reserve is still there, and
// before the quota is exceeded by much.
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

// look has the space measured without waiting for the next tick.
func (g *gate) look() {
	select {
	case g.soon <- struct{}{}:
	default:
	}
}

// Writable says whether a write would be taken now: nil, or an error with
// codes.Storage or codes.Quota whose text says what to do. deletesOnly is for a
// transaction that can only free space: it may use the reserve. It costs two loads.
func (d *Disk) Writable(deletesOnly bool) error {
	for _, v := range [...]*verdict{d.gate.verdict.Load(), d.gate.backlog.Load()} {
		switch {
		case v == nil:
		case !deletesOnly:
			return v.writes
		case v.deletes != nil:
			return v.deletes
		}
	}
	return nil
}

// judgeBacklogLocked decides whether writes are taken while tables cannot be made,
// since all that is pending is in memory.
func (d *Disk) judgeBacklogLocked() {
	var v *verdict
	if d.blocked != nil && d.behind > writesBehind*d.cfg.TableBytes {
		err := codes.Errorf(codes.Storage, "the store cannot write its tables, for which %s are waiting; the server's log says why", bytesText(d.behind))
		v = &verdict{writes: err}
		if d.behind > mostBehind*d.cfg.TableBytes {
			v.deletes = err
		}
	}
	d.gate.backlog.Store(v)
}

// measure looks at the space and decides.
func (d *Disk) measure() {
	used := int64(d.db.Metrics().DiskSpaceUsage())
	free := d.freeBytes()
	d.gate.used.Store(used)
	d.gate.free.Store(free)
	v := d.judge(used, free)
	was := d.gate.verdict.Swap(v)
	d.gate.pressed.Store(v != nil)
	switch {
	case v != nil && was == nil:
		d.cfg.Log.Warn().Int64("free", free).Int64("used", used).Msg("no more writes: " + v.writes.Error())
	case v == nil && was != nil:
		d.cfg.Log.Info().Int64("free", free).Int64("used", used).Msg("writes are taken again")
	}
}

func (d *Disk) freeBytes() int64 {
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
			d.cfg.Log.Warn().Err(err).Msg("the free space of the data directory cannot be told")
		}
		return -1
	}
	return int64(min(n, math.MaxInt64))
}

func (d *Disk) judge(used, free int64) *verdict {
	reserve := d.cfg.ReserveBytes
	switch {
	case free >= 0 && free < reserve/4:
		err := codes.Errorf(codes.Storage, "the disk is full: %s are free, so not even deletes are accepted; free space on the server's disk", bytesText(free))
		return &verdict{writes: err, deletes: err}
	case free >= 0 && free < reserve:
		return &verdict{writes: codes.Errorf(codes.Storage, "the disk is nearly full: %s are free, %s are kept in reserve; free space on the server's disk, or delete something", bytesText(free), bytesText(reserve))}
	case d.cfg.QuotaBytes > 0 && used > d.cfg.QuotaBytes:
		return &verdict{writes: codes.Errorf(codes.Quota, "the store occupies %s on disk, its limit is %s; delete something or raise the limit", bytesText(used), bytesText(d.cfg.QuotaBytes))}
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
