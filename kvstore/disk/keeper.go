package disk

import (
	"cmp"
	"context"
	"sync"
	"time"

	"confcenter/internal/clock"
)

const (
	tick         = time.Second // between looks at space, mark and age
	idleTicks    = 60          // between retentions while nothing is written
	pressedTicks = 5           // likewise while there is no space

	reclaimEvery = 30 * time.Second // at most: it reads and writes all tables
)

// keeper works in the background: it writes tables from the log, applies the retentions
// and watches the space.
type keeper struct {
	*log // set at open

	stop    chan struct{} // closed by end
	squeeze chan stays    // has space reclaimed; no capacity
	running sync.WaitGroup

	// owned by the goroutine that makes tables, and by Open before it runs and Close
	// after it has ended
	done   meta // what the tables hold
	epochs []epoch
	times  *clock.Record
	since  int64 // ms by the monotonic clock at which the oldest pending group was seen, or tables were tried; 0: none
	short  bool  // the last tables found no space

	squeezed int64 // ms by it when space was last to be reclaimed
	dead     int64 // bytes of forgotten rows since tables were last merged for their sake
}

func newKeeper(l *log) *keeper {
	return &keeper{log: l, times: clock.NewRecord(l.cfg.Clock), stop: make(chan struct{}), squeeze: make(chan stays)}
}

// end stops the goroutines that begin has started, and waits for them.
func (k *keeper) end() {
	close(k.stop)
	k.running.Wait()
}

// begin starts the goroutines.
func (k *keeper) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	stop := k.stop
	k.running.Go(func() {
		<-stop
		cancel()
	})
	k.running.Add(2)
	go k.watch(k.cfg.Clock.NewTicker(tick))
	go k.work()
	k.running.Go(func() {
		defer k.contain()
		k.reclaim(ctx)
	})
}

// watch syncs the mark and measures space, about once a second.
func (k *keeper) watch(ticker clock.Ticker) {
	defer k.running.Done()
	defer ticker.Stop()
	defer k.contain()
	var files presence
	for {
		select {
		case <-k.stop:
			return
		case <-ticker.C():
			if err := cmp.Or(k.secure(), files.look(k)); err != nil {
				_ = k.fail(err)
				return
			}
			k.gate.measure()
			k.poke()
		case <-k.gate.soon:
			k.gate.measure()
		}
	}
}

// secure makes durable what only the operating system has so far. It writes to the mark even
// if there is nothing new, since a disk that hangs or takes no writes shows only when it is
// written to.
func (k *keeper) secure() error {
	if k.broken() != nil {
		return nil
	}
	k.probing.Store(k.cfg.Clock.Steady().UnixMilli())
	defer k.probing.Store(0)
	if err := k.mark.touch(); err != nil {
		return err
	}
	if k.cfg.AckBeforeDisk && int64(k.mark.revision()) < k.newest.Load() {
		if err := k.syncLog(); err != nil {
			return err
		}
	}
	return k.mark.sync()
}

// work is the keeper: it makes tables.
func (k *keeper) work() {
	defer k.running.Done()
	defer k.contain()
	idle := 0
	for {
		select {
		case <-k.stop:
			return
		case <-k.wake:
		}
		idle++
		if k.due() || idle >= idleTicks || idle >= pressedTicks && k.gate.pressed.Load() {
			idle = 0
			switch err := k.materialise(); {
			case k.broken() != nil:
				return
			case isFull(err): // as was said; it waits for space
				k.short, k.since = true, k.cfg.Clock.Steady().UnixMilli()
			case err != nil:
				_ = k.fail(err)
				return
			default:
				k.short = false
			}
			k.press()
		}
	}
}

// stays is how many bytes of log and history remain once what was dropped is gone, or that
// only what was forgotten is to go.
type stays struct {
	log, history int64
	forgotten    bool
}

// press starts reclaiming space if there is too little.
func (k *keeper) press() {
	if k.dead >= max(leastDead, k.gate.live.Load()/2) {
		select {
		case k.squeeze <- stays{forgotten: true}:
			k.dead = 0
		default:
		}
	}
	now := k.cfg.Clock.Steady().UnixMilli()
	if !k.gate.pressed.Load() || now-k.squeezed < reclaimEvery.Milliseconds() {
		return
	}
	var left stays
	for i := range k.epochs {
		left.log += k.epochs[i].log
	}
	for i := range k.parts {
		left.history += k.parts[i].bytes
	}
	select {
	case k.squeeze <- left:
		k.squeezed = now
	default: // it is being done
	}
}

// reclaim frees deleted data when space is short.
func (k *keeper) reclaim(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case left := <-k.squeeze:
			if err := k.merge(ctx, left); err != nil && ctx.Err() == nil {
				k.cfg.Log.Warn().Err(err).Msg("space could not be reclaimed; trying again later")
			}
			k.gate.look()
		}
	}
}

// merge compacts tables, so that rows deleted in some of them disappear from the others.
// The database itself does that as late as it can, so deletes alone would not let writes
// resume. Compaction needs space for what remains, so the range with the least comes
// first, and a range that does not fit is left for later.
func (k *keeper) merge(ctx context.Context, left stays) error {
	if left.forgotten {
		return k.mergeForgotten(ctx)
	}
	if err := k.db.Flush(); err != nil {
		return err
	}
	archive, err := k.db.EstimateDiskUsage([]byte{archiveKind}, []byte{archiveKind + 1})
	if err != nil {
		return err
	}
	for _, kinds := range [...]struct {
		lower, upper byte
		stays        int64
	}{
		{historyKind, historyKind + 1, left.history}, {logKind, logKind + 1, left.log},
		{currentKind, historyKind, k.gate.live.Load()}, {0, currentKind, int64(archive)},
	} {
		// This is far below where deletes are refused: compaction is the only way out then.
		if free := k.freeBytes(); free >= 0 && kinds.stays > 0 && free-kinds.stays < k.cfg.ReserveBytes/16 {
			continue
		}
		if err := k.db.Compact(ctx, []byte{kinds.lower}, []byte{kinds.upper}, false); err != nil {
			return err
		}
	}
	return nil
}

// due reports whether enough is pending, or has been for long enough.
func (k *keeper) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Clock.Steady().UnixMilli()
	switch {
	case len(k.pending) == 0 && len(k.forgotten.events) == 0:
		k.since = 0
		return false
	case k.since == 0:
		k.since = now
	case k.short:
		return now-k.since >= tick.Milliseconds()
	}
	return k.behind >= k.cfg.TableBytes || len(k.forgotten.events) >= manyForgotten || now-k.since >= k.cfg.TableDelay.Milliseconds()
}
