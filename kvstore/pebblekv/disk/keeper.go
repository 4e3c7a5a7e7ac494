package disk

import (
	"context"
	"time"

	"confcenter/internal/clock"
)

const (
	tick         = time.Second // between looks at space, mark and age
	idleTicks    = 60          // between retentions while nothing is written
	pressedTicks = 5           // likewise over the quota

	reclaimEvery = 30 * time.Second // at most: it reads and writes all tables
)

// begin starts the goroutines that stop ends.
func (d *Disk) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	stop := d.stop
	d.keeping.Go(func() {
		<-stop
		cancel()
	})
	d.keeping.Add(2)
	go d.watch(d.cfg.Clock.NewTicker(tick))
	go d.work()
	d.keeping.Go(func() { d.reclaim(ctx) })
}

// watch syncs the mark and measures space, about once a second.
func (d *Disk) watch(ticker clock.Ticker) {
	defer d.keeping.Done()
	defer ticker.Stop()
	for {
		select {
		case <-d.stop:
			return
		case <-ticker.C():
			if err := d.secure(); err != nil {
				_ = d.fail(err)
				return
			}
			d.measure()
			d.poke()
		case <-d.gate.soon:
			d.measure()
		}
	}
}

// secure makes durable what only the operating system has.
func (d *Disk) secure() error {
	if d.failure.Load() != nil {
		return nil
	}
	if d.cfg.AckBeforeDisk && int64(d.mark.revision()) < d.newest.Load() {
		if err := d.syncLog(); err != nil {
			return err
		}
	}
	return d.mark.sync()
}

// work is the keeper: it makes tables.
func (d *Disk) work() {
	defer d.keeping.Done()
	idle := 0
	for {
		select {
		case <-d.stop:
			return
		case <-d.wake:
		}
		idle++
		if d.due() || idle >= idleTicks || idle >= pressedTicks && d.gate.pressed.Load() {
			idle = 0
			d.block(d.materialise())
			d.press()
		}
	}
}

// press has space reclaimed if the store is over its quota and its tables have
// changed since that was last done.
func (d *Disk) press() {
	now := d.cfg.Clock.Now().UnixMilli()
	if !d.gate.pressed.Load() || d.done == d.reclaimed || now-d.squeezed < reclaimEvery.Milliseconds() {
		return
	}
	select {
	case d.squeeze <- struct{}{}:
		d.reclaimed, d.squeezed = d.done, now
	default: // it is being done
	}
}

// reclaim merges all tables when the store is over its quota. What is deleted
// occupies space until its table is merged with others, and by itself the database
// merges as late as it can: nothing that is deleted would let writes go on.
func (d *Disk) reclaim(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.squeeze:
		}
		if err := d.db.Compact(ctx, []byte{0}, []byte{logKind + 1}, false); err != nil && ctx.Err() == nil {
			d.cfg.Log.Warn().Err(err).Msg("the store is over its quota, and space could not be reclaimed; that is tried again after the next change")
		}
		d.gate.look()
	}
}

// due says whether enough has gathered, or has waited long enough.
func (d *Disk) due() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.cfg.Clock.Now().UnixMilli()
	switch {
	case len(d.pending) == 0:
		d.since = 0
		return d.blocked != nil
	case d.since == 0:
		d.since = now
	}
	return d.behind >= d.cfg.TableBytes && d.blocked == nil || now-d.since >= d.cfg.TableDelay.Milliseconds() ||
		d.blocked != nil && now-d.since >= tick.Milliseconds()
}

// block remembers why no tables can be made, or that they can be again.
func (d *Disk) block(err error) {
	d.mu.Lock()
	was := d.blocked
	d.blocked = err
	d.judgeBacklogLocked()
	if err != nil {
		d.since = d.cfg.Clock.Now().UnixMilli()
	}
	d.room.Broadcast()
	d.mu.Unlock()
	switch {
	case err != nil && was == nil:
		d.cfg.Log.Error().Err(err).Msg("the store cannot write its tables; it tries again, and takes no writes when too much is waiting")
	case err == nil && was != nil:
		d.cfg.Log.Info().Msg("the store writes its tables again")
	}
}
