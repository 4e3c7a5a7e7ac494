package state

import (
	"slices"

	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
)

// How many recent grants are remembered for a connection.
const (
	maxLocksKept  = 16
	maxLeasesKept = 64
)

// holdings are what one session waits for, and what it was granted recently. The latter is
// only for people to see: the store has the truth, which outlives the connection.
type holdings struct {
	writes []*kv.Write            // for room in the store's queue
	waits  map[*lockWait]struct{} // for locks
	leases []kv.LeaseID           // oldest first
	locks  []roster.Lock
}

// holdingsOf returns the session's holdings.
func holdingsOf(s *gate.Session) *holdings {
	if h, ok := s.Part(gate.OfState).(*holdings); ok {
		return h
	}
	h := &holdings{waits: make(map[*lockWait]struct{})}
	s.SetPart(gate.OfState, h)
	return h
}

func (h *holdings) ReadOn() {}

// Ended removes the session from all lines that it waits in.
func (h *holdings) Ended() {
	for w := range h.waits {
		if w.waiter != nil {
			w.waiter.Cancel()
		}
	}
	clear(h.waits)
	h.writes = nil
}

func (h *holdings) Describe(info *roster.Client, room int) {
	info.Locks = slices.Clone(h.locks)
	for w := range h.waits {
		if len(info.Locks) >= room {
			break
		}
		info.Locks = append(info.Locks, roster.Lock{NS: w.req.NS, Key: w.req.Key, Lease: w.req.Lease})
	}
	for _, id := range h.leases {
		info.Leases = append(info.Leases, kv.Lease{ID: id})
	}
}

// forgetWaits drops the session's wait for a lock after its lease has given that up; the
// manager has removed it from the line.
func (h *holdings) forgetWaits(q protocol.KVUnlockRequest) {
	for w := range h.waits {
		if w.waiter != nil && w.req.NS == q.NS && w.req.Key == q.Key && w.req.Lease == q.Lease {
			delete(h.waits, w)
		}
	}
}

func (h *holdings) lease(id kv.LeaseID) { h.leases = remember(h.leases, id, maxLeasesKept) }

func (h *holdings) lock(l roster.Lock) { h.locks = remember(h.locks, l, maxLocksKept) }

// remember appends one and drops the oldest beyond most.
func remember[T comparable](list []T, one T, most int) []T {
	if slices.Contains(list, one) {
		return list
	}
	if len(list) == most {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, one)
}

// written records the leases that a transaction has granted.
func written(s *gate.Session, res *kv.Result) {
	for i := range res.Ops {
		if id := res.Ops[i].Lease.ID; id != 0 {
			holdingsOf(s).lease(id)
		}
	}
}

// unlocked forgets a released lock.
func (h *holdings) unlocked(ns, key string) {
	h.locks = slices.DeleteFunc(h.locks, func(l roster.Lock) bool { return l.NS == ns && l.Key == key })
}

// StillHeld removes locks and leases from info that have ended without the session's
// doing. Any goroutine may call it.
func (f *Handlers) StillHeld(info *roster.Client) {
	info.Locks = slices.DeleteFunc(info.Locks, func(l roster.Lock) bool {
		if l.Fence == 0 {
			return false
		}
		e, _ := f.store.Get([]byte(l.NS), []byte(l.Key))
		return e == nil || e.Create != l.Fence
	})
	leases := info.Leases[:0]
	for _, held := range info.Leases {
		if lease, err := f.store.Lease(held.ID); err == nil {
			leases = append(leases, lease)
		}
	}
	info.Leases = leases
}
