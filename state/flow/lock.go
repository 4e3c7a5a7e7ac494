package flow

import (
	"context"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// LockAsk is the question of TryLock.
type LockAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"what is locked: any member or key"`
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
	e, err := f.edit(by, q.Scope, q.Owner, q.Token, q)
	if err != nil {
		return nil, err
	}
	l := &locking{edit: e, key: q.Key + ".", owner: q.Owner, seconds: q.Time}
	if err := l.check(); err != nil {
		return nil, err
	}
	if res, err := e.known(ctx); res != nil || err != nil {
		return l.granted(res), err
	}
	if q.Fence > 0 {
		return l.prolong(ctx, q.Fence)
	}
	lease, err := e.grant(ctx, l.ttl())
	if err != nil {
		return nil, err
	}
	a, err := l.try(ctx, lease)
	if err != nil || !a.Granted {
		e.revoke(ctx, lease)
	}
	return a, err
}

// locking locks a key for an owner.
type locking struct {
	*edit
	key     string // with a dot
	owner   string
	seconds int64
}

func (l *locking) ttl() time.Duration { return time.Duration(l.seconds) * time.Second }

func (l *locking) check() error {
	const normal = 30 // seconds
	if l.seconds == 0 {
		l.seconds = normal
	}
	most := int64(kv.MaxLease / time.Second)
	switch _, err := ParseKey(l.key + lockOwner); {
	case err != nil:
		return err
	case l.owner == "" || len(l.owner) > MaxWho:
		return codes.Errorf(codes.BadRequest, "an owner has 1 to %d bytes", MaxWho)
	case l.seconds < 1 || l.seconds > most:
		return codes.Errorf(codes.BadTTL, "ltime of %d s is out of range: it is from 1 to %d", l.seconds, most)
	}
	return nil
}

// granted is the answer to the transaction that made the lock.
func (l *locking) granted(res *kv.Result) *LockAnswer {
	if res == nil {
		return nil
	}
	return &LockAnswer{Granted: true, Fence: int64(res.Ops[0].Entry.Create), Owner: l.owner, Time: l.seconds, Revision: int64(res.Revision)}
}

// try locks the key under a lease, or says who holds it.
func (l *locking) try(ctx context.Context, lease kv.LeaseID) (*LockAnswer, error) {
	var held *LockAnswer
	res, err := l.apply(ctx, func() (err error) {
		if held, err = l.holder(ctx); err != nil || held != nil {
			return cmpErr(err, codes.Locked)
		}
		l.whenAbsent(l.key + lockOwner)
		l.putIn(l.ns, l.key+lockOwner, kv.StringValue(l.owner), lease)
		l.putIn(l.ns, l.key+lockSince, kv.IntValue(l.now), lease)
		l.putIn(l.ns, l.key+lockTime, kv.IntValue(l.seconds), lease)
		return nil
	})
	if held != nil {
		return held, nil
	}
	if err != nil {
		return nil, err
	}
	return l.granted(res), nil
}

func cmpErr(err error, otherwise codes.Code) error {
	if err != nil {
		return err
	}
	return otherwise
}

// holder says who holds the lock; nil: nobody.
func (l *locking) holder(ctx context.Context) (*LockAnswer, error) {
	got, err := l.f.store.GetMany(ctx, l.ns, l.key+lockOwner, l.key+lockSince, l.key+lockTime)
	if err != nil || got[0] == nil {
		return nil, err
	}
	return &LockAnswer{Fence: int64(got[0].Create), Owner: text(got[0]), Since: number(got[1]), Time: number(got[2]), Revision: int64(got[0].Mod)}, nil
}

// prolong begins the time of a lock anew that the owner has.
func (l *locking) prolong(ctx context.Context, fence int64) (*LockAnswer, error) {
	got, err := l.f.store.Get(ctx, l.ns, l.key+lockOwner)
	if err != nil {
		return nil, err
	}
	if got == nil || text(got) != l.owner || int64(got.Create) != fence {
		return nil, l.lost(fence)
	}
	if _, err := l.f.store.KeepLease(ctx, got.Lease); err != nil {
		return nil, l.lost(fence)
	}
	held, err := l.holder(ctx)
	if err != nil || held == nil || held.Fence != fence {
		return nil, cmpErr(err, codes.FenceLost)
	}
	held.Granted = true
	return held, nil
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
	e, err := f.edit(by, q.Scope, q.Owner, q.Token, q)
	if err != nil {
		return nil, err
	}
	l := &locking{edit: e, key: q.Key + ".", owner: q.Owner}
	if err := l.check(); err != nil {
		return nil, err
	}
	var lease kv.LeaseID
	res, err := e.commit(ctx, func() error {
		got, err := f.store.Get(ctx, e.ns, l.key+lockOwner)
		if err != nil {
			return err
		}
		if got == nil || text(got) != q.Owner || int64(got.Create) != q.Fence {
			return l.lost(q.Fence)
		}
		lease = got.Lease
		e.whenSame(l.key+lockOwner, got)
		for _, name := range [...]string{lockOwner, lockSince, lockTime} {
			e.remove(l.key + name)
		}
		return nil
	})
	if err == nil && lease != 0 {
		e.revoke(ctx, lease)
	}
	return written(res, err)
}

// Lock is TryLock that waits until it has the lock. While another holds it, it only listens.
func (f *Flow) Lock(ctx context.Context, by *access.Actor, q *LockAsk) (*LockAnswer, error) {
	e, err := f.edit(by, q.Scope, q.Owner, "", q)
	if err != nil {
		return nil, err
	}
	l := &locking{edit: e, key: q.Key + ".", owner: q.Owner, seconds: q.Time}
	if err := l.check(); err != nil {
		return nil, err
	}
	for {
		held, err := l.holder(ctx)
		if err != nil {
			return nil, err
		}
		if held == nil {
			lease, err := e.grant(ctx, l.ttl())
			if err != nil {
				return nil, err
			}
			if held, err = l.try(ctx, lease); err == nil && held.Granted {
				return held, nil
			}
			e.revoke(ctx, lease)
			if err != nil {
				return nil, err
			}
		}
		if err := l.wait(ctx, held); err != nil {
			return nil, err
		}
	}
}

// wait returns when a lock that was held is not any more.
func (l *locking) wait(ctx context.Context, held *LockAnswer) error {
	w, err := l.f.store.Watch(ctx, kv.Filter{NS: l.ns, Text: l.key + lockOwner, Exact: true}, kv.Revision(held.Revision))
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		n, err := w.Next(ctx)
		if err != nil || n.Kind == kv.Resync {
			return err
		}
		for i := range n.Events {
			if n.Events[i].Kind != kv.Put {
				return nil
			}
		}
	}
}
