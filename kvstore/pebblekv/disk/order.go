package disk

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"confcenter/kv"
)

// change is one event on its way into tables.
type change struct {
	sign      uint64 // see sortChanges
	event     *kv.Event
	recovered bool
}

// sortChanges puts changes into the order of namespace, key and revision. Names
// are far apart in memory and mostly begin alike, so comparing them is what sorting
// would cost. Instead each change gets the eight bytes behind what all names of
// the batch have in common, and names are compared only where those are the same.
func sortChanges(changes []change) {
	if len(changes) == 0 {
		return
	}
	first := changes[0].event.Entry
	common := len(first.NS) + 1 + len(first.Key)
	for i := range changes {
		common = commonBytes(first, changes[i].event.Entry, common)
	}
	for i := range changes {
		changes[i].sign = sign(changes[i].event.Entry, common)
	}
	slices.SortFunc(changes, func(x, y change) int {
		if x.sign != y.sign {
			return cmp.Compare(x.sign, y.sign)
		}
		a, b := x.event.Entry, y.event.Entry
		if c := strings.Compare(a.NS, b.NS); c != 0 {
			return c
		}
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return cmp.Compare(a.Mod, b.Mod)
	})
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
