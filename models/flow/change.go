package flow

import (
	"cmp"
	"context"

	"confcenter/access"
	"confcenter/codes"
)

// StatusAsk is the question of SetStatus.
type StatusAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key    string `json:"key" arg:"1" doc:"whose: node.ID, srvs.ID or cfapp.ID"`
	Status string `json:"status" arg:"2" doc:"PENDDING of an application, STARTING, WORKING, STOPING or EXITED"`
	Worker string `json:"worker,omitempty" doc:"only if this wokr.ID has it"`
	Fence  int64  `json:"fence,omitempty" doc:"and by the claim with this fence"`
	Why    string `json:"why,omitempty" doc:"what the operation log says of it"`
	Who    string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token  string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// SetStatus changes a status: in the list, in the record, with who and when and a line in the
// log, at once. Only what can follow is accepted; a claim makes a task PENDDING, and a return
// WAITING. A task that has EXITED no longer belongs to any worker.
func (f *Flow) SetStatus(ctx context.Context, by *access.Actor, q *StatusAsk) (*WriteAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, ParseMember, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	to, err := ParseStatus(q.Status, false)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != Node && m.Kind != Service && m.Kind != App:
		return nil, codes.Errorf(codes.BadRequest, "%s has no status that can be set: workers join and leave, sessions and flows have none", m)
	case len(q.Why) > MaxWho:
		return nil, codes.Errorf(codes.NameTooLong, "why has %d bytes, the limit is %d", len(q.Why), MaxWho)
	}
	worker := ""
	if q.Worker != "" {
		w, err := parseWorker(q.Worker)
		if err != nil {
			return nil, err
		}
		worker = w.ID
	}
	return written(e.commit(ctx, func() error {
		r, err := f.load(e.ns, m)
		if err != nil {
			return err
		}
		if err := CheckTransition(r.status, to); err != nil {
			return err
		}
		if to == Pending && m.Kind != App {
			return codes.Errorf(codes.Conflict, "%s becomes %s by a claim", m, Pending)
		}
		if err := e.held(r, worker, q.Fence); err != nil {
			return err
		}
		e.setStatus(r, to, q.Why)
		if to == Exited {
			e.release(r)
		}
		return nil
	}))
}

// held has the condition that a worker has what a record describes, if one is named.
func (e *edit) held(r *record, worker string, fence int64) error {
	if worker == "" && fence == 0 {
		return nil
	}
	worker = cmp.Or(worker, r.worker)
	key := assignment(Member{Worker, worker}, r.Member)
	if r.worker == worker && worker != "" {
		got := e.f.store.Get(e.ns, key)
		if got != nil && (fence == 0 || fence == int64(got.Create)) {
			e.whenSame(key, got)
			return nil
		}
	}
	return codes.Errorf(codes.FenceLost, "wokr.%s does not have %s, or not by that claim: it was returned, and may be another's", worker, r.Member)
}

// release takes what a record describes from the worker that has it.
func (e *edit) release(r *record) {
	if r.worker == "" {
		return
	}
	w := Member{Worker, r.worker}
	e.remove(assignment(w, r.Member))
	e.incr(w.field("tasks"), -1)
	holder := r.field("worker")
	if r.Kind == App || r.Kind == FlowKind {
		holder, e.news = r.field("claim"), true
	}
	e.remove(holder)
	for _, owner := range r.above {
		e.incr(owner.field("claims"), -1)
	}
}

// CountAsk is the question of Count.
type CountAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"whose counters: any member"`
	Count int64  `json:"count,omitempty" arg:"2" doc:"added to its count: calls"`
	Size  int64  `json:"dsize,omitempty" arg:"3" doc:"added to its dsize: bytes of data"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// CountAnswer is the answer of Count.
type CountAnswer struct {
	Count int64 `json:"count" doc:"its count now"`
	Size  int64 `json:"dsize" doc:"its dsize now"`
}

// Count adds to the counters of a member. It is no change of the record: the operation log and
// atime do not tell of it.
func (f *Flow) Count(ctx context.Context, by *access.Actor, q *CountAsk) (*CountAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, ParseMember, "", q.Token, q)
	if err != nil {
		return nil, err
	}
	res, err := e.commit(ctx, func() error {
		r, err := f.load(e.ns, m)
		if err != nil {
			return err
		}
		e.when(exists(e.ns, r.listKey()))
		e.incr(m.field("count"), q.Count)
		e.incr(m.field("dsize"), q.Size)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &CountAnswer{number(res.Ops[0].Entry), number(res.Ops[1].Entry)}, nil
}
