package history

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/op"
)

// Documents are the documents whose past a History has.
type Documents interface {
	// Change queues a change; it is answered on another goroutine.
	Change(change.Request, func(change.Result, error)) error
	// Remembered is nil unless a document is served that the log does not have yet.
	Remembered(name string) error
	// Look returns a file as it is on disk, unless room has an error for its size, and what is wrong
	// with it; nil if it can be served. codes.NotFound.
	Look(name string, room func(size int64) error) ([]byte, *change.Broken, error)
}

// Clients are a page of the programs that are connected, as [confcenter/server/tcp.Server.Clients] has
// them.
type Clients func(after int32, most int) (list []roster.Client, next int32)

// all are the programs, some at a time.
func (c Clients) all() iter.Seq[*roster.Client] {
	return func(yield func(*roster.Client) bool) {
		const most = 256
		for list, next := c(0, most); ; list, next = c(next, most) {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
			if next == 0 {
				return
			}
		}
	}
}

// Said is what a request says of who makes a change, and why.
type Said struct {
	Author  string `json:"author,omitempty" doc:"who makes the change; empty: not known"`
	Comment string `json:"comment,omitempty" doc:"why"`
	Token   string `json:"token,omitempty" doc:"the same change asked for again with the same token is not made again; it is answered with what the first one did"`
}

// by is the actor of a request.
func (s *Said) by(actor *access.Actor) (*access.Actor, error) {
	return actor.Says(access.Said{Author: s.Author, Comment: s.Comment, Token: s.Token})
}

// ChangeAnswer is what a change of several documents has done, or would do.
type ChangeAnswer struct {
	Revision  int64     `json:"revision,omitempty" doc:"the one revision that it made; absent if there was nothing to change, or of dry_run"`
	Replayed  bool      `json:"replayed,omitempty" doc:"it was made before, with the same token; this is what it did then"`
	At        int64     `json:"at,omitempty" doc:"of rollback: the revision as at which they are, or would be"`
	Count     int64     `json:"count" doc:"how many documents it touches"`
	Documents []Touched `json:"documents" doc:"those, by name, at most 10000"`
	Refused   []Refused `json:"refused,omitempty" doc:"of dry_run: why it would be refused; at most 1000 documents"`
	Undone    []Undone  `json:"undone,omitempty" doc:"of dry_run with guard: changes that it would undo, because of which it would be refused; at most 1000"`
	Told      int64     `json:"told,omitempty" doc:"of dry_run: how many programs would be told of it"`
	Programs  []Program `json:"programs,omitempty" doc:"of dry_run: those, at most 100"`
	Held      bool      `json:"held,omitempty" doc:"of dry_run: it would be held until another person approves it"`
	Approval  []string  `json:"approval,omitempty" doc:"of dry_run: the documents because of which it would be, at most 1000 of those that you may read"`
}

// Touched is what a change makes of a document.
type Touched struct {
	Name  string   `json:"name" doc:"of the document"`
	Kind  log.Kind `json:"kind" doc:"created, changed or deleted"`
	Mtime int64    `json:"mtime,omitempty" doc:"the version that programs see, in s since 1970"`
	Size  int64    `json:"size,omitempty" doc:"of the file, in bytes"`
	Hash  string   `json:"hash,omitempty" doc:"the SHA-256 of the file; absent if it is deleted"`
	Was   string   `json:"was,omitempty" doc:"the SHA-256 of the file that is replaced; absent if there was none"`
	There
}

// There is a file that is there, but cannot be served: someone edits it by hand.
type There struct {
	Broken string `json:"broken,omitempty" doc:"of dry_run: why the file that is there cannot be served"`
	Holds  string `json:"holds,omitempty" doc:"of dry_run: what that file holds, at most 64 KiB of it, if you may read it"`
}

// Refused is why a document cannot be changed.
type Refused struct {
	Name string `json:"name" doc:"of the document"`
	Code int64  `json:"code" doc:"as an error has it: 412 if it is another than the change is based on"`
	Desc string `json:"desc" doc:"why, and what to do"`
	There
}

// Program is a program that uses documents.
type Program struct {
	ID      int64    `json:"id" doc:"of its connection"`
	Name    string   `json:"name" doc:"what it calls itself"`
	Address string   `json:"address" doc:"of its end of the connection"`
	Files   []string `json:"files" doc:"what it uses and what changes, at most 10 documents"`
}

// What an answer has at most.
const (
	mostTouched  = 10_000
	mostRefused  = 1000
	mostPrograms = 100
	mostFiles    = 10
	mostHeld     = 64 << 10 // of a broken file
)

