package disk

import (
	"encoding/binary"
	"slices"
	"time"

	"confcenter/kv"
)

// grain is the approximate number of pieces in which the retentions drop what they keep.
const grain = 64

// retain raises the floors by age and size, and drops what is below them.
func (b *batch) retain() error {
	logBytes, historyBytes := b.k.cfg.LogBytes, b.k.cfg.HistoryBytes
	if b.k.gate.pressed.Load() {
		// No space: what is kept only for convenience goes first. A budget may be larger
		// than the disk.
		const most = 8 // parts of the budget, or of all there is if that is less
		used := b.k.gate.used.Load()
		logBytes, historyBytes = min(logBytes, used)/most, min(historyBytes, used)/most
	}
	b.retainLog(logBytes)
	b.epochs = b.joinEpochs(b.epochs)
	return b.retainHistory(historyBytes)
}

// before reports whether a change is older than an age. It has a time of day, and the age is one by the
// clock that no one sets.
func (b *batch) before(time int64, age time.Duration) bool {
	return b.k.times.When(time) < b.k.times.Steady().UnixMilli()-age.Milliseconds()
}

func (b *batch) retainLog(limit int64) {
	var total int64
	for i := range b.epochs {
		total += b.epochs[i].log
	}
	newest := len(b.epochs) - 1
	for i := range b.epochs {
		e := &b.epochs[i]
		// The newest stretch stays although it may be larger than the limit: followers would
		// miss what was just written. If there is no space that does not count.
		if total > limit && (i < newest || b.k.gate.pressed.Load()) || b.before(e.time, b.k.cfg.LogAge) {
			total -= e.log
			e.changed = e.changed || e.log > 0
			e.log = 0
			b.next.logFloor = max(b.next.logFloor, e.last)
		}
		if b.before(e.time, b.k.cfg.TokenAge) {
			b.next.tokenFloor = max(b.next.tokenFloor, e.last)
		}
	}
}

// joinEpochs joins small neighbours, drops epochs below both floors, and writes the rows
// that have changed.
func (b *batch) joinEpochs(epochs []epoch) []epoch {
	kept := epochs[:0]
	remove := func(e *epoch) {
		if e.written != 0 {
			b.set.removeSmall(numberKey(nil, epochKind, int64(e.written)))
		}
	}
	for _, e := range epochs {
		if e.log == 0 && e.last <= min(b.next.logFloor, b.next.tokenFloor) {
			remove(&e)
			continue
		}
		if n := len(kept); n > 0 && b.joins(&kept[n-1], &e) {
			older := kept[n-1]
			remove(&older)
			e.first, e.log, e.changed = older.first, e.log+older.log, true
			kept = kept[:n-1]
		}
		kept = append(kept, e)
	}
	for i := range kept {
		if e := &kept[i]; e.changed || e.written == 0 {
			b.set.small(numberKey(nil, epochKind, int64(e.last)), e.encode())
			e.written, e.changed = e.last, false
		}
	}
	return slices.Clip(kept)
}

func (b *batch) joins(x, y *epoch) bool {
	cfg := &b.k.cfg
	return b.k.times.When(y.time)-b.k.times.When(x.first) <= min(cfg.LogAge, cfg.TokenAge).Milliseconds()/grain && x.log+y.log <= cfg.LogBytes/grain
}

// retainHistory drops whole parts: all versions in a part were superseded before its end.
func (b *batch) retainHistory(limit int64) error {
	var total int64
	for i := range b.parts {
		total += b.parts[i].bytes
	}
	dropped, most := 0, len(b.parts)
	switch {
	case b.lean:
		limit = -1
		b.next.historyFloor = max(b.next.historyFloor, b.next.revision)
	case len(b.groups) > 0:
		most-- // what is written to now
	}
	for dropped < most {
		p := &b.parts[dropped]
		if total <= limit && !b.before(p.time, b.k.cfg.HistoryAge) {
			break
		}
		total -= p.bytes
		b.next.historyFloor = max(b.next.historyFloor, p.last)
		b.set.removeSmall(numberKey(nil, partKind, int64(p.start)))
		dropped++
	}
	if dropped == 0 {
		return nil
	}
	if err := b.set.drop(b.parts[0].start, b.parts[dropped-1].start); err != nil {
		return err
	}
	b.parts = slices.Clone(b.parts[dropped:])
	return b.endCuts()
}

// endCuts removes the cuts that are now below the floor.
func (b *batch) endCuts() error {
	err := b.k.scan([]byte{cutKind}, []byte{cutKind + 1}, func(key, value []byte) error {
		cut, n := binary.Uvarint(value)
		if n <= 0 {
			return errKey
		}
		if _, renewed := b.cuts[string(key)]; !renewed && kv.Revision(cut) <= b.next.historyFloor {
			b.set.removeSmall(slices.Clone(key))
		}
		return nil
	})
	return damaged("cuts", err)
}
