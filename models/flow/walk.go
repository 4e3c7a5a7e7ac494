package flow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"confcenter/access"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// walk goes through what is listed below applications, each member before those below it, in
// the order of their names, as of one moment. Close its view.
type walk struct {
	ctx   context.Context
	ns    string
	after []string // behind this path
	view  kv.View

	failed error // of getMany
}

// step is a member on the way.
type step struct {
	path   []string // the names of the members above it, and its own; only valid for the moment
	record          // what is known of it so far
	old    bool     // it is not behind after, but something below it may be
}

// What a visit may return: errStop ends the walk, errSkip leaves out what is below the member.
var errStop, errSkip = errors.New("stop"), errors.New("skip")

// cursor is a path as one text, and back.
func cursor(path []string) string { return strings.Join(path, "|") }

func (f *Flow) newWalk(ctx context.Context, ns, after string) *walk {
	w := &walk{ctx: ctx, ns: ns, view: f.store.View()}
	if after != "" {
		w.after = strings.Split(after, "|")
	}
	return w
}

// getMany reads keys as of the walk's moment.
func (w *walk) getMany(ns string, keys ...string) []*kv.Entry {
	list := make([]*kv.Entry, len(keys))
	for i, key := range keys {
		var err error
		list[i], err = w.view.Get(ns, key)
		w.failed = cmp.Or(w.failed, err)
	}
	return list
}

// all visits every application of the scope with what is below it.
func (w *walk) all(visit func(*step) error) error {
	return stopped(w.list(kinds[App].list, &step{}, visit))
}

// from visits what is below a member that is listed.
func (w *walk) from(r *record, visit func(*step) error) error {
	return stopped(w.below(&step{record: *r, path: []string{r.Member.String()}}, visit))
}

func stopped(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (w *walk) below(s *step, visit func(*step) error) error {
	for _, kind := range children[s.Kind] {
		if err := w.list(s.Member.list(kind), s, visit); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) list(list string, above *step, visit func(*step) error) error {
	l := kv.List{NS: w.ns, Prefix: list + "."}
	var chain []Member // of all in the list
	if above.ID != "" {
		chain = append([]Member{above.Member}, above.above...)
	}
	depth := len(above.path)
	s := &step{path: append(slices.Clip(above.path), ""), record: record{above: chain, listed: list}} // one after the other
	if len(w.after) > depth && (depth == 0 || above.old) {
		_, last := utf8.DecodeLastRuneInString(w.after[depth])
		l.After = l.Prefix + w.after[depth][:len(w.after[depth])-last] // not far before it
	}
	for e, err := range embedded.Each(w.view.List, l) {
		if err = cmp.Or(err, w.ctx.Err()); err != nil {
			return err
		}
		s.path[depth] = e.Key[len(l.Prefix):]
		if s.Member, err = ParseMember(s.path[depth]); err != nil {
			continue // ctime
		}
		s.status = Status(e.Value.Data)
		behind := slices.Compare(s.path, w.after[:min(len(w.after), len(s.path))])
		if behind < 0 {
			continue
		}
		s.old = behind == 0 && len(w.after) > 0
		if err = visit(s); err == nil {
			err = w.below(s, visit)
		}
		if err != nil && !errors.Is(err, errSkip) {
			return err
		}
	}
	return nil
}

// TasksAsk is the question of Tasks.
type TasksAsk struct {
	Scope  string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	Status string `json:"status,omitempty" arg:"1" doc:"only tasks with this status"`
	After  string `json:"after,omitempty" doc:"the next of the answer before"`
	Limit  int64  `json:"limit,omitempty" doc:"at most so many tasks; left out: 1000"`
}

// Task is a node or a service.
type Task struct {
	List   string `json:"lkey" doc:"the list that it is in"`
	Key    string `json:"ukey" doc:"the member, as node.N"`
	Status Status `json:"status" doc:"its status"`
}

// TasksAnswer is the answer of Tasks.
type TasksAnswer struct {
	Tasks []Task `json:"tasks" doc:"nodes and services"`
	Next  string `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Tasks lists the nodes and services of all applications, all or those with one status.
func (f *Flow) Tasks(ctx context.Context, _ *access.Actor, q *TasksAsk) (*TasksAnswer, error) {
	ns, err := Namespace(q.Scope)
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
	a := &TasksAnswer{Tasks: []Task{}}
	w := f.newWalk(ctx, ns, q.After)
	defer w.view.Close()
	var before string
	err = w.all(func(s *step) error {
		if s.old || s.Kind != Node && s.Kind != Service || status != "" && s.status != status {
			return nil
		}
		if len(a.Tasks) == limit {
			a.Next = before
			return errStop
		}
		a.Tasks = append(a.Tasks, Task{s.listed, s.Member.String(), s.status})
		if len(a.Tasks) == limit {
			before = cursor(s.path)
		}
		return nil
	})
	return a, err
}
