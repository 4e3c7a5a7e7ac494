package storage

import (
	"encoding/binary"
	"math/bits"
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
	now, before atomic.Pointer[[useWords]atomic.Uint64]
}

const useWords = 1 << 17 // of 64 owners each: 1 MiB

func (u *uses) mark(hash uint64) {
	word, bit := place(hash)
	if w := &u.now.Load()[word]; w.Load()&bit == 0 {
		w.Or(bit)
	}
}

func (u *uses) has(hash uint64) bool {
	word, bit := place(hash)
	before := u.before.Load()
	return u.now.Load()[word].Load()&bit != 0 || before != nil && before[word].Load()&bit != 0
}

// turn begins another period; the one before the last is forgotten.
func (u *uses) turn() {
	u.before.Store(u.now.Load())
	u.now.Store(new([useWords]atomic.Uint64))
}

func place(hash uint64) (word int, bit uint64) {
	const perWord = 64
	return int(hash / perWord % useWords), 1 << (hash % perWord)
}
