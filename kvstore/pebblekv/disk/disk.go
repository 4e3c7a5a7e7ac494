package disk

import (
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/replica"
)

// Disk is an open store. One goroutine calls Append; everything else may be
// called from any goroutine.
type Disk struct {
	// set at open
	cfg     Config
	db      *pebble.DB
	options *pebble.Options
	lock    *pebble.Lock
	mark    *mark
	tables  sstable.WriterOptions
	stop    chan struct{} // closed by Close
	wake    chan struct{} // tells the keeper that there is something to do
	squeeze chan stays    // has the keeper's helper reclaim space; no capacity
	keeping sync.WaitGroup

	// life is held for reading by everything that uses the database, so that
	// Close can wait for it. It is taken before mu.
	life   sync.RWMutex
	closed bool // guarded by life

	// owned by whoever calls Append
	record []byte

	// read by any goroutine
	newest       atomic.Int64 // revision of the last group appended
	logFloor     atomic.Int64
	historyFloor atomic.Int64
	tokenFloor   atomic.Int64 // tokens up to it were given up by DropTokens
	live         atomic.Int64 // bytes that the current entries take in tables, or somewhat fewer
	failure      atomic.Pointer[codes.Error]
	gate         gate

	mu      sync.Mutex // guards what follows
	room    sync.Cond  // signalled when pending shrinks or the disk fails; uses mu
	pending []waiting  // groups of which no tables have been made, oldest first
	behind  int64      // bytes of their log records
	blocked error      // why no tables can be made at present
	ring    ring
	parts   []part // of history, oldest first; replaced, never changed; written by the keeper only

	// owned by the keeper, and by Open before it runs and Close after it has ended
	done   meta // what the tables hold
	epochs []epoch
	since  int64 // ms since 1970 at which the oldest pending group was seen; 0: none

	squeezed int64 // ms since 1970 when space was last to be reclaimed
}

// waiting is a group that is in the log only.
type waiting struct {
	commits   []replica.Commit
	bytes     int64 // of its log record
	recovered bool  // read back by Open, so that events have no Prev
}

func (d *Disk) exit() {
	if d.cfg.Exit != nil {
		d.cfg.Exit()
		return
	}
	os.Exit(1)
}

// fail ends the use of the disk after a write of which nobody can say what is on
// the disk: the process ends, unless Config.Exit only unwinds the goroutine.
func (d *Disk) fail(err error) *codes.Error {
	failure := &codes.Error{Code: codes.Internal, Text: "the store failed while writing: " + err.Error(), Err: err}
	d.failure.CompareAndSwap(nil, failure)
	d.mu.Lock()
	d.room.Broadcast()
	d.mu.Unlock()
	d.cfg.Log.Error().Err(err).Msg("a write to the store failed; what is on the disk is not known, so the process ends: it recovers when it is started again")
	d.exit()
	return failure
}

// usable must be followed by d.life.RUnlock if it succeeds.
func (d *Disk) usable() error {
	d.life.RLock()
	if d.closed {
		d.life.RUnlock()
		return codes.Errorf(codes.Closed, "the store is closed")
	}
	return nil
}

// damaged is the error for what was read and cannot be right.
func damaged(what string, err error) error {
	return codes.Errorf(codes.Storage, "the store is damaged: %s: %w", what, err)
}

// Newest is the revision of the last group that Append has made durable.
func (d *Disk) Newest() kv.Revision { return kv.Revision(d.newest.Load()) }

// Stats may be called from any goroutine and is cheap.
func (d *Disk) Stats() replica.LogStats {
	return replica.LogStats{
		DiskBytes: d.gate.used.Load(),
		FreeBytes: d.gate.free.Load(),
	}
}

// Floors says how far back Changes, and Versions and GetAt, reach.
func (d *Disk) Floors() (changes, versions kv.Revision) {
	return kv.Revision(d.logFloor.Load()), kv.Revision(d.historyFloor.Load())
}

// DropTokens lets go of the request tokens of transactions up to rev, before their
// age does.
func (d *Disk) DropTokens(rev kv.Revision) {
	for {
		now := d.tokenFloor.Load()
		if int64(rev) <= now || d.tokenFloor.CompareAndSwap(now, int64(rev)) {
			return
		}
	}
}

// Close makes tables of what is pending and gives the directory up. Append must
// have returned. Nothing is lost if it is not called.
func (d *Disk) Close() error {
	d.life.Lock()
	if d.closed {
		d.life.Unlock()
		return codes.Errorf(codes.Closed, "the store is closed")
	}
	d.closed = true
	d.life.Unlock()
	close(d.stop)
	d.keeping.Wait()
	if err := d.materialise(); err != nil {
		d.cfg.Log.Warn().Err(err).Msg("tables could not be written while closing; the next start reads the log instead")
	}
	return d.release()
}

// release closes what is open, everything even if something fails.
func (d *Disk) release() error {
	var first error
	keep := func(err error) {
		if first == nil && err != nil {
			first = err
		}
	}
	if d.cfg.AckBeforeDisk && d.db != nil && d.failure.Load() == nil {
		keep(d.syncLog())
	}
	if d.db != nil {
		keep(d.db.Close())
	}
	if d.mark != nil {
		keep(d.mark.sync())
		keep(d.mark.close())
	}
	if d.lock != nil {
		keep(d.lock.Close())
	}
	return first
}
