package flow

import (
	"context"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// ReturnAsk is the question of Return.
type ReturnAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Worker string `json:"worker" arg:"1" doc:"whose: wokr.ID"`
	Key    string `json:"key,omitempty" arg:"2" doc:"only this; left out: everything that a worker has which is not alive"`
	Force  bool   `json:"force,omitempty" doc:"also what a living worker runs; without a key the worker is taken for dead from then on"`
	Who    string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token  string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// ReturnAnswer is the answer of Return.
type ReturnAnswer struct {
	Revision int64 `json:"revision" doc:"the store's revision that made the change"`
	Returned int64 `json:"returned" doc:"how many claims the worker had"`
}

// Return makes what a worker has claimed wait again for another: one thing, or everything that
// a lost worker had. What was STOPING is EXITED. The worker can claim nothing from the first
// moment on, and if this returns before all is done, the sweep goes on.
func (f *Flow) Return(ctx context.Context, by *access.Actor, q *ReturnAsk) (*ReturnAnswer, error) {
	e, w, err := f.editOf(by, q.Scope, q.Worker, parseWorker, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	if q.Key != "" {
		return e.returnOne(ctx, w, q.Key, q.Force)
	}
	return e.returnAll(ctx, w, q.Force)
}

// returnAll gives everything back that a worker has.
func (e *edit) returnAll(ctx context.Context, w Member, force bool) (*ReturnAnswer, error) {
	defer e.f.undertake(indexKey(dutyBack, e.ns, w))()
	res, err := e.commit(ctx, func() error { return e.giveBack(w, force) })
	if err != nil {
		return nil, err
	}
	a := &ReturnAnswer{int64(res.Revision), number(res.Ops[0].Entry)}
	if err := e.f.finishBack(ctx, e.ns, w); codes.Of(err) != codes.Busy {
		return a, err
	}
	return a, nil
}

// giveBack builds the transaction from which on a worker's tasks go back.
func (e *edit) giveBack(w Member, force bool) error {
	live := indexKey(liveKey, e.ns, w)
	got := e.f.store.GetMany(index, live, indexKey(dutyLive, e.ns, w))
	if got[0] != nil && !force {
		return codes.Errorf(codes.Conflict, "%s is alive; wait until it has left or its lease has ended, or force it", w)
	}
	r, err := e.f.load(e.ns, w)
	if err != nil {
		return err
	}
	e.do(kv.Op{Kind: kv.OpGet, NS: e.ns, Key: w.field("tasks")})
	if got[0] == nil {
		e.when(kv.Absent(index, live))
	} else {
		e.when(still(got[0]))
		e.endLease(got[0])
	}
	e.removeIn(index, indexKey(dutyLive, e.ns, w))
	e.putIn(index, indexKey(dutyBack, e.ns, w), kv.StringValue(e.who), 0)
	if r.status == Exited {
		e.touch(w, r.atime, "its tasks go back")
	} else {
		e.setStatus(r, Exited, "its tasks go back")
	}
	return nil
}

func errGoing(w Member) error {
	return codes.Errorf(codes.Busy, "what %s has is being removed; that ends its claims", w)
}

// giveBackOne gives one claim of a worker back, but nothing that it runs if it lives. codes.Busy:
// what it is of is being removed.
func (e *edit) giveBackOne(w, m Member, claim *kv.Entry, lives bool) error {
	r, err := e.f.load(e.ns, m)
	if codes.Of(err) == codes.NotFound {
		atime := e.f.store.Get(e.ns, m.field("atime"))
		if atime != nil {
			return errGoing(w)
		}
		e.whenSame(m.field("atime"), nil)
		e.whenSame(assignment(w, m), claim)
		e.remove(assignment(w, m))
		e.incr(w.field("tasks"), -1)
		return nil
	}
	if err != nil {
		return err
	}
	if lives && (r.status == Working || r.status == Stopping) {
		return codes.Errorf(codes.Conflict, "%s is %s, and %s is alive: let the worker end it, or force its return", m, r.status, w)
	}
	r.worker = w.ID
	e.whenSame(assignment(w, m), claim)
	switch {
	case r.Kind == FlowKind:
		e.touch(m, r.atime, "returned by "+w.String())
	case r.status == Stopping:
		e.setStatus(r, Exited, "its worker "+w.String()+" is lost")
	default:
		e.setStatus(r, Waiting, "returned by "+w.String())
	}
	e.release(r)
	return nil
}

// returnOne gives one claim of a worker back that may be alive.
func (e *edit) returnOne(ctx context.Context, w Member, key string, force bool) (*ReturnAnswer, error) {
	m, err := ParseMember(key)
	if err != nil {
		return nil, err
	}
	res, err := e.commit(ctx, func() error {
		claim := e.f.store.Get(e.ns, assignment(w, m))
		if claim == nil {
			return codes.Errorf(codes.NotFound, "%s has not claimed %s", w, m)
		}
		live := e.f.store.Get(index, indexKey(liveKey, e.ns, w))
		if live == nil {
			e.when(kv.Absent(index, indexKey(liveKey, e.ns, w)))
		}
		return e.giveBackOne(w, m, claim, live != nil && !force)
	})
	if err != nil {
		return nil, err
	}
	return &ReturnAnswer{int64(res.Revision), 1}, nil
}

// mostBack is how many tasks go back in one transaction.
const mostBack = 64

// finishBack returns what a worker has, as its duty says.
func (f *Flow) finishBack(ctx context.Context, ns string, w Member) error {
	duty := indexKey(dutyBack, ns, w)
	got := f.store.Get(index, duty)
	for got != nil {
		e := &edit{draft: draft{ns: ns}, f: f, who: text(got)}
		left := 0
		_, err := e.apply(ctx, func() error {
			page, err := f.store.List(kv.List{NS: ns, Prefix: w.field("task."), Limit: mostBack})
			if err != nil {
				return err
			}
			if f.store.Get(index, duty) == nil {
				return errNoMember(w)
			}
			e.when(exists(index, duty))
			if left = len(page.Entries); left == 0 {
				e.removeIn(index, duty)
				return nil
			}
			done := 0
			for _, one := range page.Entries {
				k, err := ParseKey(one.Key)
				if err == nil {
					err = e.giveBackOne(w, k.Task, one, false)
				}
				if err == nil {
					done++
				} else if codes.Of(err) != codes.Busy {
					return err
				}
			}
			if done == 0 {
				return errGoing(w)
			}
			return nil
		})
		if codes.Of(err) == codes.NotFound {
			return nil // it has been finished elsewhere
		}
		if err != nil || left == 0 {
			return err
		}
	}
	return nil
}
