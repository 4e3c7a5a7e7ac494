package flow

import (
	"context"
	"errors"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// workerTime is how long a worker or a scheduler lives without a heartbeat.
const workerTime = 10 * time.Second

// JoinAsk is the question of Join.
type JoinAsk struct {
	Scope  string         `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key    string         `json:"key" arg:"1" doc:"who joins: wokr.ID or sche.ID"`
	TTL    int64          `json:"ttl,omitempty" doc:"milliseconds that it lives after its last heartbeat; left out: 10000"`
	Fields map[string]Raw `json:"fields,omitempty" doc:"its fields, as name, descr, host"`
	Who    string         `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token  string         `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// JoinAnswer is the answer of Join.
type JoinAnswer struct {
	Revision int64 `json:"revision" doc:"the store's revision that made the change"`
	Lease    int64 `json:"lease" doc:"the lease that it lives as long as; it is what tells it from a later one of the same id"`
}

// Join registers a worker or a scheduler, which lives as long as it sends heartbeats. One that
// has died or left may join again; what it had claimed then waits again.
func (f *Flow) Join(ctx context.Context, by *access.Actor, q *JoinAsk) (*JoinAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, parseLiving, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	values, wrong := fields(m, q.Fields, nil)
	if len(wrong) > 0 {
		return nil, faults(wrong)
	}
	ttl, err := leaseTime(q.TTL, workerTime)
	if err != nil {
		return nil, err
	}
	res, err := e.join(ctx, m, values, ttl)
	for errors.Is(err, errTasks) {
		before := *e
		before.token = ""
		if _, err = before.returnAll(ctx, m, false); err == nil {
			res, err = e.join(ctx, m, values, ttl)
		}
	}
	if err != nil {
		return nil, err
	}
	return &JoinAnswer{int64(res.Revision), int64(res.Ops[0].Entry.Lease)}, nil
}

func parseWorker(text string) (Member, error) {
	m, err := ParseMember(text)
	if err == nil && m.Kind != Worker {
		err = codes.Errorf(codes.BadRequest, "%s is no worker: write wokr.ID", m)
	}
	return m, err
}

// parseLiving reads the name of what lives as long as it sends heartbeats.
func parseLiving(text string) (Member, error) {
	m, err := ParseMember(text)
	if err == nil && m.Kind != Worker && m.Kind != Scheduler {
		err = codes.Errorf(codes.BadRequest, "%s is neither a worker nor a scheduler: write wokr.ID or sche.ID", m)
	}
	return m, err
}

// errTasks is that a worker still has what it had claimed when it lived before.
var errTasks = errors.New("its tasks were not returned")

func (e *edit) join(ctx context.Context, m Member, values map[string]kv.Value, ttl time.Duration) (*kv.Result, error) {
	live := indexKey(liveKey, e.ns, m)
	return e.commitLeased(ctx, ttl, func(lease kv.LeaseID) error {
		e.putIn(index, live, kv.IntValue(int64(lease)), lease)
		e.putIn(index, indexKey(dutyLive, e.ns, m), kv.StringValue(e.who), 0)
		going := []string{live, indexKey(dutyBack, e.ns, m), indexKey(dutyGone, e.ns, m)}
		got := e.f.store.GetMany(index, going...)
		switch {
		case got[0] != nil:
			return codes.Errorf(codes.Conflict, "%s has joined already and is alive; it must leave, or its lease end, or join by another id", m)
		case got[1] != nil || got[2] != nil:
			return codes.Errorf(codes.Conflict, "what %s left behind is being cleared away; try again when that is done", m)
		}
		for _, key := range going {
			e.when(kv.Absent(index, key))
		}
		r := &record{Member: m, listed: kinds[m.Kind].list}
		own := e.f.store.GetMany(e.ns, m.field("atime"), m.field("tasks"))
		if number(own[1]) > 0 {
			return errTasks
		}
		e.whenSame(m.field("tasks"), own[1])
		r.atime = own[0]
		e.create(r, values, true)
		return nil
	})
}

// HeartbeatAsk is the question of Heartbeat.
type HeartbeatAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"who lives: wokr.ID or sche.ID"`
	Lease int64  `json:"lease,omitempty" arg:"2" doc:"the lease that it joined with; left out: whatever it has"`
}

// HeartbeatAnswer is the answer of Heartbeat.
type HeartbeatAnswer struct {
	TTL int64 `json:"ttl" doc:"milliseconds until the next one must have come"`
}

// Heartbeat says that a worker or a scheduler lives. It writes nothing. codes.LeaseGone: it is
// taken for dead and has to join again; its tasks may be another worker's by now.
func (f *Flow) Heartbeat(ctx context.Context, _ *access.Actor, q *HeartbeatAsk) (*HeartbeatAnswer, error) {
	ns, m, err := memberOf(q.Scope, q.Key, parseLiving)
	if err != nil {
		return nil, err
	}
	live := f.store.Get(index, indexKey(liveKey, ns, m))
	lease := number(live)
	if lease == 0 || q.Lease != 0 && q.Lease != lease {
		return nil, errDead(m)
	}
	kept, err := f.store.KeepLease(ctx, kv.LeaseID(lease))
	if err != nil {
		return nil, err
	}
	return &HeartbeatAnswer{kept.TTL.Milliseconds()}, nil
}

func errDead(m Member) error {
	return codes.Errorf(codes.LeaseGone, "%s is not alive: it never joined, has left, or its lease has ended; join again", m)
}

// LeaveAsk is the question of Leave.
type LeaveAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"who leaves: wokr.ID or sche.ID"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// Leave ends the life of a worker or a scheduler at once. Tasks that it still has can be
// returned.
func (f *Flow) Leave(ctx context.Context, by *access.Actor, q *LeaveAsk) (*WriteAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, parseLiving, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	return written(e.commit(ctx, func() error {
		live := f.store.Get(index, indexKey(liveKey, e.ns, m))
		if live == nil {
			return errDead(m)
		}
		e.when(still(live))
		e.endLease(live)
		return e.end(m, "left")
	}))
}

// lost ends a worker or a scheduler whose lease has ended.
func (e *edit) lost(ctx context.Context, m Member) error {
	_, err := e.apply(ctx, func() error {
		duty := indexKey(dutyLive, e.ns, m)
		got := e.f.store.GetMany(index, indexKey(liveKey, e.ns, m), duty)
		if got[0] != nil || got[1] == nil {
			return errNoMember(m) // it has joined again, or this has been done elsewhere
		}
		e.when(exists(index, duty), kv.Absent(index, indexKey(liveKey, e.ns, m)))
		return e.end(m, "its lease has ended")
	})
	return err
}

// end makes a worker or a scheduler one that lives no more.
func (e *edit) end(m Member, why string) error {
	e.removeIn(index, indexKey(dutyLive, e.ns, m))
	r, err := e.f.load(e.ns, m)
	if err != nil {
		return err
	}
	e.setStatus(r, Exited, why)
	return nil
}

// WorkersAsk is the question of Workers.
type WorkersAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Kind   string `json:"kind,omitempty" arg:"1" doc:"wokr or sche; left out: wokr"`
	Status string `json:"status,omitempty" doc:"only those: WORKING lives, EXITED has left or died"`
	After  string `json:"after,omitempty" doc:"continue behind this id"`
	Limit  int64  `json:"limit,omitempty" doc:"at most so many; left out: 1000"`
}

