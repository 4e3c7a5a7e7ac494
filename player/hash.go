package player

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

// hashOf is the hash of an owner: of the namespace and its key. Filters on disk are made of it:
// it must never change.
func hashOf[A, B string | []byte](ns A, owner B) uint64 {
	h := mixIn(mixIn(uint64(len(ns)), ns), owner)
	h = (h ^ h>>32) * odd
	h = (h ^ h>>29) * odd
	return h ^ h>>32
}

const odd = 0x9E3779B97F4A7C15

func mixIn[T string | []byte](h uint64, text T) uint64 {
	const word = 8
	i := 0
	for ; i+word <= len(text); i += word {
		var some [word]byte
		copy(some[:], text[i:i+word])
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(some[:]))*odd, 29)
	}
	var rest [word]byte
	copy(rest[:], text[i:])
	return bits.RotateLeft64((h^binary.LittleEndian.Uint64(rest[:])^uint64(len(text))<<56)*odd, 29)
}

// uses tells which owners were used of late, roughly: owners may share a mark, and then one
// stays in memory for the other's sake.
type uses struct {
	times atomic.Pointer[[]*period] // the newest first; only those who let owners leave change it
}

// period is who was used in a time.
type period struct {
	end   atomic.Int64 // in ms by the monotonic clock; as far as possible away while it goes on
	words [useWords]atomic.Uint64
}

const (
	useWords   = 1 << 17 // of 64 owners each: 1 MiB
	maxPeriods = 10
)

func newUses() *uses {
	u := new(uses)
	u.turn(0)
	return u
}

func (u *uses) mark(hash uint64) {
	word, bit := place(hash)
	if w := &(*u.times.Load())[0].words[word]; w.Load()&bit == 0 {
		w.Or(bit)
	}
}

// has reports whether an owner was used since then, in ms by the monotonic clock.
func (u *uses) has(hash uint64, since int64) bool {
	word, bit := place(hash)
	for _, p := range *u.times.Load() {
		if p.end.Load() > since && p.words[word].Load()&bit != 0 {
			return true
		}
	}
	return false
}

// turn begins another period. If there are many the two oldest become one.
func (u *uses) turn(now int64) {
	next := new(period)
	next.end.Store(math.MaxInt64)
	list := []*period{next}
	if old := u.times.Load(); old != nil {
		(*old)[0].end.Store(now)
		list = append(list, *old...)
	}
	if n := len(list); n > maxPeriods {
		for i := range list[n-2].words {
			list[n-2].words[i].Or(list[n-1].words[i].Load())
		}
		list = list[:n-1]
	}
	u.times.Store(&list)
}

// ends is when the periods ended that are over, the oldest first.
func (u *uses) ends() (list []int64) {
	for _, p := range slices.Backward((*u.times.Load())[1:]) {
		list = append(list, p.end.Load())
	}
	return list
}

func place(hash uint64) (word int, bit uint64) {
	const perWord = 64
	return int(hash / perWord % useWords), 1 << (hash % perWord)
}
