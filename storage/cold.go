package storage

import (
	"encoding/binary"
	"math/bits"

	"confcenter/kv"
)

// cold knows what has left memory.
type cold struct{}

func (c *cold) use(uint64) {}

// absentOrHere reports whether each field of the job is in memory, or known to be nowhere.
func (c *cold) absentOrHere(*job) bool { return true }

// fill adds what the database has of fields that are not in memory. If that is not known, it
// has it loaded and the job attempted again.
func (c *cold) fill(*job, map[string]*state, []string) bool { return true }

func (c *cold) knownOps(map[string]bool) []kv.Op { return nil }

// rowField is the field of a row.
func rowField(r *Row) Field {
	return Field{Name: r.Name, Value: r.Value, Version: r.Version, Removed: r.Removed, Updated: r.Updated}
}

// hashOf is the hash of an owner: of the namespace and its key. Filters on disk are made of it:
// it must never change.
func hashOf[A, B string | []byte](ns A, owner B) uint64 {
	return finish(mixIn(mixIn(uint64(len(ns)), ns), owner))
}

const odd = 0x9E3779B97F4A7C15

func mixIn[T string | []byte](h uint64, text T) uint64 {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		var some [8]byte
		copy(some[:], text[i:i+8])
		h = bits.RotateLeft64((h^binary.LittleEndian.Uint64(some[:]))*odd, 29)
	}
	var rest [8]byte
	copy(rest[:], text[i:])
	return bits.RotateLeft64((h^binary.LittleEndian.Uint64(rest[:])^uint64(len(text))<<56)*odd, 29)
}

func finish(h uint64) uint64 {
	h = (h ^ h>>32) * odd
	h = (h ^ h>>29) * odd
	return h ^ h>>32
}
