package review

import (
	"sync"

	"confcenter/codes"
)

// waiting counts the changes that wait, so that their limits hold.
type waiting struct {
	cfg Config // set at open

	mu    sync.Mutex
	last  int64            // guarded by mu: the highest number that was given
	list  map[int64]weight // guarded by mu: by number
	bytes int64            // guarded by mu: of all of them
	of    map[string]int64 // guarded by mu: how many each author has
}

// weight is what counts of a change that waits.
type weight struct {
	author string
	bytes  int64
	ends   int64 // when it expires, by the monotonic clock
}

// take counts a change that is going to wait, and gives it a number. codes.Limit, codes.TooLarge.
func (w *waiting) take(author string, bytes, ends int64) (number int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expireLocked()
	switch {
	case bytes > w.cfg.MaxEach:
		return 0, codes.Errorf(codes.TooLarge, "the change needs approval and has %d bytes, and %d can be held; nothing was changed: make several of it", bytes, w.cfg.MaxEach)
	case int64(len(w.list)) >= w.cfg.MaxChanges:
		return 0, codes.Errorf(codes.Limit, "the change needs approval, and %d wait for it, which is the limit; nothing was changed: have some decided, or raise the limit with --max-reviews", len(w.list))
	case w.of[author] >= w.cfg.MaxOf:
		return 0, codes.Errorf(codes.Limit, "the change needs approval, and %d of yours wait for it, which is the limit; nothing was changed: have some decided, or withdraw them", w.of[author])
	case w.bytes+bytes > w.cfg.MaxBytes:
		return 0, codes.Errorf(codes.Limit, "the change needs approval, and those that wait for it have %d bytes, of at most %d; nothing was changed: have some decided", w.bytes, w.cfg.MaxBytes)
	}
	w.last++
	w.takeLocked(w.last, weight{author, bytes, ends})
	return w.last, nil
}

func (w *waiting) takeLocked(number int64, one weight) {
	w.list[number] = one
	w.bytes += one.bytes
	w.of[one.author]++
}

// give stops counting a change that waits no longer, or never did.
func (w *waiting) give(number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveLocked(number)
}

func (w *waiting) giveLocked(number int64) {
	one, waits := w.list[number]
	if !waits {
		return
	}
	delete(w.list, number)
	w.bytes -= one.bytes
	if w.of[one.author]--; w.of[one.author] == 0 {
		delete(w.of, one.author)
	}
}

// expireLocked stops counting what has expired.
func (w *waiting) expireLocked() {
	now := w.cfg.Clock.Steady().UnixMilli()
	for number, one := range w.list {
		if one.ends <= now {
			w.giveLocked(number)
		}
	}
}
