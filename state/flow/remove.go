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

// Remove removes a member with everything below it, however large: nobody sees it any more
// from the first moment on. If it returns before all is gone, the sweep goes on.
func (f *Flow) Remove(ctx context.Context, by *access.Actor, q *RemoveAsk) (*WriteAnswer, error) {
	e, err := f.edit(by, q.Scope, q.Who, q.Token, q)
	if err != nil {
		return nil, err
	}
	m, err := ParseMember(q.Key)
	if err != nil {
		return nil, err
	}
	defer f.undertake(f.indexKey(dutyGone, e.ns, m))()
	res, err := e.commit(ctx, func() error {
		r, err := f.load(ctx, e.ns, m)
		if err != nil {
			return err
		}
		if err := e.mayGo(ctx, r, q.Force); err != nil {
			return err
		}
		e.whenSame(r.listKey(), r.list)
		e.remove(r.listKey())
		var owners []string
		for _, above := range r.owners() {
			owners = append(owners, above.String())
		}
		e.putIn(f.index(), f.indexKey(dutyGone, e.ns, m), kv.StringValue(strings.Join(owners, " ")), 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return written(res, f.finishGone(ctx, e.ns, m))
}

// mayGo has the conditions that nobody works on what goes.
func (e *edit) mayGo(ctx context.Context, r *record, force bool) error {
	busy := ""
	switch r.Kind {
	case Worker, Scheduler:
		live := e.f.indexKey(liveKey, e.ns, r.Member)
		got, err := e.f.store.GetMany(ctx, e.f.index(), live, e.f.indexKey(dutyLive, e.ns, r.Member), e.f.indexKey(dutyBack, e.ns, r.Member))
		if err != nil {
			return err
		}
		tasks, err := e.f.store.Get(ctx, e.ns, r.field("tasks"))
		if err != nil {
			return err
		}
		if got[0] != nil || got[1] != nil || got[2] != nil || number(tasks) > 0 {
			return codes.Errorf(codes.Conflict, "%s is alive or has tasks; it must leave, and its tasks be returned", r.Member)
		}
		e.when(kv.Absent(e.f.index(), live), kv.Absent(e.f.index(), e.f.indexKey(dutyLive, e.ns, r.Member)))
		e.whenSame(r.field("tasks"), tasks)
		return nil
	case App, FlowKind, Session:
		n, err := e.unclaimed(ctx, r, force)
		if err != nil {
			return err
		}
		if n > 0 {
			busy = "something below it"
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

// unclaimed counts what is claimed below a member, and has the conditions that it is nothing.
func (e *edit) unclaimed(ctx context.Context, r *record, force bool) (n int64, err error) {
	counters := []string{r.field("claims")}
	if r.Kind == Session {
		counters = nil
		page, err := e.f.store.List(ctx, kv.List{NS: e.ns, Prefix: r.Member.list(FlowKind) + ".", Limit: mostConds})
		if err != nil || force {
			return 0, err
		}
		if page.More {
			return 0, codes.Errorf(codes.Conflict, "%s has more than %d flows; remove them first, or force its removal", r.Member, mostConds)
		}
		for _, flow := range page.Entries {
			if k, err := ParseKey(flow.Key); err == nil {
				counters = append(counters, k.Member.field("claims"))
			}
		}
	}
	if len(counters) == 0 {
		return 0, nil
	}
	got, err := e.f.store.GetMany(ctx, e.ns, counters...)
	for i, claims := range got {
		n += number(claims)
		if !force {
			e.whenSame(counters[i], claims)
		}
	}
	return n, err
}

// drop turns a stage into something that goes.
func (e *edit) drop(ctx context.Context, m Member, duty string) (*kv.Result, error) {
	defer e.f.undertake(e.f.indexKey(dutyGone, e.ns, m))()
	res, err := e.apply(ctx, func() error {
		e.when(exists(e.f.index(), e.f.indexKey(duty, e.ns, m)))
		if got, err := e.f.store.Get(ctx, e.f.index(), e.f.indexKey(duty, e.ns, m)); err != nil {
			return err
		} else if got == nil {
			return errNotStaged(m)
		}
		e.removeIn(e.f.index(), e.f.indexKey(duty, e.ns, m))
		e.removeIn(e.f.index(), e.f.indexKey(liveKey, e.ns, m))
		e.putIn(e.f.index(), e.f.indexKey(dutyGone, e.ns, m), kv.StringValue(""), 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return res, e.f.finishGone(ctx, e.ns, m)
}

// finishGone deletes everything of a member that is in no list any more, from the leaves on, so
// that whoever goes on after a crash still finds the rest.
func (f *Flow) finishGone(ctx context.Context, ns string, top Member) error {
	duty := f.indexKey(dutyGone, ns, top)
	got, err := f.store.Get(ctx, f.index(), duty)
	if err != nil || got == nil {
		return err
	}
	g := &going{edit{draft: draft{ns: ns}, f: f}, strings.Fields(text(got))}
	if err := g.below(ctx, top); err != nil {
		return err
	}
	return g.members(ctx, []*record{{Member: top}}, duty)
}

// going deletes a member with what is below it. The owners above stay.
type going struct {
	edit
	owners []string
}

// below deletes all that is below a member.
func (g *going) below(ctx context.Context, m Member) error {
	for _, kind := range children[m.Kind] {
		for more := true; more; {
			page, err := g.f.store.List(ctx, kv.List{NS: g.ns, Prefix: m.list(kind) + ".", Limit: mostGoing})
			if err != nil {
				return err
			}
			var list []*record
			for _, e := range page.Entries {
				k, err := ParseKey(e.Key)
				if err != nil || k.Form != ListMember {
					continue
				}
				if err := g.below(ctx, k.Member); err != nil {
					return err
				}
				list = append(list, &record{Member: k.Member, listed: k.List, parent: m})
			}
			if more = len(list) > 0; more {
				if err := g.members(ctx, list, ""); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mostGoing is how many members go in one transaction: each can have a long log.
const mostGoing = 40

// members deletes members, below which there is nothing any more, and the duty if that was all.
func (g *going) members(ctx context.Context, list []*record, duty string) error {
	_, err := g.apply(ctx, func() error {
		var keys []string
		for _, r := range list {
			keys = append(keys, r.field("worker"), r.field("claim"), r.field("atime"))
		}
		got, err := g.f.store.GetMany(ctx, g.ns, keys...)
		if err != nil {
			return err
		}
		claims := int64(0)
		for i, r := range list {
			g.whenSame(r.field("atime"), got[3*i+2])
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
		if duty != "" {
			if got, err := g.f.store.Get(ctx, g.f.index(), duty); err != nil {
				return err
			} else if got == nil {
				return errNoMember(list[0].Member)
			}
			g.when(exists(g.f.index(), duty))
			g.removeIn(g.f.index(), duty)
		}
		return g.lessClaims(ctx, claims)
	})
	if codes.Of(err) == codes.NotFound {
		return nil // somebody else has finished it
	}
	return err
}

// lessClaims counts the claims that end above what goes, as long as that stays.
func (g *going) lessClaims(ctx context.Context, n int64) error {
	if n == 0 {
		return nil
	}
	for _, owner := range g.owners {
		key := owner + ".claims"
		got, err := g.f.store.Get(ctx, g.ns, key)
		if err != nil {
			return err
		}
		if got != nil {
			g.when(exists(g.ns, key))
			g.incr(key, -n)
		}
	}
	return nil
}
