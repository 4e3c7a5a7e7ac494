package kvtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/replica"
)

// keepingLog is a list that keeps its leases, as etcd does: it gives them names that
// are no revisions and whole seconds, and ends them itself, before anything else that
// it is asked for. What ends a lease is between the transactions of the replica, which
// then proposes them again.
type keepingLog struct {
	*memoryLog
	clock   clock.Clock
	arrived chan struct{}

	// guarded by the list's mu
	leases map[kv.LeaseID]*keptLease
	names  kv.LeaseID
}

type keptLease struct {
	ttl time.Duration
	end time.Time
}

func newKeepingLog(list *memoryLog, c clock.Clock) *keepingLog {
	return &keepingLog{memoryLog: list, clock: c, arrived: make(chan struct{}, 1), leases: map[kv.LeaseID]*keptLease{}}
}

// on is the same leases beside a copy of the list.
func (l *keepingLog) on(list *memoryLog) *keepingLog {
	other := newKeepingLog(list, l.clock)
	other.names = l.names
	maps.Copy(other.leases, l.leases)
	return other
}

// expireLocked ends the leases whose time is over.
func (l *keepingLog) expireLocked() {
	for _, id := range slices.Sorted(maps.Keys(l.leases)) {
		if !l.leases[id].end.After(l.clock.Steady()) {
			l.endLocked(id)
		}
	}
}

// endLocked appends the end of a lease with the deletions of its keys.
func (l *keepingLog) endLocked(id kv.LeaseID) {
	now := l.clock.Now().UnixMilli()
	c := replica.Commit{
		Change: kv.Change{Revision: l.newestLocked() + 1, Time: now},
		Leases: []replica.LeaseChange{{ID: id, TTL: l.leases[id].ttl, Ended: true}},
	}
	keys := map[name]*kv.Entry{}
	for i := range l.commits {
		for _, event := range l.commits[i].Events {
			keys[name{event.Entry.NS, event.Entry.Key}] = event.Entry
		}
	}
	for _, e := range keys {
		if e.Lease == id && !e.Deleted() {
			gone := &kv.Entry{NS: e.NS, Key: e.Key, Mod: c.Revision, Updated: now}
			c.Events = append(c.Events, kv.Event{Kind: kv.Delete, Entry: gone, Prev: e})
		}
	}
	slices.SortFunc(c.Events, func(a, b kv.Event) int {
		return compareNames(name{a.Entry.NS, a.Entry.Key}, name{b.Entry.NS, b.Entry.Key})
	})
	delete(l.leases, id)
	l.commits = append(l.commits, c)
	l.bytes += changeSize(&c)
	select {
	case l.arrived <- struct{}{}:
	default:
	}
}

func (l *keepingLog) lock() {
	l.mu.Lock()
	if !l.pulled {
		l.expireLocked()
	}
}

func (l *keepingLog) Shared() bool             { return true }
func (l *keepingLog) Arrived() <-chan struct{} { return l.arrived }

func (l *keepingLog) Capabilities() kvstore.Capabilities {
	able := l.memoryLog.Capabilities()
	able.ExpireEvents, able.MillisecondTTL = false, false
	return able
}

func (l *keepingLog) Load(ctx context.Context, load replica.Loader) (kv.Revision, error) {
	l.lock()
	l.mu.Unlock()
	return l.memoryLog.Load(ctx, load)
}

// Propose takes a group if nothing has come between.
func (l *keepingLog) Propose(_ context.Context, group []replica.Commit, proofs []replica.Proof) (int, error) {
	l.lock()
	defer l.mu.Unlock()
	if !l.pulled && l.newestLocked() != proofs[0].After {
		return 0, replica.ErrConflict
	}
	for _, c := range group {
		for _, lease := range c.Leases {
			if l.leases[lease.ID] == nil || lease.Ended {
				panic("the replica grants or ends leases by itself")
			}
		}
	}
	return l.proposeLocked(group)
}

func (l *keepingLog) Tail(after kv.Revision) (tail []replica.Commit, through kv.Revision, err error) {
	l.lock()
	defer l.mu.Unlock()
	for i := range l.commits {
		if l.commits[i].Revision > after {
			tail = append(tail, copied(l.commits[i]))
		}
	}
	return tail, l.newestLocked(), nil
}

func (l *keepingLog) Barrier(ctx context.Context) (kv.Revision, error) {
	l.lock()
	l.mu.Unlock()
	return l.memoryLog.Barrier(ctx)
}

func (l *keepingLog) Grant(_ context.Context, ttl time.Duration) (kv.LeaseID, time.Duration, error) {
	l.lock()
	defer l.mu.Unlock()
	l.names += 7
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	l.leases[l.names] = &keptLease{ttl: ttl, end: l.clock.Steady().Add(ttl)}
	return l.names, ttl, nil
}

func (l *keepingLog) Revoke(_ context.Context, id kv.LeaseID) (kv.Revision, error) {
	l.lock()
	defer l.mu.Unlock()
	if l.leases[id] == nil {
		return 0, codes.Errorf(codes.LeaseGone, "there is no lease %d", id)
	}
	l.endLocked(id)
	return l.newestLocked(), nil
}

func (l *keepingLog) KeepAlive(_ context.Context, id kv.LeaseID) (time.Duration, error) {
	l.lock()
	defer l.mu.Unlock()
	known := l.leases[id]
	if known == nil {
		return 0, codes.Errorf(codes.LeaseGone, "there is no lease %d", id)
	}
	known.end = l.clock.Steady().Add(known.ttl)
	return known.ttl, nil
}
