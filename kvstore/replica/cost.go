package replica

import (
	"maps"

	"confcenter/kv"
)

// What things take in memory besides their texts and values, in bytes. Maps and slices
// have room to grow: what follows has the mean of it. A test compares it with the heap.
const (
	keyCost     = 204 // entry and slot, and their places in map and tree
	expiryCost  = 84  // of a key: its plan, and the plan's places
	leasedCost  = 27  // of a key that ends with a lease: its place there
	spaceCost   = 420 // of a namespace
	leaseCost   = 128 // of a lease without keys
	holderCost  = 190 // of a lease that has some, besides
	tokenCost   = 190
	versionCost = 180 // of an old version: its entry and what finds it
)

// bytesCost is what n bytes take that were allocated by themselves: Go rounds up.
func bytesCost(n int) int64 {
	const large, page = 32 << 10, 8 << 10
	if n > large {
		return (int64(n) + page - 1) / page * page
	}
	return int64(n + n/16 + 8)
}

// costOf is what a key takes in memory.
func costOf(e *kv.Entry) int64 {
	cost := keyCost + bytesCost(len(e.Key)) + bytesCost(len(e.Value.Data))
	if e.Expires != 0 {
		cost += expiryCost
	}
	if e.Lease != 0 {
		cost += leasedCost
	}
	return cost
}

// tally counts keys, their bytes, what they take in memory, and those that have a lease.
type tally struct{ keys, bytes, cost, leased int64 }

func (t *tally) add(d tally) {
	t.keys += d.keys
	t.bytes += d.bytes
	t.cost += d.cost
	t.leased += d.leased
}

// roomy reports whether a map with n keys that has had most of them has too much room.
func roomy(n, most int) bool {
	const few, part = 4096, 4
	return most >= few && n <= most/part
}

// thinned is m, or a copy with less room if m has lost most of what it had: Go's maps
// only grow. most is how many m has had; below some thousand it does not matter.
func thinned[M ~map[K]V, K comparable, V any](m M, most int) (M, int) {
	if most = max(most, len(m)); !roomy(len(m), most) {
		return m, most
	}
	less := make(M, len(m))
	maps.Copy(less, m)
	return less, len(less)
}
