package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore"
)

// Disk is an open store. One goroutine calls Append; everything else may be
// called from any goroutine.
type Disk struct {
	*log           // set at open
	keeper *keeper // set at open
	copies copies

	// life is held for reading by everything that uses the database, so that
	// Close can wait for it. It is taken before the log's mu.
	life   sync.RWMutex
	closed bool // guarded by life
}

// database is the open database with the mark beside it. All of it is set at open.
type database struct {
	cfg      Config // its FS is the fence
	fence    *fence
	opened   atomic.Bool
	db       *pebble.DB
	lock     *pebble.Lock
	mark     *mark
	gaps     []gap
	tables   sstable.WriterOptions
	identity string
}

// log is the truth: what Append writes, and the part of it that is kept in memory because
// it is not in tables yet.
type log struct {
	*database
	sickness

	record []byte // owned by the caller of Append

	// used by any goroutine
	newest atomic.Int64 // revision of the last group appended
	floors floors
	gate   gate
	wake   chan struct{} // tells the keeper that there is something to do

	mu      sync.Mutex // guards what follows
	room    sync.Cond  // signalled when pending shrinks or the disk fails; uses mu
	pending []appended // groups of which no tables have been made, oldest first
	burden
	forgotten forgotten
	ring      ring
	parts     []part // of history, oldest first; replaced, never changed; written by the keeper only
}

// burden is what groups take in memory.
type burden struct {
	behind  int64 // how much of TableBytes the pending ones are
	holding int64 // what they hold
	told    int64 // what the pool was told, of those in the ring as well
}

// floors say how far back the store reaches. Only the keeper raises those of log and
// history.
type floors struct {
	log     atomic.Int64
	history atomic.Int64
	tokens  atomic.Int64 // those up to it were given up by DropTokens
}

// appended is a group that is in the log.
type appended struct {
	commits   []kvstore.Commit
	bytes     int64 // of its log record
	holds     int64 // of memory, besides the store's current entries
	rows      int64 // of keys and values of its events and of what was before them
	growth    int64 // by how much it makes the tables of current entries grow
	events    int
	recovered bool // read back by Open, so that events have no Prev
}

// What a group holds in memory besides texts. An entry is the store's as long as it is
// current; after that, the event that has superseded it holds it as Prev.
var (
	commitSize = int64(reflect.TypeFor[kvstore.Commit]().Size())
	eventSize  = int64(reflect.TypeFor[kv.Event]().Size())
	entrySize  = int64(reflect.TypeFor[kv.Entry]().Size())
)

// weighs is how much of TableBytes a group is.
func (g *appended) weighs() int64 { return max(g.bytes, g.holds) }

func newAppended(commits []kvstore.Commit, bytes int) appended {
	g := appended{commits: commits, bytes: int64(bytes), holds: commitSize * int64(len(commits))}
	for i := range commits {
		g.events += len(commits[i].Events) + len(commits[i].Archive)
		for j := range commits[i].Events {
			e := &commits[i].Events[j]
			g.rows += int64(e.Entry.Size())
			g.growth += rowBytes(e.Entry)
			g.holds += eventSize
			if e.Entry.Deleted() {
				g.holds += entrySize + int64(len(e.Entry.Key))
			}
			if e.Prev != nil {
				g.rows += int64(e.Prev.Size())
				g.growth -= rowBytes(e.Prev)
				g.holds += entrySize + int64(len(e.Prev.Value.Data))
			}
		}
		for j := range commits[i].Archive {
			e := commits[i].Archive[j].Entry
			g.rows += int64(e.Size())
			g.holds += archiveCost(e)
		}
	}
	return g
}

// archiveCost is what the event of an archived entry holds in memory.
func archiveCost(e *kv.Entry) int64 { return eventSize + entrySize + int64(e.Size()) }

// rowBytes is about what an entry takes in a table.
func rowBytes(e *kv.Entry) int64 {
	const rest = 64
	if e.Deleted() {
		return 0
	}
	return int64(len(e.NS) + e.Size() + rest)
}

func (g *appended) last() kv.Revision { return g.commits[len(g.commits)-1].Revision }

// fail stops the use of the disk after a write that left its contents unknown. Reads go on.
func (l *log) fail(err error) *codes.Error {
	kind, text := health.Failed, "writing to %s has failed: %w"
	switch {
	case errors.Is(err, errPanic):
		kind, text = health.Stopped, "writing to %s has ended because of a fault that the server's log describes: %w"
	case atomicfile.IsReadOnly(err):
		kind, text = health.ReadOnly, "%s can only be read: %w"
	case errors.Is(err, fs.ErrNotExist):
		kind, text = health.Missing, "files in %s are gone; restore it from a backup: %w"
	case isFull(err):
		kind, text = health.Full, "the disk of %s is full: %w"
	}
	failure := &failure{kind: kind, since: l.cfg.Clock.Now()}
	errors.As(codes.Errorf(codes.Storage, text, l.cfg.Dir, err), &failure.err)
	if l.failure.CompareAndSwap(nil, failure) {
		close(l.failed)
		if !l.cfg.ReadOnly {
			l.cfg.Log.Error().Err(err).Str("directory", l.cfg.Dir).Msg("a write to the store has failed: nothing more is written, reads go on")
		}
	}
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
	return l.failure.Load().err
}

