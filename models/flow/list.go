package flow

import (
	"cmp"
	"context"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// ListAsk is the question of List.
type ListAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	List   string `json:"list" arg:"1" doc:"cfapplist, cfworkers, cfschedus, cfapp.ID.srvs, cfapp.ID.sess, sess.ID.flow or flow.ID.node"`
	Status string `json:"status,omitempty" doc:"only members with this status"`
	After  string `json:"after,omitempty" doc:"continue behind this member"`
	Limit  int64  `json:"limit,omitempty" doc:"at most so many members; left out: 1000"`
}

// ListLine is a member of a list.
type ListLine struct {
	Key    string `json:"key" doc:"the member, as node.N"`
	Status Status `json:"status" doc:"its status"`
}

// ListAnswer is the answer of List.
type ListAnswer struct {
	Revision int64      `json:"revision" doc:"the store's revision; what changes after it can be watched"`
	Members  []ListLine `json:"members" doc:"in the order of their keys"`
	Next     string     `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// limited is how many lines an answer has at most if n were asked for.
func limited(n int64) (int, error) {
	if n < 0 || n > MaxLines {
		return 0, codes.Errorf(codes.BadRequest, "limit %d is out of range: it is from 1 to %d", n, MaxLines)
	}
	return int(cmp.Or(n, 1000)), nil
}

// page reads keys with a prefix, as many as were asked for. next is the last one if there are
// more.
func (f *Flow) page(l kv.List, limit int64) (page kv.Page, next string, err error) {
	if l.Limit, err = limited(limit); err != nil {
		return page, "", err
	}
	l.MaxBytes = maxAnswer
	page, err = f.store.List(l)
	if n := len(page.Entries); n > 0 && page.More {
		next = page.Entries[n-1].Key
	}
	return page, next, err
}

// memberOf reads what many questions begin with.
func memberOf(scope, key string, parse func(string) (Member, error)) (ns string, m Member, err error) {
	if ns, err = Namespace(scope); err == nil {
		m, err = parse(key)
	}
	return ns, m, err
}

// List lists the members of a list, all or those with one status. A list that does not exist is
// empty, as is one below an application that is not published.
func (f *Flow) List(ctx context.Context, _ *access.Actor, q *ListAsk) (*ListAnswer, error) {
	ns, err := Namespace(q.Scope)
	if err != nil {
		return nil, err
	}
	_, parent, err := parseList(q.List)
	if err != nil {
		return nil, err
	}
	status, err := ParseStatus(q.Status, true)
	if err != nil {
		return nil, err
	}
	limit, err := limited(q.Limit)
	if err != nil {
		return nil, err
	}
	w := f.newWalk(ctx, ns, q.After) // in which it is also seen whether there is a list: what comes later can be watched
	defer w.view.Close()
	a := &ListAnswer{Revision: int64(w.view.Revision()), Members: []ListLine{}}
	if parent.ID != "" {
		if _, err := loadBy(w.getMany, ns, parent); err != nil {
			return a, w.failed
		}
	}
	err = stopped(w.list(q.List, &step{}, func(s *step) error {
		switch {
		case s.old || status != "" && s.status != status:
		case len(a.Members) == limit:
			a.Next = a.Members[limit-1].Key
			return errStop
		default:
			a.Members = append(a.Members, ListLine{s.path[0], s.status})
		}
		return errSkip
	}))
	return a, err
}
