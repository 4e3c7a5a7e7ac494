package flow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// ClaimAsk is the question of Claim.
type ClaimAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Worker string `json:"worker" arg:"1" doc:"for whom: wokr.ID, which must be alive"`
	Lease  int64  `json:"lease,omitempty" doc:"the lease that it joined with; left out: whatever it has"`
	Key    string `json:"key,omitempty" arg:"2" doc:"what is claimed: node.ID, srvs.ID, flow.ID or cfapp.ID; left out: the next node or service that waits"`
	From   string `json:"from,omitempty" doc:"the next below this flow.ID or cfapp.ID; left out: of the whole scope"`
	Who    string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token  string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// ClaimAnswer is the answer of Claim.
type ClaimAnswer struct {
	Revision int64  `json:"revision" doc:"the store's revision that made the change"`
	Key      string `json:"ukey" doc:"what was claimed; empty if nothing waits"`
	List     string `json:"lkey,omitempty" doc:"the list that it is in"`
	Fence    int64  `json:"fence,omitempty" doc:"tells this claim from a later one of the same task by the same worker"`
}

// Claim gives a task to a worker, and to no other. A worker that claims a flow or an application
// is the only one that can claim what is below it, and can claim it only as long as nothing below
// it is claimed.
func (f *Flow) Claim(ctx context.Context, by *access.Actor, q *ClaimAsk) (*ClaimAnswer, error) {
	e, worker, err := f.editOf(by, q.Scope, q.Worker, parseWorker, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	c := &claim{edit: e, worker: worker, lease: q.Lease}
	var m Member
	if name := cmp.Or(q.Key, q.From); name != "" {
		if m, err = ParseMember(name); err != nil {
			return nil, err
		}
	}
	do := c.next
	if q.Key != "" {
		do = c.one
	}
	res, err := do(ctx, m)
	if err != nil || res == nil {
		return &ClaimAnswer{}, err
	}
	return claimed(res, c.worker), nil
}

// claimed reads from the keys that a claim has written what was claimed.
func claimed(res *kv.Result, worker Member) *ClaimAnswer {
	a := &ClaimAnswer{Revision: int64(res.Revision)}
	for i := 0; i < len(res.Ops) && (a.Key == "" || a.List == ""); i++ {
		entry := res.Ops[i].Entry
		if entry == nil {
			continue
		}
		k, err := ParseKey(entry.Key)
		switch {
		case err != nil:
		case k.Form == Assignment && k.Member == worker:
			a.Key, a.Fence = k.Task.String(), int64(entry.Create)
		case k.Form == ListMember:
			a.List = k.List
		}
	}
	return a
}

// claim is the change that gives something to a worker.
type claim struct {
	*edit
	worker Member
	lease  int64 // 0: whatever it has
}

// one claims a certain member.
func (c *claim) one(ctx context.Context, m Member) (*kv.Result, error) {
	if !claimable(m.Kind) {
		return nil, codes.Errorf(codes.BadRequest, "%s cannot be claimed: only node, srvs, flow and cfapp can", m)
	}
	return c.commit(ctx, func() error {
		r, err := c.f.load(c.ns, m)
		if err != nil {
			return err
		}
		return c.take(r)
	})
}

// next claims the next task that waits; nil if there is none. What only the worker can claim,
// because it has claimed something above it, comes first.
func (c *claim) next(ctx context.Context, from Member) (*kv.Result, error) {
	own, err := c.own(from)
	if err != nil {
		return nil, err
	}
	for _, m := range own {
		res, err := c.nextOf(ctx, m)
		if res != nil || err != nil && codes.Of(err) != codes.NotFound {
			return res, err
		}
	}
	if res, err := c.nextOf(ctx, from); res != nil || err != nil {
		return res, err
	}
	return c.known(ctx)
}

// own are the flows and applications that the worker has claimed below from.
func (c *claim) own(from Member) (list []Member, err error) {
	if from.Kind == FlowKind {
		return nil, nil
	}
	const few = 16
	l := kv.List{NS: c.ns, Prefix: c.worker.field("task."), Limit: few}
	for e, err := range embedded.Each(c.f.store.List, l) {
		if err != nil {
			return nil, err
		}
		m, err := ParseMember(e.Key[len(l.Prefix):])
		if err != nil || m.Kind != App && m.Kind != FlowKind {
			break // services and nodes come last
		}
		if r, err := c.f.load(c.ns, m); err == nil && (from.ID == "" || from == r.app()) { // or it is about to go
			list = append(list, m)
		}
	}
	return list, nil
}

// nextOf claims the next task that waits below a member, or anywhere; nil if there is none.
func (c *claim) nextOf(ctx context.Context, from Member) (*kv.Result, error) {
	q, refused := c.f.queue(c.ns, from), map[Member]bool{}
	for fills := 0; ; {
		r, err := q.pop(ctx, c, from, refused, &fills)
		if r == nil || err != nil {
			return nil, err
		}
		res, err := c.apply(ctx, func() error {
			if err := r.refresh(c.f.store.GetMany, c.ns); err != nil {
				return err
			}
			return c.take(r)
		})
		var over *overlap
		switch code := codes.Of(err); {
		case errors.As(err, &over) && from.Kind != over.owner.Kind && from.Kind != FlowKind:
			q.drop(over.owner)
			q.settle(nil)
		case code == codes.NotFound, over == nil && code == codes.Conflict && r.status != Waiting:
			q.settle(nil) // it is about to go, or another client was faster
		case over == nil && code == codes.Conflict:
			refused[r.Member] = true
			q.settle(r)
		default:
			if err == nil && !res.Replayed {
				r = nil
			}
			q.settle(r)
			return res, err
		}
	}
}

// overlap is the refusal of a claim of what is below something that another has claimed.
type overlap struct {
	error
	owner Member
}

// Unwrap gives the error its code.
func (o *overlap) Unwrap() error { return o.error }

// take builds the transaction that gives what a record describes to the worker.
func (c *claim) take(r *record) error {
	keys := []string{r.field("claims")}
	for _, owner := range r.above {
		keys = append(keys, owner.field("claim"))
	}
	got := c.f.store.GetMany(c.ns, keys...)
	c.txn.If, c.txn.Then = slices.Grow(c.txn.If, 8), slices.Grow(c.txn.Then, 16) // as many as there will be
	if err := c.alive(); err != nil {
		return err
	}
	switch {
	case r.worker != "":
		return codes.Errorf(codes.Conflict, "%s is claimed by wokr.%s", r.Member, r.worker)
	case r.status != Waiting && r.Kind != FlowKind:
		return CheckTransition(r.status, Pending)
	case number(got[0]) > 0:
		return codes.Errorf(codes.Conflict, "%d of what is below %s is claimed already", number(got[0]), r.Member)
	}
	b := jsontext.AppendQuote([]byte(`{"lkey":`), r.listed)
	b = jsontext.AppendQuote(append(b, `,"ukey":`...), r.Member.String())
	c.put(assignment(c.worker, r.Member), kv.JSONValue(append(b, '}')))
	for i, owner := range r.above {
		if has := text(got[i+1]); has != "" && has != c.worker.ID {
			return &overlap{codes.Errorf(codes.Conflict, "%s is below %s, which wokr.%s has claimed", r.Member, owner, has), owner}
		}
		c.whenSame(owner.field("claim"), got[i+1])
		c.incr(owner.field("claims"), 1)
	}
	c.whenVisible(r)
	holder := r.field("worker")
	if r.Kind == App || r.Kind == FlowKind {
		holder = r.field("claim")
		c.whenSame(r.field("claims"), got[0])
	}
	c.putText(holder, c.worker.ID)
	c.incr(c.worker.field("tasks"), 1)
	what := "claimed by " + c.worker.String()
	if r.Kind == FlowKind {
		c.touch(r.Member, r.atime, what)
		c.putStatus(r.listKey(), "")
		return nil
	}
	c.setStatus(r, Pending, what)
	return nil
}

// alive has the condition that the worker is.
func (c *claim) alive() error {
	key := indexKey(liveKey, c.ns, c.worker)
	got := c.f.store.Get(index, key)
	if got == nil || c.lease != 0 && c.lease != number(got) {
		return errDead(c.worker)
	}
	c.when(is(index, key, got.Value))
	return nil
}

// queue is what waits below a member, or in a scope: so that not every claim has to look for
// it. What is in it may be claimed, or gone, by now.
type queue struct {
	mu    sync.Mutex    // held while it is filled, so that one looks for all
	list  []*record     // guarded by mu
	taken int           // from the list, and it is not clear yet whether it was claimed; guarded by mu
	clear chan struct{} // closed when one more is; nil: no claim waits for that; guarded by mu
	whole bool          // nothing else waited when news was what it is; guarded by mu
	news  kv.Revision
}

func (f *Flow) queue(ns string, from Member) *queue {
	key := ns
	if from.ID != "" {
		key += "." + from.String()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	q := f.queues[key]
	if q == nil {
		if len(f.queues) >= maxQueues || f.queued >= maxQueued {
			clear(f.queues)
			f.queued = 0
		}
		q = &queue{}
		f.queues[key] = q
	}
	return q
}

// newsKey is written whenever something in a scope waits, or can be claimed, that could not be
// before. Who has found nothing need not look again until then.
func newsKey(ns string) string { return "news." + strings.TrimPrefix(ns, kv.FlowPrefix) }

// pop takes the next one for a claim that has not refused it; nil if nothing else waits.
func (q *queue) pop(ctx context.Context, c *claim, from Member, refused map[Member]bool, fills *int) (*record, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if i := slices.IndexFunc(q.list, func(r *record) bool { return !refused[r.Member] }); i >= 0 {
			r := q.list[i]
			q.list[i], q.list[0] = q.list[0], nil
			q.list = q.list[1:]
			q.taken++
			return r, nil
		}
		if err := c.alive(); err != nil {
			return nil, err
		}
		var top *record // nil: of the whole scope
		if from.ID != "" {
			var err error
			if top, err = c.f.load(c.ns, from); err != nil {
				return nil, err
			}
		}
		now := kv.Revision(0)
		if news := c.f.store.Get(index, newsKey(c.ns)); news != nil {
			now = news.Mod
		}
		if q.whole && q.news == now {
			if q.taken == 0 {
				return nil, nil
			}
			if err := q.wait(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if *fills++; *fills > attempts {
			return nil, codes.Errorf(codes.Busy, "others have claimed everything that waited, %d times; try again", attempts)
		}
		if err := q.fill(ctx, c.f, c.ns, top); err != nil {
			return nil, err
		}
		q.news = now
	}
}

// settle ends what pop began; back is what was not claimed, and is put back.
func (q *queue) settle(back *record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken--
	if back != nil {
		q.list = append(q.list, back)
	}
	if q.clear != nil {
		close(q.clear)
		q.clear = nil
	}
}

// wait waits, without mu, until it is clear of one more whether it was claimed.
func (q *queue) wait(ctx context.Context) error {
	if q.clear == nil {
		q.clear = make(chan struct{})
	}
	clear := q.clear
	q.mu.Unlock()
	defer q.mu.Lock()
	select {
	case <-clear:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fill looks for what waits below a member, or in the scope.
func (q *queue) fill(ctx context.Context, f *Flow, ns string, top *record) (err error) {
	w := f.newWalk(ctx, ns, "")
	defer w.view.Close()
	q.list, q.whole = nil, false
	visit := func(s *step) error {
		if s.Kind == App || s.Kind == FlowKind { // what is below it is for the one who has claimed it
			if f.store.Get(ns, s.field("claim")) != nil {
				return errSkip
			}
			return nil
		}
		if s.status == Waiting && (s.Kind == Node || s.Kind == Service) {
			if len(q.list) == maxWaiting {
				return errStop
			}
			r := s.record // not with the path
			q.list = append(q.list, &r)
		}
		return nil
	}
	if top == nil {
		err = w.all(visit)
	} else {
		err = w.from(top, visit)
	}
	if err != nil {
		return err
	}
	q.whole = len(q.list) < maxWaiting
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queued += len(q.list)
	return nil
}

// drop takes out what is below a member that has been claimed.
func (q *queue) drop(owner Member) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(r *record) bool { return slices.Contains(r.above, owner) })
}
