package ledger

import (
	"fmt"
	"slices"
)

// The promises of a watch on documents, as PROTOCOL.md names them.
const (
	Ordered    = "ordered"
	Unique     = "unique"
	Reliable   = "reliable"
	Atomic     = "atomic"
	Resumable  = "resumable"
	Bookmarked = "bookmarked"
	Durable    = "durable"
)

// Told is what a watch on documents was told at one time: the changes of a revision, or without
// any a bookmark. With Resumed it is no more than where the watch went on.
type Told struct {
	Revision int64
	Changes  map[string]string // contents by name; "": there are none any more
	Resumed  bool
}

// History is what one watch was told, of everything after a revision.
type History struct {
	From int64
	Told []Told
}

// Recorded is what is known after a test with watches on documents.
type Recorded struct {
	Histories []History
	// Acknowledged are writes that were answered, each of contents that no other has.
	Acknowledged []Told
	// Together are names that change only together.
	Together []string
	// Served is what the server has in the end, when all watches have caught up.
	Served map[string]string
}

// Judge returns which promises were broken, and how, the first of each history.
func (r *Recorded) Judge() (broken map[string]string) {
	broken = map[string]string{}
	union := map[int64]Told{}
	for _, h := range r.Histories {
		for _, t := range h.Told {
			if len(t.Changes) > 0 {
				union[t.Revision] = t
			}
		}
	}
	complain := func(promise, format string, args ...any) {
		if broken[promise] == "" {
			broken[promise] = fmt.Sprintf(format, args...)
		}
	}
	for _, h := range r.Histories {
		h.judge(r.Together, union, complain)
	}
	r.judgeWrites(union, complain)
	return broken
}

// judge looks at one history by itself, and at what others were told that it was not.
func (h *History) judge(together []string, union map[int64]Told, complain func(promise, format string, args ...any)) {
	seen, last, marked := map[int64]bool{}, h.From, int64(0)
	resumed := map[int64]bool{} // by the revision before which the watch was resumed
	var fresh bool
	for _, t := range h.Told {
		switch {
		case t.Resumed:
			if fresh = true; t.Revision != last {
				complain(Resumable, "resumed behind %d, told up to %d", t.Revision, last)
			}
			continue
		case len(t.Changes) == 0:
			if t.Revision < last {
				complain(Bookmarked, "a bookmark at %d after %d", t.Revision, last)
			}
			marked, last = max(marked, t.Revision), max(last, t.Revision)
			continue
		case seen[t.Revision]:
			complain(Unique, "revision %d is told twice", t.Revision)
		case t.Revision <= marked:
			complain(Bookmarked, "revision %d behind a bookmark at %d", t.Revision, marked)
		case t.Revision <= last:
			complain(Ordered, "revision %d after %d", t.Revision, last)
		}
		resumed[t.Revision], fresh = fresh, false
		seen[t.Revision], last = true, max(last, t.Revision)
		n := 0
		for _, name := range together {
			if _, changed := t.Changes[name]; changed {
				n++
			}
		}
		if whole := union[t.Revision]; n > 0 && n < len(together) || len(t.Changes) < len(whole.Changes) {
			complain(Atomic, "revision %d has only %v", t.Revision, t.Changes)
		}
	}
	told := slices.Sorted(func(yield func(int64) bool) {
		for rev := range seen {
			if !yield(rev) {
				return
			}
		}
	})
	for rev := range union {
		if seen[rev] || rev <= h.From || rev > last {
			continue
		}
		next, found := slices.BinarySearch(told, rev)
		if !found && next < len(told) && resumed[told[next]] {
			complain(Resumable, "revision %d was missed before the watch was resumed", rev)
		} else {
			complain(Reliable, "revision %d was never told", rev)
		}
	}
}

// judgeWrites compares what was told with what was acknowledged and what is served.
func (r *Recorded) judgeWrites(union map[int64]Told, complain func(promise, format string, args ...any)) {
	told, newest, at := map[string]bool{}, map[string]string{}, map[string]int64{}
	for rev, t := range union {
		for name, contents := range t.Changes {
			told[name+" "+contents] = true
			if rev > at[name] {
				newest[name], at[name] = contents, rev
			}
		}
	}
	for _, w := range r.Acknowledged {
		for name, contents := range w.Changes {
			if !told[name+" "+contents] {
				complain(Reliable, "%s %s was acknowledged and never told", name, contents)
			}
		}
	}
	for name, contents := range newest {
		if r.Served[name] != contents {
			complain(Durable, "%s: %s was told, %s is served", name, contents, r.Served[name])
		}
	}
}
