package disk

import (
	"context"
	"time"

	"confcenter/internal/clock"
)

const (
	tick         = time.Second // between looks at space, mark and age
	idleTicks    = 60          // between retentions while nothing is written
	pressedTicks = 5           // likewise while there is no space

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

// stays is how many bytes of log and history will be left when what was dropped of
// them is gone.
type stays struct{ log, history int64 }

// press has space reclaimed if there is none.
func (d *Disk) press() {
	now := d.cfg.Clock.Now().UnixMilli()
	if !d.gate.pressed.Load() || now-d.squeezed < reclaimEvery.Milliseconds() {
		return
	}
	var left stays
	for i := range d.epochs {
		left.log += d.epochs[i].log
	}
	for i := range d.parts {
		left.history += d.parts[i].bytes
	}
	select {
	case d.squeeze <- left:
		d.squeezed = now
	default: // it is being done
	}
}

// reclaim frees what is deleted when there is no space.
func (d *Disk) reclaim(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case left := <-d.squeeze:
			if err := d.merge(ctx, left); err != nil && ctx.Err() == nil {
				d.cfg.Log.Warn().Err(err).Msg("space could not be reclaimed; that is tried again")
			}
			d.gate.look()
		}
	}
}

// merge puts tables together, so that what is deleted in some of them goes from the
// others: by itself the database does that as late as it can, and no delete would
// let writes go on. Merging needs space for what stays, so what leaves least comes
// first, and what there is no space for is left for another time.
func (d *Disk) merge(ctx context.Context, left stays) error {
	if err := d.db.Flush(); err != nil {
		return err
	}
	for _, kinds := range [...]struct {
		lower, upper byte
		stays        int64
	}{{historyKind, historyKind + 1, left.history}, {logKind, logKind + 1, left.log}, {0, historyKind, d.live.Load()}} {
		// Far below where deletes end, too: what is merged then is the only way up.
		if free := d.freeBytes(); free >= 0 && kinds.stays > 0 && free-kinds.stays < d.cfg.ReserveBytes/16 {
			continue
		}
		if err := d.db.Compact(ctx, []byte{kinds.lower}, []byte{kinds.upper}, false); err != nil {
			return err
		}
	}
	return nil
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
