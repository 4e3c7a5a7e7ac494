package kvstore

import (
	"confcenter/internal/memory"
	"confcenter/kv"
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
	cost := memory.EntryCost + bytesCost(len(e.Key)) + bytesCost(len(e.Value.Data))
	if e.Lease != 0 {
		cost += memory.LeaseCost / 4
	}
	return cost
}

// usage counts keys, their bytes, what they take in memory, and those that have a lease.
type usage struct{ keys, bytes, cost, leased int64 }

func (t *usage) add(d usage) {
	t.keys += d.keys
	t.bytes += d.bytes
	t.cost += d.cost
	t.leased += d.leased
}
