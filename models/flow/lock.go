package flow

import (
	"cmp"
	"context"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// LockAsk is the question of TryLock.
type LockAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"what is locked: a member, as node.N, or a key that begins with none of the layout's words"`
	Owner string `json:"owner" arg:"2" doc:"who locks it"`
	Time  int64  `json:"ltime,omitempty" arg:"3" doc:"seconds that it is expected to take: the lock lasts no longer; left out: 30"`
	Fence int64  `json:"fence,omitempty" doc:"of the lock that the owner has already: it lasts another ltime"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// LockAnswer is the answer of TryLock.
type LockAnswer struct {
	Granted  bool   `json:"granted" doc:"whether the owner that asked has it"`
	Fence    int64  `json:"fence" doc:"of the lock that there is: greater than that of all locks of the key before"`
	Owner    string `json:"owner" doc:"who has it"`
	Since    int64  `json:"ctime,omitempty" doc:"since when, in nanoseconds since 1970, if it is another"`
	Time     int64  `json:"ltime,omitempty" doc:"for how many seconds, unless its owner prolongs it"`
	Revision int64  `json:"revision" doc:"the store's revision; that KEY.lock.owner goes after it can be watched"`
}

// The names of what a lock consists of, behind the key and a dot.
const lockOwner, lockSince, lockTime = "lock.owner", "lock.ctime", "lock.ltime"

// TryLock locks a key as long as a lease of ltime lasts, or says who holds it.
func (f *Flow) TryLock(ctx context.Context, by *access.Actor, q *LockAsk) (*LockAnswer, error) {
	l, err := f.locking(by, q.Scope, q.Key, q.Owner, q.Time, q.Token, q)
	if err != nil {
		return nil, err
	}
	if q.Fence > 0 {
		return l.prolong(ctx, q.Fence)
	}
	return l.try(ctx)
}

// locking locks a key for an owner.
type locking struct {
	*edit
	key     string // with a dot
	owner   string
	seconds int64
}

func (l *locking) ttl() time.Duration { return time.Duration(l.seconds) * time.Second }

// locking begins a change of the lock of a key.
func (f *Flow) locking(by *access.Actor, scope, key, owner string, seconds int64, token string, question any) (*locking, error) {
	e, err := f.edit(by, scope, owner, token, question)
	if err != nil {
		return nil, err
	}
	const normal, most = 30, int64(kv.MaxLease / time.Second)
	l := &locking{edit: e, key: key + ".", owner: owner, seconds: cmp.Or(seconds, normal)}
	switch _, err := ParseKey(l.key + lockOwner); {
	case codes.Of(err) == codes.BadKey:
		return nil, codes.Errorf(codes.BadKey, "%.80q cannot be locked: lock a member, as node.N, or a key that begins with none of the layout's words", key)
	case err != nil:
		return nil, err
	case owner == "" || len(owner) > MaxWho:
		return nil, codes.Errorf(codes.BadRequest, "an owner has 1 to %d bytes", MaxWho)
	case l.seconds < 1 || l.seconds > most:
		return nil, codes.Errorf(codes.BadTTL, "ltime of %d s is out of range: it is from 1 to %d", l.seconds, most)
	}
	return l, nil
}

// try locks the key under a lease of its own, or says who holds it.
func (l *locking) try(ctx context.Context) (*LockAnswer, error) {
	var held *LockAnswer
	res, err := l.commitLeased(ctx, l.ttl(), func(lease kv.LeaseID) error {
		if held = l.f.holder(l.ns, l.key); held != nil {
			return codes.Locked
		}
		l.whenSame(l.key+lockOwner, nil)
		l.putIn(l.ns, l.key+lockOwner, kv.StringValue(l.owner), lease)
		l.putIn(l.ns, l.key+lockSince, kv.IntValue(l.now), lease)
		l.putIn(l.ns, l.key+lockTime, kv.IntValue(l.seconds), lease)
		return nil
	})
	if err == nil {
		return &LockAnswer{Granted: true, Fence: int64(res.Ops[0].Entry.Create), Owner: l.owner, Time: l.seconds, Revision: int64(res.Revision)}, nil
	}
	if held != nil && codes.Of(err) == codes.Locked {
		return held, nil
	}
	return nil, err
}

// holder says who holds the lock; nil: no one does.
func (f *Flow) holder(ns, key string) *LockAnswer {
	got := f.store.GetMany(ns, key+lockOwner, key+lockSince, key+lockTime)
	if got[0] == nil {
		return nil
	}
	return &LockAnswer{Fence: int64(got[0].Create), Owner: text(got[0]), Since: number(got[1]), Time: number(got[2]), Revision: int64(got[0].Mod)}
}

// prolong begins the time of a lock anew that the owner has.
func (l *locking) prolong(ctx context.Context, fence int64) (*LockAnswer, error) {
	got, err := l.own(fence)
	if err != nil {
		return nil, err
	}
	if _, err := l.f.store.KeepLease(ctx, got.Lease); codes.Of(err) == codes.LeaseGone {
		return nil, l.lost(fence)
	} else if err != nil {
		return nil, err
	}
	held := l.f.holder(l.ns, l.key)
	if held == nil || held.Fence != fence {
		return nil, l.lost(fence)
	}
	held.Granted = true
	return held, nil
}

// own is what says that the owner has the lock.
func (l *locking) own(fence int64) (*kv.Entry, error) {
	got := l.f.store.Get(l.ns, l.key+lockOwner)
	if got == nil || text(got) != l.owner || int64(got.Create) != fence {
		return nil, l.lost(fence)
	}
	return got, nil
}

func (l *locking) lost(fence int64) error {
	return codes.Errorf(codes.FenceLost, "%q does not hold the lock of %s with fence %d, or no longer; take it again", l.owner, l.key[:len(l.key)-1], fence)
}

// UnlockAsk is the question of Unlock.
type UnlockAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"what is locked"`
	Owner string `json:"owner" arg:"2" doc:"who holds it"`
	Fence int64  `json:"fence" arg:"3" doc:"what the lock was granted with"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// Unlock gives a lock back. Only its owner can, who knows the fence.
func (f *Flow) Unlock(ctx context.Context, by *access.Actor, q *UnlockAsk) (*WriteAnswer, error) {
	l, err := f.locking(by, q.Scope, q.Key, q.Owner, 0, q.Token, q)
	if err != nil {
		return nil, err
	}
	return written(l.commit(ctx, func() error {
		got, err := l.own(q.Fence)
		if err != nil {
			return err
		}
		l.whenSame(l.key+lockOwner, got)
		l.endLease(got)
		return nil
	}))
}