// change makes a change, or finds out what it would do.
func (h *History) change(ctx context.Context, req change.Request) (*ChangeAnswer, error) {
	if len(req.Documents) == 0 && h.cfg.Documents != nil {
		return &ChangeAnswer{}, nil
	}
	done, err := await(ctx, h.cfg.Documents, req)
	switch {
	case req.Check && len(done.Refused) > 0:
		return &ChangeAnswer{Refused: refusedOf(ctx, done.Refused)}, nil
	case err != nil:
		return nil, err
	case done.Replayed:
		return h.replayed(ctx, &done)
	}
	answer := answerOf(done.Revision, done.Documents)
	if req.Check {
		may := op.MayOf(ctx)
		for i := range answer.Documents {
			answer.Documents[i].There = thereOf(may, done.Documents[i].Broken)
		}
		answer.Told, answer.Programs = h.told(may, done.Told)
		answer.Held = len(done.Approval) > 0
		for _, name := range done.Approval {
			if may.Names(name) && len(answer.Approval) < mostRefused {
				answer.Approval = append(answer.Approval, name)
			}
		}
	}
	return answer, nil
}

// await asks for a change and waits for the result.
func await(ctx context.Context, docs Documents, req change.Request) (change.Result, error) {
	if docs == nil {
		return change.Result{}, codes.Errorf(codes.NotImplemented, "this server has no documents that could be changed")
	}
	late := codes.Errorf(codes.Timeout, "it is not known yet whether the change is made; ask again with the same token, or read the log")
	return kv.Await(ctx, late, func(done func(change.Result, error)) error { return docs.Change(req, done) })
}

func answerOf(rev kv.Revision, list []change.Changed) *ChangeAnswer {
	answer := &ChangeAnswer{Revision: int64(rev), Count: int64(len(list))}
	for _, d := range list[:min(len(list), mostTouched)] {
		t := Touched{Name: d.Name, Kind: d.Kind, Mtime: int64(d.Mtime), Size: int64(d.Size), Hash: hex(d.Hash), Was: hex(d.Was)}
		answer.Documents = append(answer.Documents, t)
	}
	return answer
}

// hex is a digest in an answer.
func hex(d log.Digest) string {
	text, _ := d.MarshalText()
	return string(text)
}

func refusedOf(ctx context.Context, list []change.Refusal) (refused []Refused) {
	for _, r := range list[:min(len(list), mostRefused)] {
		broken, _ := errors.AsType[*change.Broken](r.Err)
		refused = append(refused, Refused{r.Name, int64(codes.Of(r.Err)), codes.Message(r.Err), thereOf(op.MayOf(ctx), broken)})
	}
	return refused
}

// thereOf shows a broken file, if it is one, to those who may read it.
func thereOf(may op.May, b *change.Broken) (t There) {
	if b == nil {
		return t
	}
	t.Broken = b.Error()
	if may.Names(b.Name) {
		t.Holds = strings.ToValidUTF8(string(b.Text[:min(len(b.Text), mostHeld)]), "\uFFFD")
	}
	return t
}

// replayed is the answer to a change that was made before.
func (h *History) replayed(ctx context.Context, r *change.Result) (*ChangeAnswer, error) {
	made, err := h.log.Changes(ctx, r.Revision+1, 1)
	if err != nil || len(made) == 0 {
		return nil, codes.Errorf(codes.Compacted, "the change was made by revision %d, and what it did is no longer kept", r.Revision)
	}
	return h.answerTo(ctx, &made[0])
}

func (h *History) answerTo(ctx context.Context, made *log.Made) (*ChangeAnswer, error) {
	touches, err := h.log.Touched(ctx, made)
	if err != nil {
		return nil, err
	}
	answer := &ChangeAnswer{Revision: int64(made.Revision), Replayed: true, Count: int64(len(touches))}
	for _, t := range touches[:min(len(touches), mostTouched)] {
		v, err := h.log.Find(ctx, &log.Document{Name: t.Name, N: t.N}, t.N)
		if err != nil {
			return nil, err
		}
		answer.Documents = append(answer.Documents, Touched{Name: t.Name, Kind: t.Kind, Mtime: int64(v.Served), Size: int64(v.Size), Hash: hex(v.Hash), Was: hex(v.Replaces)})
	}
	return answer, nil
}

// told finds the programs that are told of a change: those that have subscribed to a document that
// it changes, resolved ones included, or that have it as their main configuration. Of both only
// those count that who may know of.
func (h *History) told(may op.May, names []string) (n int64, list []Program) {
	if h.cfg.Clients == nil || len(names) == 0 {
		return 0, nil
	}
	changed := make(map[string]bool, len(names))
	for _, name := range names {
		changed[name] = may.Names(name)
	}
	for c := range h.cfg.Clients.all() {
		var files []string
		use := func(name string) {
			if changed[name] && !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
		use(c.Main)
		for _, s := range c.Subscriptions {
			use(s.File)
		}
		if len(files) == 0 || !may.Sees(op.Client(policy.Read, c.Name)) {
			continue
		}
		if n++; n <= mostPrograms {
			list = append(list, Program{int64(c.ID), c.Name, c.Address, files[:min(len(files), mostFiles)]})
		}
	}
	return n, list
}
