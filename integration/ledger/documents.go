package ledger

import (
	"fmt"
	"maps"
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

// Return is a change that made a document what it was at an earlier revision, or all documents if
// it has no name.
type Return struct {
	Revision, To int64
	Name         string
}

// Recorded is what is known after a test with watches on documents.
type Recorded struct {
	Histories []History
	Followers []Follower
	// Acknowledged are writes that were answered, at the revision that the answer had. Without
	// one the contents are such as no other write has.
	Acknowledged []Told
	// Returns are those that were made. What they went back to was told as well.
	Returns []Return
	// Together are groups of names; those of one change only together. Alike are those of
	// them that have the same contents at any time.
	Together, Alike [][]string
	// Served is what the server has in the end, when all watches have caught up.
	Served map[string]string
}

// Judge returns which promises were broken, and how: the first time of each.
func (r *Recorded) Judge() (broken map[string]string) {
	broken = map[string]string{}
	union := map[int64]Told{}
	for _, h := range r.Histories {
		for _, t := range h.Told {
			if len(t.Changes) > len(union[t.Revision].Changes) {
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
	for _, f := range r.Followers {
		f.judge(union, complain)
	}
	r.judgeWrites(union, complain)
	r.judgeStates(union, complain)
	return broken
}

// judge looks at one history by itself, and at what others were told that it was not.
func (h *History) judge(together [][]string, union map[int64]Told, complain func(promise, format string, args ...any)) {
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
		if half(together, t.Changes) || len(t.Changes) < len(union[t.Revision].Changes) {
			complain(Atomic, "revision %d has only %v", t.Revision, t.Changes)
		}
	}
	told := slices.Sorted(maps.Keys(seen))
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

// half reports whether some names of a group have changed, and others have not.
func half(together [][]string, changes map[string]string) bool {
	for _, group := range together {
		n := 0
		for _, name := range group {
			if _, changed := changes[name]; changed {
				n++
			}
		}
		if n > 0 && n < len(group) {
			return true
		}
	}
	return false
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
			is, there := union[w.Revision].Changes[name]
			if w.Revision == 0 && !told[name+" "+contents] || w.Revision != 0 && (!there || is != contents) {
				complain(Reliable, "%s %s was acknowledged at revision %d and never told", name, contents, w.Revision)
			}
		}
	}
	for name, contents := range newest {
		if r.Served[name] != contents {
			complain(Durable, "%s: %s was told, %s is served", name, contents, r.Served[name])
		}
	}
}

// judgeStates looks at what there was at each revision.
func (r *Recorded) judgeStates(union map[int64]Told, complain func(promise, format string, args ...any)) {
	returns := map[int64]Return{}
	past := map[int64]map[string]string{} // what there was at the revisions that were gone back to
	for _, back := range r.Returns {
		returns[back.Revision], past[back.To] = back, nil
		if _, told := union[back.Revision]; !told {
			complain(Reliable, "revision %d, which went back to %d, was never told", back.Revision, back.To)
		}
	}
	wanted, now := slices.Sorted(maps.Keys(past)), map[string]string{}
	for _, rev := range slices.Sorted(maps.Keys(union)) {
		for len(wanted) > 0 && wanted[0] < rev {
			past[wanted[0]], wanted = maps.Clone(now), wanted[1:]
		}
		maps.Copy(now, union[rev].Changes)
		for _, group := range r.Alike {
			for _, name := range group {
				if now[name] != now[group[0]] {
					complain(Atomic, "at revision %d %s is %s, and %s is %s", rev, name, now[name], group[0], now[group[0]])
				}
			}
		}
		back, is := returns[rev]
		if !is {
			continue
		}
		for name, contents := range now {
			if (back.Name == "" || back.Name == name) && contents != past[back.To][name] {
				complain(Atomic, "revision %d went back to %d, and %s is %s, not %s", rev, back.To, name, contents, past[back.To][name])
			}
		}
	}
}
