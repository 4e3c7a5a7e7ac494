package policy

import (
	"slices"
	"strings"
)

// mostCompared is how many entries of who and what are compared to find out whether a role becomes less.
// One rule of ten thousand is far below it.
const mostCompared = 1_000_000

// Lessens reports whether next, which is nil if there is none, gives no one anything in the place of r,
// which is nil if there was none: it allows no one more, denies and marks no less, and no quota has
// become larger or is gone. Both roles alone say so, so it is true whatever other roles say and for
// every caller. What is not proved, or only with very many comparisons, is false.
func (r *Role) Lessens(next *Role) bool {
	if r == nil {
		r = new(Role)
	}
	if next == nil {
		next = new(Role)
	}
	allows, denies := func(one *rule) Verb { return one.allow }, func(one *rule) Verb { return one.deny }
	_, looser := r.Loosens(next)
	return !looser && len(next.unmarked(r).what) == 0 && covered(next.rules, r.rules, allows) && covered(r.rules, next.rules, denies)
}

// covered reports whether whatever some rules say of someone, by the verbs that are asked for, others
// say as well. Each entry of who is compared with the others' entries that are about all whom it is
// about: who is meant by several of them is so by as many of the others.
func covered(some, others []rule, verbs func(*rule) Verb) bool {
	var alike lists
	entries := 0
	for i := range others {
		alike.add(thingsOf(others[i].who, others[i].what, verbs(&others[i])))
		entries += len(others[i].who) + len(others[i].what)
	}
	compared := 0
	said := map[who][]says{}
	for i := range some {
		one := &some[i]
		v := verbs(one)
		if v == 0 || alike.have(thingsOf(one.who, one.what, v), func(int) bool { return true }) {
			continue
		}
		if compared += len(one.who) * len(one.what); compared > mostCompared {
			return false
		}
		for _, w := range one.who {
			said[w] = append(said[w], sayings(one, v)...)
		}
	}
	for w, list := range said {
		if compared += entries; compared > mostCompared {
			return false
		}
		var all []says
		for i := range others {
			one := &others[i]
			if v := verbs(one); v != 0 && slices.ContainsFunc(one.who, func(other who) bool { return other.covers(w) }) {
				all = append(all, sayings(one, v)...)
			}
		}
		if !newPermits(list).Within(newPermits(all)) {
			return false
		}
	}
	return true
}

// sayings are what a rule is about, with verbs that count as allowed.
func sayings(one *rule, v Verb) []says {
	list := make([]says, len(one.what))
	for i, what := range one.what {
		list[i] = says{what, v, 0}
	}
	return list
}

// covers reports whether everyone whom other is about w is about, too.
func (w who) covers(other who) bool {
	switch {
	case w.many && w.text == "":
		return true
	case w.group || other.group || !w.many:
		return w == other
	}
	return strings.HasPrefix(other.text, w.text)
}
