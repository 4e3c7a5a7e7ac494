package history

import (
	"context"
	"slices"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/kv"
	"confcenter/op"
)

// LogAsk asks for changes.
type LogAsk struct {
	Name   string `json:"name,omitempty" doc:"of a document; empty: the changes of all" arg:"1"`
	Before int64  `json:"before,omitempty" doc:"only changes below this revision, which go on from an answer's next"`
	Limit  int64  `json:"limit,omitempty" doc:"how many at most, up to 1000; 0: 50"`
}

// LogAnswer is changes, newest first.
type LogAnswer struct {
	Name      string   `json:"name,omitempty" doc:"of the document, with .json"`
	Changes   []Change `json:"changes" doc:"newest first"`
	Next      int64    `json:"next,omitempty" doc:"there are more: ask with this as before"`
	Compacted bool     `json:"compacted,omitempty" doc:"there were earlier ones, which are no longer kept"`
}

// Change is one change: a revision, who made it, and why.
type Change struct {
	Revision int64 `json:"revision" doc:"the revision that it made, of files and state alike"`
	By
	Count     int64      `json:"count" doc:"how many documents it touched, as far as one may know of them"`
	Documents []Document `json:"documents" doc:"the document that was asked for, else those it touched, at most 100"`
}

// By is who made a change, and why.
type By struct {
	Author  string `json:"author,omitempty" doc:"who made it"`
	Origin  string `json:"origin,omitempty" doc:"by which way: tcp, http, console, file, rollback, release, server"`
	Peer    string `json:"peer,omitempty" doc:"from which address"`
	Comment string `json:"comment,omitempty" doc:"why"`
	Commit  string `json:"commit,omitempty" doc:"the commit of git with which the file came"`
	Token   string `json:"token,omitempty" doc:"of the request, if it had one"`
	Time    int64  `json:"time" doc:"when it was made, in ms since 1970"`
}

// Document is what a change made of a document.
type Document struct {
	Name    string   `json:"name" doc:"of the document"`
	Version int64    `json:"version" doc:"counts the versions of the document, from 1"`
	Kind    log.Kind `json:"kind" doc:"created, changed or deleted"`
	Mtime   int64    `json:"mtime,omitempty" doc:"the version that programs see, in s since 1970"`
	Size    int64    `json:"size,omitempty" doc:"of the file, in bytes"`
	Hash    string   `json:"hash,omitempty" doc:"the SHA-256 of the file"`
	By      *By      `json:"by,omitempty" doc:"who made it of the document: in the log of all, where the change has documents of several authors; of at most 10000 documents of an answer"`
}

// The limits of a page.
const (
	mostChanges = 1000
	someChanges = 50
	mostSigned  = 10_000 // documents that are looked at to say who made them
)

// Log lists changes.
func (h *History) Log(ctx context.Context, _ *access.Actor, q *LogAsk) (*LogAnswer, error) {
	limit, err := limited(q.Limit, someChanges, mostChanges)
	if err != nil {
		return nil, err
	}
	if q.Before < 0 {
		return nil, codes.Errorf(codes.BadRequest, "before is %d: it is a revision, from 1", q.Before)
	}
	if q.Name == "" {
		return h.logAll(ctx, kv.Revision(q.Before), limit)
	}
	if err := op.MayOf(ctx).Needs(op.PastOf(nil, q.Name)...); err != nil {
		return nil, err
	}
	return h.logOne(ctx, q.Name, kv.Revision(q.Before), limit)
}

func limited(asked int64, some, most int) (int, error) {
	switch {
	case asked < 0 || asked > int64(most):
		return 0, codes.Errorf(codes.BadRequest, "limit is %d: it is from 1 to %d", asked, most)
	case asked == 0:
		return some, nil
	}
	return int(asked), nil
}

func (h *History) logAll(ctx context.Context, before kv.Revision, limit int) (*LogAnswer, error) {
	list, err := h.log.Changes(ctx, before, limit+1)
	if err != nil {
		return nil, err
	}
	answer := &LogAnswer{}
	if len(list) > limit {
		list = list[:limit]
		answer.Next = int64(list[limit-1].Revision)
	} else {
		gone, err := h.log.ChangesGone()
		if err != nil {
			return nil, err
		}
		answer.Compacted = gone > 0
	}
	may := op.MayOf(ctx)
	signing, all := signing{log: h.log, may: may, left: mostSigned}, recallsAll(may)
	for i := range list {
		c := changeOf(&list[i])
		told := slices.DeleteFunc(slices.Clone(list[i].First), func(touch log.Touch) bool { return !recalls(may, touch.Name) })
		if !all {
			c.Count = int64(len(told)) // how many others there are is not told either
		}
		if len(told) == 0 && len(list[i].First) > 0 {
			continue
		}
		for _, touch := range told {
			c.Documents = append(c.Documents, Document{Name: touch.Name, Version: touch.N, Kind: touch.Kind})
		}
		if err := signing.sign(ctx, &c, &list[i]); err != nil {
			return nil, err
		}
		answer.Changes = append(answer.Changes, c)
	}
	return answer, nil
}

