package disk

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"

	"confcenter/kv"
)

// change is one event on its way into tables.
type change struct {
	sign  uint64 // see sortChanges
	event *kv.Event
}

// namesAtOnce is how many names the keeper reads before it yields; see rowsAtOnce.
const namesAtOnce = 2048

// sortChanges puts changes, which come in the order of their revisions, into that of
// namespace, key and revision. Names are far apart in memory and mostly begin alike,
// so comparing them is what sorting would cost. Instead each change gets the eight
// bytes behind what all names of the batch have in common, and names are compared
// only where those are the same.
func sortChanges(changes []change) {
	if len(changes) == 0 {
		return
	}
	first := changes[0].event.Entry
	common := len(first.NS) + 1 + len(first.Key)
	for some := range slices.Chunk(changes, namesAtOnce) {
		for i := range some {
			common = commonBytes(first, some[i].event.Entry, common)
		}
		runtime.Gosched()
	}
	for some := range slices.Chunk(changes, namesAtOnce) {
		for i := range some {
			some[i].sign = sign(some[i].event.Entry, common)
		}
		runtime.Gosched()
	}
	sortSigns(changes)
	for passed := 0; len(changes) > 0; {
		n := 1
		for n < len(changes) && changes[n].sign == changes[0].sign {
			n++
		}
		if same := changes[:n]; !slices.IsSortedFunc(same, byName) {
			slices.SortStableFunc(same, byName)
		}
		changes = changes[n:]
		if passed += n; passed >= namesAtOnce {
			passed = 0
			runtime.Gosched()
		}
	}
}

func byName(x, y change) int {
	a, b := x.event.Entry, y.event.Entry
	if c := strings.Compare(a.NS, b.NS); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

// sortSigns sorts by sign and leaves those with the same sign in their order. It goes
// by one byte after the other, from the last to the first; mostly a few of the eight
// differ at all.
func sortSigns(changes []change) {
	var counts [8][256]int
	for i := range changes {
		for digit := range counts {
			counts[digit][byte(changes[i].sign>>(8*digit))]++
		}
	}
	from, to := changes, make([]change, len(changes))
	for digit := range counts {
		place := &counts[digit]
		if place[byte(changes[0].sign>>(8*digit))] == len(changes) {
			continue
		}
		before := 0
		for i, n := range place {
			place[i] = before
			before += n
		}
		for i := range from {
			at := &place[byte(from[i].sign>>(8*digit))]
			to[*at] = from[i]
			*at++
		}
		from, to = to, from
		runtime.Gosched()
	}
	copy(changes, from)
}

// commonBytes is how many bytes a and b have in common, at most limit, of what
// their rows are named: namespace, 0, key.
func commonBytes(a, b *kv.Entry, limit int) int {
	n := commonPrefix(a.NS, b.NS)
	if n < len(a.NS) || n < len(b.NS) {
		return min(n, limit)
	}
	if limit <= n+1 {
		return limit
	}
	return min(n+1+commonPrefix(a.Key, b.Key), limit)
}

func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// sign is eight bytes of that, from skip on, as a number of the same order.
func sign(e *kv.Entry, skip int) uint64 {
	var b [8]byte
	if skip > len(e.NS) {
		copy(b[:], e.Key[skip-len(e.NS)-1:])
	} else if n := copy(b[:], e.NS[skip:]) + 1; n < len(b) {
		copy(b[n:], e.Key)
	}
	return binary.BigEndian.Uint64(b[:])
}
