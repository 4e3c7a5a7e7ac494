package policy

import (
	"cmp"
	"math/bits"
	"slices"
)

// thing is one of what rules and quotas list: who or what they are about, or a verb.
type thing struct {
	who  who
	what pattern
	verb Verb
}

func thingsOf(who []who, what []pattern, verbs Verb) []thing {
	var all []thing
	for _, w := range who {
		all = append(all, thing{who: w})
	}
	for _, p := range what {
		all = append(all, thing{what: p})
	}
	for v := Verb(1); v < none; v <<= 1 {
		if verbs&v != 0 {
			all = append(all, thing{verb: v})
		}
	}
	return all
}

// lists finds, of many lists of things, those that have all of some. Roles are compared where all
// changes of documents wait their turn, and each rule with each would take too long.
type lists struct {
	n  int
	in map[thing][]int32 // the lists that have it, ascending
	// sets are the same as bits, of things that more than one list in sparse has: they are made
	// when they are needed, and together no larger than what they are made of
	sets map[thing][]uint64
}

const sparse = 512

func (l *lists) add(things []thing) {
	if l.in == nil {
		l.in, l.sets = map[thing][]int32{}, map[thing][]uint64{}
	}
	for _, t := range things {
		if in := l.in[t]; len(in) == 0 || in[len(in)-1] != int32(l.n) {
			l.in[t] = append(in, int32(l.n))
		}
	}
	l.n++
}

func (l *lists) set(t thing) []uint64 {
	set := l.sets[t]
	if set == nil {
		set = make([]uint64, l.n/64+1)
		for _, i := range l.in[t] {
			set[i/64] |= 1 << (i % 64)
		}
		l.sets[t] = set
	}
	return set
}

// have reports whether ok holds for one of the lists that have all things, of which there are some.
func (l *lists) have(things []thing, ok func(i int) bool) bool {
	rarest := l.in[slices.MinFunc(things, func(a, b thing) int { return cmp.Compare(len(l.in[a]), len(l.in[b])) })]
	if len(rarest) <= l.n/sparse {
		return slices.ContainsFunc(rarest, func(i int32) bool {
			return ok(int(i)) && !slices.ContainsFunc(things, func(t thing) bool { _, has := slices.BinarySearch(l.in[t], i); return !has })
		})
	}
	all := slices.Clone(l.set(things[0]))
	for _, t := range things[1:] {
		for i, word := range l.set(t) {
			all[i] &= word
		}
	}
	for i, word := range all {
		for ; word != 0; word &= word - 1 {
			if ok(i*64 + bits.TrailingZeros64(word)) {
				return true
			}
		}
	}
	return false
}

// asker asks about each pattern once: to look below one takes as long as there are others there.
type asker struct {
	p        *Permits
	may, not map[pattern]Verb
}

func ask(p *Permits) *asker { return &asker{p, map[pattern]Verb{}, map[pattern]Verb{}} }

// allows reports whether v, one verb, is allowed with all that pat is about.
func (a *asker) allows(v Verb, pat pattern) bool {
	if (a.may[pat]|a.not[pat])&v == 0 {
		if pat.many && a.p.Covers(v, pat.class, pat.text) || !pat.many && a.p.May(v, pat.class, []byte(pat.text)) {
			a.may[pat] |= v
		} else {
			a.not[pat] |= v
		}
	}
	return a.may[pat]&v != 0
}
