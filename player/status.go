package player

import (
	"math"

	"confcenter/player/field"
)

// rates counts rows of the last minute, by the second.
type rates struct {
	counts [60]int64
	at     int64 // the second counted last
}

func (r *rates) add(second, n int64) {
	r.until(second)
	r.counts[second%int64(len(r.counts))] += n
}

func (r *rates) until(second int64) {
	for at := max(r.at+1, second-int64(len(r.counts))+1); at <= second; at++ {
		r.counts[at%int64(len(r.counts))] = 0
	}
	r.at = max(r.at, second)
}

func (r *rates) perSecond(second int64) int64 {
	r.until(second)
	sum := int64(0)
	for _, n := range r.counts {
		sum += n
	}
	return sum / int64(len(r.counts))
}

// Status is how it stands with each dirty table; nil without a Backing.
func (s *Storage) Status() []field.TableStatus {
	if s.dirty == nil {
		return nil
	}
	set, d, second := s.Settings(), s.dirty, s.clock.Now().Unix()
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]field.TableStatus, len(d.tables))
	for i := range d.tables {
		t := &d.tables[i]
		name := set.List(i)
		list[i] = field.TableStatus{Table: i, List: name, Errors: name + set.ErrorSuffix, Dirty: t.dirty(), Oldest: d.oldest(t), Refused: t.refused, Dropped: t.dropped,
			Landed: t.landed, Last: t.last, Rate: t.rates.perSecond(second), Cursor: int64(t.cursor)}
		if t.saving > t.cursor {
			list[i].Saving = name + set.SavingSuffix
		}
	}
	return list
}

// LandedThrough is the version up to which all fields of the owner are landed, but for those
// that the database refused. Without a Backing nothing is dirty.
func (s *Storage) LandedThrough(o field.Owner) int64 {
	if s.dirty == nil {
		return math.MaxInt64
	}
	d := s.dirty
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.Base() + int64(d.tables[o.Home(len(d.tables))].cursor)
}

// oldest is when the oldest dirty field of a table was written.
func (d *ledger) oldest(t *table) int64 {
	for i := range t.marks {
		m := &t.marks[i]
		if m.region == nil {
			continue
		}
		if e, _ := d.store.Get([]byte(m.region.ns), []byte(m.key)); e != nil && e.Mod == m.mod {
			return e.Updated
		}
	}
	return 0
}
