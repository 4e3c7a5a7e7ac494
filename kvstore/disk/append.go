package disk

import (
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
)

// Append writes the transactions of a group, in the order of their revisions, as
// one record, and returns when that is durable. It owns the group from then on;
// entries are shared. It waits while too much is behind.
//
// With codes.Closed the group was not written. After any other error the disk takes no
// more, and whether the group is in the log shows when the store is opened again.
func (d *Disk) Append(commits []kvstore.Commit) error {
	if err := d.usable(); err != nil {
		return err
	}
	defer d.life.RUnlock()
	d.busy.Store(d.cfg.Clock.Steady().UnixMilli())
	defer d.busy.Store(0)
	if err := d.awaitRoom(); err != nil {
		return err
	}
	newest := kv.Revision(d.newest.Load())
	if first := commits[0].Revision; first <= newest {
		return codes.Errorf(codes.Internal, "revision %d is not above %d", first, newest)
	}
	d.record = appendGroup(d.record[:0], newest, commits)
	last := commits[len(commits)-1].Revision
	if err := d.write(commits[0].Revision, last, d.cfg.AckBeforeDisk && !ofDocuments(commits)); err != nil {
		return err
	}
	g := newAppended(commits, len(d.record))
	d.keep(g)
	d.newest.Store(int64(last))
	d.gate.wrote(g.bytes)
	d.gate.live.Add(g.growth)
	const keepRecord = 4 << 20
	if cap(d.record) > keepRecord {
		d.record = nil
	}
	return nil
}

// ofDocuments reports whether a group has a change of documents: files are put in place and programs are
// told only of what is durable, however the writes of keys are acknowledged.
func ofDocuments(commits []kvstore.Commit) bool {
	return slices.ContainsFunc(commits, func(c kvstore.Commit) bool {
		return slices.ContainsFunc(c.Events, func(e kv.Event) bool { return e.Entry.NS == kv.ConfigNamespace })
	})
}

// write makes the record durable unless it may come later, then says so in the mark. The database does
// not return every error: what it calls fatal it tells its logger, and goes on.
func (l *log) write(first, last kv.Revision, later bool) error {
	if err := l.commit(first, last, later); err != nil {
		return l.fail(err)
	}
	return l.broken()
}

func (l *log) commit(first, last kv.Revision, later bool) error {
	var key [9]byte
	batch := l.db.NewBatchWithSize(len(l.record) + 64)
	defer batch.Close()
	if err := batch.Set(numberKey(key[:0], logKind, int64(first)), l.record, nil); err != nil {
		return err
	}
	if later {
		return batch.Commit(pebble.NoSync)
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return err
	}
	if err := l.broken(); err != nil {
		return err
	}
	return l.mark.advance(last)
}

// How much may be pending, in TableBytes: the keeper yields less beyond lateBehind, and
// Append waits for it beyond mostBehind.
const (
	lateBehind = 2
	mostBehind = 3
)

// awaitRoom waits until not too much is pending.
func (l *log) awaitRoom() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if err := l.broken(); err != nil {
			return err
		}
		if l.behind <= mostBehind*l.cfg.TableBytes {
			return nil
		}
		l.poke()
		l.room.Wait()
	}
}

// keep holds a group that is in the log for the keeper and for readers.
func (l *log) keep(g appended) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, g)
	l.behind += g.weighs()
	l.holding += g.holds
	if !g.recovered {
		l.ring.add(g)
	}
	l.tellLocked()
	if l.behind >= l.cfg.TableBytes {
		l.poke()
	}
}

// tellLocked tells the pool what the groups hold that are pending or in the ring: both
// have the newest ones.
func (l *log) tellLocked() {
	now := max(l.holding, l.ring.bytes)
	l.cfg.Engine.Add(now - l.told)
	l.told = now
}

// poke tells the keeper to look; it never waits.
func (l *log) poke() { clock.Nudge(l.wake) }

// syncLog makes durable what Append left to the operating system.
func (l *log) syncLog() error {
	newest := kv.Revision(l.newest.Load())
	if err := l.db.LogData(nil, pebble.Sync); err != nil {
		return err
	}
	if err := l.broken(); err != nil {
		return err
	}
	return l.mark.advance(newest)
}