// recalls reports whether the versions of a document may be told of.
func recalls(may op.May, name string) bool { return may.Needs(op.PastOf(nil, name)...) == nil }

// recallsAll reports whether those of every document may be.
func recallsAll(may op.May) bool {
	return may.Needs(op.Whole(policy.History, policy.Config), op.Whole(policy.Read, policy.Config)) == nil
}

// signing says who made changes that may be those of several.
type signing struct {
	log  *log.Log
	may  op.May // of who is told
	left int    // how many documents may still be looked at
}

// sign says who made a change: all of it, if one has made all that is told of it, else each document.
func (s *signing) sign(ctx context.Context, c *Change, m *log.Made) error {
	if !m.Several() && (m.Origin != access.OnDisk || m.Commit != "") {
		return nil
	}
	var last *By
	one := true
	look := func(touch log.Touch) (by *By, err error) {
		if s.left--; s.left >= 0 {
			by, err = s.madeBy(ctx, m, touch)
		}
		one = one && by != nil && (last == nil || *by == *last)
		last = by
		return by, err
	}
	for i := range c.Documents {
		d := &c.Documents[i]
		var err error
		if d.By, err = look(log.Touch{Name: d.Name, N: d.Version}); err != nil {
			return err
		}
	}
	if one && m.Count > len(m.First) {
		others, err := s.log.Touched(ctx, m)
		if err != nil {
			return err
		}
		for _, touch := range others[len(m.First):] {
			if !recalls(s.may, touch.Name) {
				continue
			}
			if _, err := look(touch); err != nil {
				return err
			}
			if !one {
				break
			}
		}
	}
	if !one || last == nil {
		c.By = By{Origin: c.Origin, Time: c.Time}
		return nil
	}
	c.By = *last
	for i := range c.Documents {
		c.Documents[i].By = nil
	}
	return nil
}

// madeBy is who made a version; nil if that is not known, or no longer.
func (s *signing) madeBy(ctx context.Context, m *log.Made, touch log.Touch) (*By, error) {
	v := log.Version{Name: touch.Name, N: touch.N}
	if m.Several() {
		var err error
		if v, err = s.log.Find(ctx, &log.Document{Name: touch.Name, N: touch.N}, touch.N); codes.Of(err) == codes.Compacted {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	by, err := s.log.Who(ctx, &v, m)
	if by == m.By && m.Several() {
		return nil, err
	}
	return (*By)(&by), err
}

func (h *History) logOne(ctx context.Context, name string, before kv.Revision, limit int) (*LogAnswer, error) {
	d, err := h.document(name)
	if err != nil {
		return nil, err
	}
	first := int64(0)
	if before > 0 {
		if first, err = h.log.Later(ctx, &d, before-1); err != nil {
			return nil, err
		}
	}
	answer := &LogAnswer{Name: d.Name}
	list, err := h.log.Versions(ctx, d.Name, first, limit+1)
	if err != nil || len(list) == 0 {
		answer.Compacted = first != 1
		return answer, err
	}
	if len(list) > limit {
		list = list[:limit]
		answer.Next = int64(list[limit-1].Revision)
	} else {
		answer.Compacted = list[len(list)-1].N > 1
	}
	made, err := h.log.ChangesOf(ctx, list)
	if err != nil {
		return nil, err
	}
	for i := range list {
		c, err := h.changeBy(ctx, &made[i], &list[i])
		if err != nil {
			return nil, err
		}
		answer.Changes = append(answer.Changes, c)
	}
	return answer, nil
}

func documentOf(v *log.Version) Document {
	d := Document{Name: v.Name, Version: v.N, Kind: v.Kind(), Mtime: int64(v.Served), Size: int64(v.Size)}
	if !v.Deleted {
		d.Hash = v.Hash.String()
	}
	return d
}

// changeBy is the change that made a version, by who made that one.
func (h *History) changeBy(ctx context.Context, m *log.Made, v *log.Version) (Change, error) {
	by, err := h.log.Who(ctx, v, m)
	c := changeOf(m)
	if !recallsAll(op.MayOf(ctx)) {
		c.Count = 1 // how many others there are is not told
	}
	c.By, c.Documents = By(by), []Document{documentOf(v)}
	return c, err
}

func changeOf(m *log.Made) Change {
	return Change{Revision: int64(m.Revision), By: By(m.By), Count: int64(m.Count)}
}
