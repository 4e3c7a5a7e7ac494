package flow

import (
	"cmp"
	"context"
	"strings"

	"confcenter/access"
)

// TreeAsk is the question of Tree.
type TreeAsk struct {
	Scope string `json:"scope,omitempty" doc:"the scope, cl if left out"`
	App   string `json:"app,omitempty" arg:"1" doc:"only this application; left out: all"`
	After string `json:"after,omitempty" doc:"the next of the answer before"`
	Limit int64  `json:"limit,omitempty" doc:"at most so many lines; left out: 1000"`
}

// TreeLine is a member in a tree.
type TreeLine struct {
	Depth  int64            `json:"depth" doc:"0 for an application, and one more for each member above it"`
	Key    string           `json:"key" doc:"the member"`
	Name   string           `json:"name,omitempty" doc:"its name; of a node or a service its func, if it has one"`
	Status Status           `json:"status" doc:"its status; of sessions and flows empty"`
	Worker string           `json:"worker,omitempty" doc:"the id of the worker that has claimed it"`
	Rolled Status           `json:"rolled,omitempty" doc:"of an application: what its tasks make of it"`
	Tasks  map[string]int64 `json:"tasks,omitempty" doc:"of an application: how many of its tasks have which status"`
}

// TreeAnswer is the answer of Tree.
type TreeAnswer struct {
	Revision int64      `json:"revision" doc:"the store's revision; what changes after it can be watched"`
	Lines    []TreeLine `json:"lines" doc:"each member before those below it"`
	Next     string     `json:"next,omitempty" doc:"if there are more: what to give as after"`
}

// Tree shows applications with all that is below them, as of one moment. codes.NotFound: there is no
// such application.
func (f *Flow) Tree(ctx context.Context, _ *access.Actor, q *TreeAsk) (*TreeAnswer, error) {
	ns, err := Namespace(q.Scope)
	if err != nil {
		return nil, err
	}
	limit, err := limited(q.Limit)
	if err != nil {
		return nil, err
	}
	only := strings.TrimPrefix(q.App, string(App)+".")
	if only != "" {
		m, err := ParseMember(string(App) + "." + only)
		if err == nil {
			_, err = f.load(ns, m)
		}
		if err != nil {
			return nil, err
		}
	}
	w := f.newWalk(ctx, ns, q.After)
	defer w.view.Close()
	t := &tree{limit: limit, only: only, answer: &TreeAnswer{Lines: []TreeLine{}}}
	if err := w.all(t.visit); err != nil {
		return nil, err
	}
	t.roll()
	t.answer.Revision = int64(w.view.Revision())
	return t.answer, w.describe(t.answer.Lines)
}

// tree is an answer of Tree under construction.
type tree struct {
	limit  int
	only   string // application
	answer *TreeAnswer
	full   bool
	app    int // the line of the application that is gone through; -1: it is on an earlier page
	counts map[string]int64
	last   string // cursor of the last line
}

func (t *tree) visit(s *step) error {
	if s.Kind == App {
		t.roll()
		switch {
		case t.only != "" && s.ID != t.only:
			return errSkip
		case t.full:
			t.answer.Next = t.last
			return errStop
		}
		t.counts, t.app = map[string]int64{}, -1
	}
	if s.Kind == Node || s.Kind == Service {
		t.counts[string(s.status)]++
	}
	switch {
	case s.old:
	case t.full:
		t.answer.Next = t.last
		if t.app < 0 {
			return errStop // the counts are not needed
		}
	default:
		if s.Kind == App {
			t.app = len(t.answer.Lines)
		}
		t.answer.Lines = append(t.answer.Lines, TreeLine{Depth: int64(len(s.path) - 1), Key: s.Member.String(), Status: s.status})
		if t.full = len(t.answer.Lines) == t.limit; t.full {
			t.last = cursor(s.path)
		}
	}
	return nil
}

// roll writes what the tasks of an application make of it.
func (t *tree) roll() {
	if t.counts == nil || t.app < 0 {
		return
	}
	line := &t.answer.Lines[t.app]
	line.Tasks, line.Rolled = t.counts, rolled(t.counts)
	t.counts = nil
}

// rolled is the status of something whose tasks have these: that of the first that is under
// way, or of all if they are alike.
func rolled(counts map[string]int64) Status {
	for _, s := range [...]Status{Stopping, Working, Starting, Pending} {
		if counts[string(s)] > 0 {
			return s
		}
	}
	waiting, exited := counts[string(Waiting)] > 0, counts[string(Exited)] > 0
	switch {
	case waiting && exited:
		return Working
	case exited:
		return Exited
	case waiting:
		return Waiting
	}
	return None
}

// describe adds to lines what is not in the lists.
func (w *walk) describe(lines []TreeLine) error {
	for i := range lines {
		m, err := ParseMember(lines[i].Key)
		if err != nil {
			return err
		}
		name, worker := "name", "claim"
		if m.Kind == Node || m.Kind == Service {
			name, worker = "func", "worker"
		}
		got := w.getMany(w.ns, m.field(name), m.field("name"), m.field(worker))
		lines[i].Name, lines[i].Worker = brief(cmp.Or(text(got[0]), text(got[1]))), text(got[2])
	}
	return w.failed
}

// brief is a name as a list of many shows it.
func brief(name string) string {
	const most = 128 // bytes
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}
