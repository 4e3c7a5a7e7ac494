package clock

import (
	"math"
	"sync"
	"time"
)

// Record is a Clock that remembers how the time of day was set since it was made. So it knows how long
// ago by Steady something was that was written down with a time by Now, as far as that is known: of two
// moments that had the same time of day, it takes the later one. What was written down before the Record
// was made is as long ago as the time of day said when it was made.
//
// It looks at the time of day when it is asked, so it has to be asked more often than that is set.
type Record struct {
	Clock

	mu   sync.Mutex
	eras []era // guarded by mu; the oldest first, and the times that two may have had in common are in both
}

// era is a time during which no one set the time of day.
type era struct {
	from, to int64 // by Steady, in ms
	ahead    int64 // of Steady is Now
}

const (
	set      = 1000 // ms: what differs by less is not taken for another setting
	mostEras = 100
)

// NewRecord returns a Record of c.
func NewRecord(c Clock) *Record {
	r := &Record{Clock: c}
	r.look()
	return r
}

// look returns the time by Steady, in ms, and notices that the time of day has been set.
func (r *Record) look() int64 {
	steady := r.Steady().UnixMilli()
	ahead := r.Now().UnixMilli() - steady
	n := len(r.eras)
	from := steady
	if n > 0 {
		last := &r.eras[n-1]
		from, last.to = last.to, steady
		if d := ahead - last.ahead; -set < d && d < set {
			return steady
		}
	}
	if n == mostEras {
		r.eras = append(r.eras[:0], r.eras[1:]...)
	}
	r.eras = append(r.eras, era{from, steady, ahead})
	return steady
}

// When returns when it was by Steady that Now said a time, both in ms since 1970. A time that Now has not
// said yet is later than now.
func (r *Record) When(said int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.look()
	for i := len(r.eras) - 1; i >= 0; i-- {
		e := &r.eras[i]
		if at := said - e.ahead; at > e.from-set && at < e.to+set {
			return at
		}
	}
	return said - r.eras[0].ahead
}

// Passed reports whether d has passed since Now said a time, in ms since 1970.
func (r *Record) Passed(said int64, d time.Duration) bool {
	return r.When(said) <= r.Steady().Add(-d).UnixMilli()
}

// Earliest returns the earliest time that Now has said in the last d, in ms since 1970: what is written
// down with an earlier one is longer ago.
func (r *Record) Earliest(d time.Duration) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := r.look() - d.Milliseconds()
	earliest := int64(math.MaxInt64)
	for i, e := range r.eras {
		if i == 0 {
			e.from = min(e.from, since) // before there was a Record
		}
		if e.to >= since {
			earliest = min(earliest, max(e.from, since)+e.ahead)
		}
	}
	return earliest
}