// WorkerLine is one worker or scheduler.
type WorkerLine struct {
	Key    string `json:"key" doc:"wokr.ID or sche.ID"`
	Status Status `json:"status" doc:"WORKING or EXITED"`
	Name   string `json:"name" doc:"its name"`
	Tasks  int64  `json:"tasks" doc:"how many claims it has"`
	Since  int64  `json:"ctime" doc:"when it joined last, in nanoseconds since 1970"`
}

// WorkersAnswer is the answer of Workers.
type WorkersAnswer struct {
	Workers []WorkerLine `json:"workers" doc:"in the order of their ids"`
	Next    string       `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Workers lists workers, or schedulers.
func (f *Flow) Workers(ctx context.Context, by *access.Actor, q *WorkersAsk) (*WorkersAnswer, error) {
	kind := Worker
	if q.Kind == string(Scheduler) {
		kind = Scheduler
	} else if q.Kind != "" && q.Kind != string(Worker) {
		return nil, codes.Errorf(codes.BadRequest, "%.40q is neither wokr nor sche", q.Kind)
	}
	after := q.After
	if after != "" {
		after = Member{kind, after}.String()
	}
	limit, err := limited(min(q.Limit, 1000))
	if err != nil {
		return nil, err
	}
	list, err := f.List(ctx, by, &ListAsk{Scope: q.Scope, List: kinds[kind].list, Status: q.Status, After: after, Limit: int64(limit)})
	if err != nil {
		return nil, err
	}
	ns, _ := Namespace(q.Scope)
	a := &WorkersAnswer{Workers: make([]WorkerLine, len(list.Members))}
	for i, one := range list.Members {
		got := f.store.GetMany(ns, one.Key+".name", one.Key+".tasks", one.Key+".ctime")
		a.Workers[i] = WorkerLine{one.Key, one.Status, brief(text(got[0])), number(got[1]), number(got[2])}
	}
	if list.Next != "" {
		a.Next = list.Next[len(kind)+1:]
	}
	return a, nil
}
