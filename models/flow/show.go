package flow

import (
	"context"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// ShowAsk is the question of Show.
type ShowAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Key   string `json:"key" arg:"1" doc:"any member, as node.N"`
}

// ShowAnswer is the answer of Show.
type ShowAnswer struct {
	Key    string      `json:"key" doc:"the member"`
	List   string      `json:"lkey" doc:"the list that it is in"`
	App    string      `json:"appuid,omitempty" doc:"the application that it is below"`
	Status Status      `json:"status" doc:"its status"`
	Worker string      `json:"worker,omitempty" doc:"the id of the worker that has claimed it"`
	Fields []Entry     `json:"fields" doc:"its fields, without the member in their keys"`
	Lock   *LockAnswer `json:"lock,omitempty" doc:"who has locked it"`
}

// Show shows a member with all its fields.
func (f *Flow) Show(_ context.Context, _ *access.Actor, q *ShowAsk) (*ShowAnswer, error) {
	ns, m, err := memberOf(q.Scope, q.Key, ParseMember)
	if err != nil {
		return nil, err
	}
	r, err := f.load(ns, m)
	if err != nil {
		return nil, err
	}
	a, size := &ShowAnswer{Key: m.String(), List: r.listed, App: r.app().ID}, 0
	err = f.fields(ns, m, func(name string, e *kv.Entry) error {
		switch a.Fields = append(a.Fields, entry(name, e)); name {
		case "cstat":
			a.Status = Status(text(e))
		case "worker", "claim":
			a.Worker = text(e)
		}
		if size += len(e.Value.Data); size > 2*maxAnswer {
			return codes.Errorf(codes.TooLarge, "the fields of %s have more than %d bytes together; read some of them", m, 2*maxAnswer)
		}
		return nil
	})
	if err == nil && len(a.Fields) == 0 {
		err = errNoMember(m) // it was removed just now
	}
	if err != nil {
		return nil, err
	}
	a.Lock = f.holder(ns, m.String()+".")
	return a, nil
}

// AssignedAsk is the question of Assigned.
type AssignedAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Worker string `json:"worker" arg:"1" doc:"whose: wokr.ID"`
	After  string `json:"after,omitempty" doc:"continue behind this member"`
	Limit  int64  `json:"limit,omitempty" doc:"at most so many; left out: 1000"`
}

// AssignedAnswer is the answer of Assigned.
type AssignedAnswer struct {
	Tasks []Claimed `json:"tasks" doc:"in the order of their keys"`
	Next  string    `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Claimed is something that a worker has claimed.
type Claimed struct {
	List   string `json:"lkey" doc:"the list that it is in"`
	Key    string `json:"ukey" doc:"the member, as node.N"`
	Status Status `json:"status" doc:"its status"`
	Fence  int64  `json:"fence" doc:"what it was claimed with"`
}

// Assigned lists what a worker has claimed and neither ended nor returned.
func (f *Flow) Assigned(_ context.Context, _ *access.Actor, q *AssignedAsk) (*AssignedAnswer, error) {
	ns, w, err := memberOf(q.Scope, q.Worker, parseWorker)
	if err != nil {
		return nil, err
	}
	l := kv.List{NS: ns, Prefix: w.field("task.")}
	if q.After != "" {
		l.After = l.Prefix + q.After
	}
	page, next, err := f.page(l, min(q.Limit, 1000))
	if err != nil {
		return nil, err
	}
	a := &AssignedAnswer{Tasks: []Claimed{}, Next: strings.TrimPrefix(next, l.Prefix)}
	for _, e := range page.Entries {
		k, err := ParseKey(e.Key)
		if err != nil {
			continue
		}
		if r, err := f.load(ns, k.Task); err == nil { // or it is about to go
			a.Tasks = append(a.Tasks, Claimed{r.listed, k.Task.String(), r.status, int64(e.Create)})
		}
	}
	return a, nil
}

// ScopesAsk is the question of Scopes.
type ScopesAsk struct {
	After string `json:"after,omitempty" doc:"continue behind this scope"`
	Limit int64  `json:"limit,omitempty" doc:"at most so many; left out: 1000"`
}

// ScopesAnswer is the answer of Scopes.
type ScopesAnswer struct {
	Scopes []string `json:"scopes" doc:"in the order of their names"`
	Next   string   `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Scopes lists the scopes that something was ever written to, and that may be read.
func (f *Flow) Scopes(ctx context.Context, _ *access.Actor, q *ScopesAsk) (*ScopesAnswer, error) {
	limit, err := limited(q.Limit)
	if err != nil {
		return nil, err
	}
	may, a, l := op.MayOf(ctx), &ScopesAnswer{}, kv.List{NS: index, Prefix: "scope."}
	if q.After != "" {
		l.After = l.Prefix + q.After
	}
	for {
		page, next, err := f.page(l, q.Limit)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			scope := e.Key[len(l.Prefix):]
			switch {
			case !may.Sees(op.Scope(policy.Read, scope)):
			case len(a.Scopes) == limit: // not before: more would tell that there are others
				a.Next = a.Scopes[limit-1]
				return a, nil
			default:
				a.Scopes = append(a.Scopes, scope)
			}
		}
		if l.After = next; next == "" {
			return a, nil
		}
	}
}
