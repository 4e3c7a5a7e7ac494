package flow

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// RemoveAsk is the question of Remove.
type RemoveAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"what is removed: cfapp.ID, srvs.ID, sess.ID, flow.ID, node.ID, or a wokr.ID or sche.ID that has left"`
	Force bool   `json:"force,omitempty" doc:"also if workers have claimed what goes"`
	Who   string `json:"who,omitempty" doc:"who makes the change; left out: the connection's name"`
	Token string `json:"token,omitempty" doc:"request token: a repetition has no further effect"`
}

// Remove removes a member with everything below it, however large: no one sees any of it from
// the first moment on. If it returns before all is gone, the sweep goes on.
func (f *Flow) Remove(ctx context.Context, by *access.Actor, q *RemoveAsk) (*WriteAnswer, error) {
	e, m, err := f.editOf(by, q.Scope, q.Key, ParseMember, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	defer f.undertake(indexKey(dutyGone, e.ns, m))()
	res, err := e.commit(ctx, func() error {
		r, err := f.load(e.ns, m)
		if err != nil {
			return err
		}
		if err := e.mayGo(r, q.Force); err != nil {
			return err
		}
		e.whenSame(r.listKey(), r.list)
		e.remove(r.listKey())
		e.put(m.field("atime"), kv.IntValue(max(e.now, number(r.atime)))) // so that no change that was worked out before lists it again
		var owners []string
		for _, above := range r.above {
			owners = append(owners, above.String())
		}
		e.putIn(index, indexKey(dutyGone, e.ns, m), kv.StringValue(strings.Join(owners, " ")), 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	_ = f.finishGone(ctx, e.ns, m) // what is left of it, the sweep takes
	return written(res, nil)
}

// mayGo has the conditions that no one is working on what goes.
func (e *edit) mayGo(r *record, force bool) error {
	busy := ""
	switch r.Kind {
	case Worker, Scheduler:
		live := indexKey(liveKey, e.ns, r.Member)
		got := e.f.store.GetMany(index, live, indexKey(dutyLive, e.ns, r.Member), indexKey(dutyBack, e.ns, r.Member))
		tasks := e.f.store.Get(e.ns, r.field("tasks"))
		if got[0] != nil || got[1] != nil || got[2] != nil || number(tasks) > 0 {
			return codes.Errorf(codes.Conflict, "%s is alive or has tasks; it must leave, and its tasks be returned", r.Member)
		}
		e.when(kv.Absent(index, live), kv.Absent(index, indexKey(dutyLive, e.ns, r.Member)))
		e.whenSame(r.field("tasks"), tasks)
		return nil
	case App, FlowKind, Session:
		claims := e.f.store.Get(e.ns, r.field("claims"))
		if number(claims) > 0 {
			busy = "something below it"
		}
		if !force {
			e.whenSame(r.field("claims"), claims)
		}
	}
	if r.worker != "" {
		busy = r.worker
	}
	if busy != "" && !force {
		return codes.Errorf(codes.Conflict, "%s is claimed (%s); wait until it is %s, return it, or force its removal", r.Member, busy, Exited)
	}
	e.whenSame(r.field("atime"), r.atime)
	return nil
}

// finishGone deletes everything of a member that is in no list any more, from the leaves on, so
// that the sweep that goes on after a crash still finds the rest.
func (f *Flow) finishGone(ctx context.Context, ns string, top Member) error {
	duty := f.store.Get(index, indexKey(dutyGone, ns, top))
	if duty == nil {
		return nil
	}
	g := &going{edit{draft: draft{ns: ns}, f: f}, duty}
	err := g.below(ctx, top)
	if err == nil {
		err = g.members(ctx, []*record{{Member: top}}, true)
	}
	if codes.Of(err) == codes.NotFound {
		return nil // it has been finished elsewhere
	}
	return err
}

// going deletes a member with what is below it. The owners above, which the duty names, stay.
// Whatever is younger than the duty is something else of the same name.
type going struct {
	edit
	duty *kv.Entry
}

// below deletes all that is below a member.
func (g *going) below(ctx context.Context, m Member) error {
	for _, kind := range children[m.Kind] {
		l := kv.List{NS: g.ns, Prefix: m.list(kind) + ".", Limit: mostGoing}
		for more := true; more; {
			page, err := g.f.store.List(l)
			if err != nil {
				return err
			}
			var list []*record
			for _, e := range page.Entries {
				l.After = e.Key
				k, err := ParseKey(e.Key)
				if err != nil || k.Form != ListMember {
					continue
				}
				if err := g.below(ctx, k.Member); err != nil {
					return err
				}
				list = append(list, &record{Member: k.Member, listed: k.List})
			}
			if err := g.members(ctx, list, false); err != nil {
				return err
			}
			more = page.More
		}
	}
	return nil
}

// mostGoing is how many members go in one transaction: each can have a long log.
const mostGoing = 40

// members deletes members, below which there is nothing any more, and the duty if that is all.
func (g *going) members(ctx context.Context, list []*record, all bool) error {
	if len(list) == 0 {
		return nil
	}
	_, err := g.apply(ctx, func() error {
		if got := g.f.store.Get(g.duty.NS, g.duty.Key); got == nil || got.Create != g.duty.Create {
			return errNoMember(list[0].Member)
		}
		g.when(still(g.duty))
		if all {
			g.done(g.duty, nil)
		}
		var keys []string
		for _, r := range list {
			keys = append(keys, r.field("worker"), r.field("claim"), r.field("atime"))
		}
		got := g.f.store.GetMany(g.ns, keys...)
		claims := int64(0)
		for i, r := range list {
			atime := got[3*i+2]
			if atime == nil || atime.Create > g.duty.Create {
				continue
			}
			g.whenSame(r.field("atime"), atime)
			if worker := text(got[3*i]) + text(got[3*i+1]); worker != "" {
				claims++
				g.remove(assignment(Member{Worker, worker}, r.Member))
				g.incr(Member{Worker, worker}.field("tasks"), -1)
			}
			g.removeBelow(r.Member.String() + ".")
			if r.listed != "" {
				g.remove(r.listKey())
			}
		}
		g.lessClaims(claims)
		return nil
	})
	return err
}

// lessClaims counts the claims that end above what goes, as long as that stays.
func (g *going) lessClaims(n int64) {
	if n == 0 {
		return
	}
	for _, owner := range strings.Fields(text(g.duty)) {
		got := g.f.store.Get(g.ns, owner+".claims")
		if got != nil && got.Create < g.duty.Create {
			g.when(still(got))
			g.incr(got.Key, -n)
		}
	}
}