// sickness is what the log knows of its disk. Any goroutine may look.
type sickness struct {
	failure atomic.Pointer[failure]
	damage  atomic.Pointer[health.Trouble] // files that cannot be read; nil: none are known
	failed  chan struct{}                  // closed with failure set
	busy    atomic.Int64                   // since when Append waits for the disk, in ms by the monotonic clock; 0: it does not
	probing atomic.Int64                   // likewise for the keeper's regular write
}

// failure is why nothing is written any more.
type failure struct {
	kind  health.Kind
	since time.Time
	err   *codes.Error
}

// broken returns why nothing is written any more, nil if something is.
func (l *log) broken() error {
	if f := l.failure.Load(); f != nil {
		return f.err
	}
	return nil
}

var errPanic = errors.New("panic")

// contain is deferred around the work of a goroutine of the store: a panic ends writing, and
// nothing else.
func (l *log) contain() {
	if what := recover(); what != nil {
		l.cfg.Log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("the state store's disk has panicked")
		_ = l.fail(fmt.Errorf("%w: %v", errPanic, what))
	}
}

// Failed implements kvstore.Log. What Append returned before that holds.
func (d *Disk) Failed() <-chan struct{} { return d.failed }

// unreadable notes that a table cannot be read. Only what needs it fails.
func (l *log) unreadable(err error) {
	t := &health.Trouble{Kind: health.Damaged, Dir: l.cfg.Dir, Since: l.cfg.Clock.Now(),
		Err: codes.Errorf(codes.Storage, "a file in %s cannot be read, so what needs it fails; restore a backup: %w", l.cfg.Dir, err)}
	if l.damage.CompareAndSwap(nil, t) {
		l.cfg.Log.Error().Err(err).Str("directory", l.cfg.Dir).Msg("a file of the store cannot be read: what needs it fails, all else goes on; restore a backup")
	}
}

// Damage implements kvstore.Log.
func (d *Disk) Damage() *health.Trouble { return d.damage.Load() }

// usable must be followed by d.life.RUnlock if it succeeds.
func (d *Disk) usable() error {
	d.life.RLock()
	if d.closed {
		d.life.RUnlock()
		return codes.Errorf(codes.Closed, "the store is closed")
	}
	return nil
}

// damaged is the error for stored data that cannot be right; nil: it can.
func damaged(what string, err error) error {
	if err == nil {
		return nil
	}
	return codes.Errorf(codes.Storage, "the store is damaged: %s: %w", what, err)
}

// Newest is the revision of the last group that Append has made durable.
func (d *Disk) Newest() kv.Revision { return kv.Revision(d.newest.Load()) }

// Stats may be called from any goroutine and is cheap.
func (d *Disk) Stats() kvstore.LogStats {
	return kvstore.LogStats{
		DiskBytes: d.gate.used.Load(),
		FreeBytes: d.gate.free.Load(),
	}
}

// Floors returns how far back Changes on the one hand, and Versions and GetAt on the other,
// reach.
func (d *Disk) Floors() (changes, versions kv.Revision) {
	return kv.Revision(d.floors.log.Load()), kv.Revision(d.floors.history.Load())
}

// DropTokens drops the request tokens of transactions up to a revision, and those of others,
// before they reach their age.
func (d *Disk) DropTokens(through kv.Revision, others []kv.Revision) {
	if len(others) > 0 {
		d.mu.Lock()
		d.forgotten.tokens = append(d.forgotten.tokens, others...)
		d.mu.Unlock()
	}
	for {
		now := d.floors.tokens.Load()
		if int64(through) <= now || d.floors.tokens.CompareAndSwap(now, int64(through)) {
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
	d.copies.end()
	d.fence.release()
	d.keeper.end()
	if err := d.keeper.materialise(); err != nil && d.broken() == nil {
		d.cfg.Log.Warn().Err(err).Msg("tables could not be written while closing; the next start reads the log instead")
	}
	return d.release()
}

// release closes everything that is open, even if some of it fails.
func (l *log) release() error {
	var errs []error
	if l.cfg.AckBeforeDisk && l.db != nil && l.failure.Load() == nil {
		errs = append(errs, l.syncLog())
	}
	if l.db != nil {
		errs = append(errs, l.db.Close())
	}
	if l.mark != nil {
		if l.broken() == nil {
			errs = append(errs, l.mark.sync())
		}
		errs = append(errs, l.mark.close())
	}
	if l.lock != nil {
		errs = append(errs, l.lock.Close())
	}
	l.cfg.Engine.Give(l.burden.told + l.gate.told.Load())
	if l.broken() != nil {
		return nil // the next start reads what there is
	}
	return errors.Join(errs...)
}
