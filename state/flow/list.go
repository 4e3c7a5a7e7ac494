package flow

import (
	"context"
	"strings"

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

// limited is a limit that was asked for.
func limited(n, otherwise int64) (int64, error) {
	if n < 0 || n > MaxLines {
		return 0, codes.Errorf(codes.BadRequest, "limit %d is out of range: it is from 1 to %d", n, MaxLines)
	}
	if n == 0 {
		return otherwise, nil
	}
	return n, nil
}

// List lists the members of a list, all or those with one status. A list that does not exist is
// empty, as is one below an application that is not published.
func (f *Flow) List(ctx context.Context, _ *access.Actor, q *ListAsk) (*ListAnswer, error) {
	ns, err := f.namespace(q.Scope)
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
	limit, err := limited(q.Limit, 1000)
	if err != nil {
		return nil, err
	}
	a := &ListAnswer{Members: []ListLine{}}
	if parent.ID != "" {
		if _, err := f.load(ctx, ns, parent); codes.Of(err) == codes.NotFound {
			return a, nil
		} else if err != nil {
			return nil, err
		}
	}
	l := kv.List{NS: ns, Prefix: q.List + "."}
	if q.After != "" {
		l.After = l.Prefix + q.After
	}
	for {
		page, err := f.store.List(ctx, l)
		if err != nil {
			return nil, err
		}
		if a.Revision == 0 {
			a.Revision = int64(page.Revision)
		}
		for _, e := range page.Entries {
			if len(a.Members) == int(limit) {
				a.Next = a.Members[limit-1].Key
				return a, nil
			}
			l.After = e.Key
			member := e.Key[len(l.Prefix):]
			if s := Status(e.Value.Data); strings.Contains(member, ".") && (status == "" || s == status) {
				a.Members = append(a.Members, ListLine{member, s})
			}
		}
		if !page.More || len(page.Entries) == 0 {
			return a, nil
		}
	}
}
