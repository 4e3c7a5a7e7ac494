package server

import (
	"slices"

	"confcenter/kv"
)

// How much of what it was granted lately is remembered of a connection.
const (
	maxLocksKept  = 16
	maxLeasesKept = 64
)

// grants are the leases and locks that a connection was granted lately, for people to
// see. Nothing depends on them: what counts is in the store, and outlives the
// connection.
type grants struct {
	leases []kv.LeaseID // oldest first
	locks  []LockInfo
}

func (g *grants) lease(id kv.LeaseID) { g.leases = remember(g.leases, id, maxLeasesKept) }

func (g *grants) lock(l LockInfo) { g.locks = remember(g.locks, l, maxLocksKept) }

// remember appends one and forgets the oldest beyond most.
func remember[T comparable](list []T, one T, most int) []T {
	if slices.Contains(list, one) {
		return list
	}
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, one)
}

// written takes note of the leases that a transaction granted.
func (g *grants) written(res *kv.Result) {
	for i := range res.Ops {
		if id := res.Ops[i].Lease.ID; id != 0 {
			g.lease(id)
		}
	}
}

// unlocked forgets a lock that was given back.
func (g *grants) unlocked(ns, key string) {
	g.locks = slices.DeleteFunc(g.locks, func(l LockInfo) bool { return l.NS == ns && l.Key == key })
}
