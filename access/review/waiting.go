package review

import (
	"strconv"
	"strings"
	"sync"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// waiting gives numbers to changes, as long as there is room for them. How much room there is, the state
// says, to which other servers may write as well: besides it only those count that are about to be written.
type waiting struct {
	cfg Config // set at open

	mu    sync.Mutex
	last  int64            // guarded by mu: the highest number that was given here
	under map[int64]weight // guarded by mu: those that are about to be written, by number
	known []weight         // guarded by mu: what the state had when it was looked at last, by number
}

// weight is what counts of a change.
type weight struct {
	number int64
	mod    kv.Revision // that wrote its record
	author string
	bytes  int64
	ends   int64 // when it expires, by the monotonic clock
	over   bool  // it is decided, or cannot be read: a caller that asks for it is told why
}

// load is what waits.
type load struct {
	changes, bytes, own int64 // own are changes of one author
	last                int64 // the highest number that there is
}

func (l *load) add(w *weight, author string) {
	l.changes++
	l.bytes += w.bytes
	if w.author == author {
		l.own++
	}
}

// loadLocked is what waits now. The record of each change is read once.
func (r *Reviews) loadLocked(author string) (l load, err error) {
	now, before, known := r.clock.Steady().UnixMilli(), r.known, make([]weight, 0, len(r.known)+1)
	l.last = max(r.last, r.readLast())
	for e, err := range embedded.Each(r.store.List, kv.List{NS: kv.ReviewNamespace, Prefix: changePrefix}) {
		if err != nil {
			return l, err
		}
		number, _ := strconv.ParseInt(strings.TrimPrefix(e.Key, changePrefix), 10, 64)
		for len(before) > 0 && before[0].number < number {
			before = before[1:]
		}
		if len(before) > 0 && before[0].number == number && before[0].mod == e.Mod {
			known = append(known, before[0])
		} else if rec, err := recordOf(e); err != nil {
			known = append(known, weight{number: number, mod: e.Mod, over: true})
		} else {
			known = append(known, weight{number, e.Mod, rec.By.Identity.Name, rec.Bytes, rec.ends, rec.State.decided()})
		}
		l.last = max(l.last, number)
		if _, under := r.under[number]; !under && !known[len(known)-1].over && known[len(known)-1].ends > now {
			l.add(&known[len(known)-1], author)
		}
	}
	for _, w := range r.under {
		l.add(&w, author)
	}
	r.known = known
	return l, nil
}

// take counts a change that is going to wait, until give, and gives it a number. codes.Limit, codes.TooLarge.
func (r *Reviews) take(rec *record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	author := rec.By.Identity.Name
	l, err := r.loadLocked(author)
	switch {
	case err != nil:
		return err
	case rec.Bytes > r.cfg.MaxEach:
		return codes.Errorf(codes.TooLarge, "the change needs approval and has %d bytes, and %d can be held; nothing was changed: make several of it", rec.Bytes, r.cfg.MaxEach)
	case l.changes >= r.cfg.MaxChanges:
		return codes.Errorf(codes.Limit, "the change needs approval, and %d wait for it, which is the limit; nothing was changed: have some decided, or raise the limit with --max-reviews", l.changes)
	case l.own >= r.cfg.MaxOf:
		return codes.Errorf(codes.Limit, "the change needs approval, and %d of yours wait for it, which is the limit; nothing was changed: have some decided, or withdraw them", l.own)
	case l.bytes+rec.Bytes > r.cfg.MaxBytes:
		return codes.Errorf(codes.Limit, "the change needs approval, and those that wait for it have %d bytes, of at most %d; nothing was changed: have some decided", l.bytes, r.cfg.MaxBytes)
	}
	r.last = l.last + 1
	rec.Number = r.last
	r.under[rec.Number] = weight{number: rec.Number, author: author, bytes: rec.Bytes}
	return nil
}

// give says that a change is written by now, or is not going to be.
func (r *Reviews) give(number int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.under, number)
}

// overtaken reports whether a change was not held, with that error, because another server has given its
// number or a higher one. It may be tried with another number.
func (r *Reviews) overtaken(number int64, err error) bool {
	if codes.Of(err) != codes.OutOfBounds || r.readLast() < number { // else it is an increment of the caller's
		return false
	}
	r.give(number)
	return true
}
