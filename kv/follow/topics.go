package follow

import (
	"slices"

	"confcenter/kv"
)

// Topics are the filters that are followed, found by the events that they match: that takes a few
// look-ups for an event, however many filters there are. They belong to one goroutine at a time.
type Topics[T any] struct {
	byFilter map[kv.Filter]*Topic[T]
	// lengths counts, for each namespace, the prefixes of each length: those of a key that are worth
	// looking up.
	lengths map[string][]length
	matched []*Topic[T]
	taken   int // of matched
}

// Topic is one filter that is followed.
type Topic[T any] struct {
	Filter kv.Filter
	Of     T      // its followers; Topics leave it alone
	Parts  []Part // the events that have matched since they were last taken

	n int // followers
}

// length is the number of prefixes with that length in a namespace.
type length struct{ length, topics int }

// Join returns the topic of a filter, which then has one follower more.
func (l *Topics[T]) Join(filter kv.Filter) *Topic[T] {
	t := l.byFilter[filter]
	if t == nil {
		if l.byFilter == nil {
			l.byFilter, l.lengths = make(map[kv.Filter]*Topic[T]), make(map[string][]length)
		}
		t = &Topic[T]{Filter: filter}
		l.byFilter[filter] = t
		l.countLength(filter, 1)
	}
	t.n++
	return t
}

// Leave ends what Join began for one follower.
func (l *Topics[T]) Leave(t *Topic[T]) {
	if t.n--; t.n == 0 {
		delete(l.byFilter, t.Filter)
		l.countLength(t.Filter, -1)
	}
}

// Len returns how many there are.
func (l *Topics[T]) Len() int { return len(l.byFilter) }

func (l *Topics[T]) countLength(filter kv.Filter, by int) {
	if filter.Exact || filter.NS == "" {
		return
	}
	list := l.lengths[filter.NS]
	i := slices.IndexFunc(list, func(n length) bool { return n.length == len(filter.Text) })
	if i < 0 {
		i, list = len(list), append(list, length{length: len(filter.Text)})
	}
	if list[i].topics += by; list[i].topics == 0 {
		list = slices.Delete(list, i, i+1)
	}
	if l.lengths[filter.NS] = list; len(list) == 0 {
		delete(l.lengths, filter.NS)
	}
}

// Match adds event i of a change to every topic that it belongs to, and returns the number of look-ups.
func (l *Topics[T]) Match(rev kv.Revision, events []kv.Event, i int) (looked int) {
	e := events[i].Entry
	l.note(kv.Filter{NS: e.NS, Text: e.Key, Exact: true}, rev, events, i)
	l.note(kv.Filter{}, rev, events, i)
	lengths := l.lengths[e.NS]
	for _, n := range lengths {
		if n.length <= len(e.Key) {
			l.note(kv.Filter{NS: e.NS, Text: e.Key[:n.length]}, rev, events, i)
		}
	}
	return 2 + len(lengths)
}

// Wants reports whether a key matches any of them.
func (l *Topics[T]) Wants(ns, key string) bool {
	return l.byFilter[kv.Filter{NS: ns, Text: key, Exact: true}] != nil || l.byFilter[kv.Filter{}] != nil ||
		slices.ContainsFunc(l.lengths[ns], func(n length) bool {
			return n.length <= len(key) && l.byFilter[kv.Filter{NS: ns, Text: key[:n.length]}] != nil
		})
}

func (l *Topics[T]) note(filter kv.Filter, rev kv.Revision, events []kv.Event, i int) {
	t := l.byFilter[filter]
	if t == nil {
		return
	}
	if len(t.Parts) == 0 {
		l.matched = append(l.matched, t)
	}
	last := len(t.Parts) - 1
	if last < 0 || t.Parts[last].Rev != rev {
		t.Parts = append(t.Parts, Part{Rev: rev})
		last++
	}
	t.Parts[last].Add(events, i)
}

// Matched returns the first topic that has matched and was not taken yet; nil: there is none.
func (l *Topics[T]) Matched() *Topic[T] {
	if l.taken < len(l.matched) {
		return l.matched[l.taken]
	}
	l.matched, l.taken = l.matched[:0], 0
	return nil
}

// Taken drops the events of what Matched returns, which is the next one from then on.
func (l *Topics[T]) Taken() {
	t := l.matched[l.taken]
	clear(t.Parts)
	t.Parts = t.Parts[:0]
	l.matched[l.taken] = nil
	l.taken++
}
