package confstore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
)

// Change queues a change of several documents. It is one transaction of the log, one revision and
// one batch. What Set says of the order, of done and of disks that do not answer applies. If some
// documents cannot be changed the error is about all of them: its code is theirs or, if they have
// several, that of the first which is no conflict.
func (s *Store) Change(req change.Request, done func(change.Result, error)) error {
	if len(req.Documents) == 0 || len(req.Documents) > s.cfg.MaxFiles {
		return codes.Errorf(codes.Limit, "a change has %d documents; it must have one at least, and at most %d", len(req.Documents), s.cfg.MaxFiles)
	}
	job := &setJob{reqs: make([]SetRequest, len(req.Documents)), several: true, done: func(s *step, err error) { done(s.changed(), err) }, check: req.Check, behind: req.Behind, asked: req.Asked, approved: req.Approved}
	for i, d := range req.Documents {
		job.reqs[i] = SetRequest{Name: d.Name, Contents: d.File, Exact: true, Base: d.Base, Actor: req.Actor, file: true, keep: d.Keep}
	}
	slices.SortFunc(job.reqs, func(a, b SetRequest) int { return strings.Compare(a.Name, b.Name) })
	if err := checkTogether(job.reqs); err != nil {
		return err
	}
	return s.queue.put(job)
}

// checkTogether refuses documents that cannot be in one directory. They are sorted.
func checkTogether(reqs []SetRequest) error {
	there := make(map[string]bool, len(reqs))
	for i := range reqs {
		name := reqs[i].Name
		if there[name] {
			return codes.Errorf(codes.BadRequest, "%s occurs twice in a change; name it once", shorten(name))
		}
		for at, c := range name {
			if c == '/' && there[name[:at]] {
				return codes.Errorf(codes.BadName, "%s lies below %s, which is a file; choose another name", shorten(name), shorten(name[:at]))
			}
		}
		there[name] = reqs[i].Contents != nil || reqs[i].keep
	}
	return nil
}

// changed is what became of a change.
func (s *step) changed() (r change.Result) {
	for i := range s.files {
		if f := &s.files[i]; f.err != nil {
			r.Refused = append(r.Refused, change.Refusal{Name: f.req.Name, Err: f.err})
		}
	}
	if s.made != nil {
		r.Revision, r.Replayed = s.made.Revision, true
	}
	if s.plan == nil || s.err != nil {
		return r
	}
	r.Documents, r.Approval = s.documents(), s.approval
	for _, c := range s.plan.Changes {
		r.Told = append(r.Told, c.Name)
	}
	if !s.job.check {
		r.Revision = s.plan.Revision
	}
	return r
}

func (s *step) documents() (list []change.Changed) {
	for i := range s.files {
		f := &s.files[i]
		if !f.edited {
			continue
		}
		d := change.Changed{Name: f.req.Name, Kind: log.Changed, Mtime: f.result.Mtime, Size: len(f.data), Hash: s.plan.Next.Node(f.req.Name).Hash()}
		if prev := s.plan.Prev.Node(f.req.Name); prev.Live() {
			d.Was = prev.Hash()
		} else {
			d.Kind = log.Created
		}
		if f.text == nil {
			d.Kind = log.Deleted
		}
		if d.Broken = f.broken; f.write && f.broken != nil {
			d.Was = f.broken.Hash
		}
		list = append(list, d)
	}
	return list
}

// Remembered returns why the log does not have the document that is served under a name; nil if it
// has, or there is none. Any goroutine may ask.
func (s *Store) Remembered(name string) error {
	if n := s.Snapshot().Node(name); !n.Known() || n.Revision(false) != 0 {
		return nil
	}
	return &codes.Error{Code: codes.Busy, After: retryRemembered, Text: fmt.Sprintf("%q is served, but the log does not have it yet, so nothing can be said of its past: try again later; the problem log of /v1/status says why if it lasts", shorten(name))}
}

// retryRemembered is after what time a document that the log did not have is worth asking for again.
const retryRemembered = time.Second

// overtaken returns why a change of all documents cannot be made: others came before it, or are not
// in the log, where all documents are looked for.
func (w *writer) overtaken(j *setJob) error {
	if j.check || j.behind == 0 {
		return nil
	}
	for name, by := range w.unsaved {
		if by != nil {
			return codes.Errorf(codes.Conflict, "%s is served, but the log does not have it yet; nothing was changed: try again later", name)
		}
	}
	if w.known <= j.behind {
		return nil
	}
	return codes.Errorf(codes.Conflict, "documents have been changed by revision %d since all of them were looked at; nothing was changed: try again", w.known)
}

// question identifies what a request asks for.
func (j *setJob) question() log.Digest {
	if j.asked != (log.Digest{}) {
		return j.asked
	}
	h := sha256.New()
	for i := range j.reqs {
		r := &j.reqs[i]
		text := log.DigestOf(r.Contents)
		fmt.Fprintf(h, "%q %t %t %x", r.Name, r.keep, r.Contents != nil, text)
		if r.Base != nil {
			fmt.Fprintf(h, " %x", *r.Base)
		}
	}
	return log.Digest(h.Sum(nil))
}

// replayed finds out whether a change was asked for before, with the same token.
func (w *writer) replayed(s *step) error {
	by := s.job.reqs[0].Actor
	if by == nil || by.Token == "" || s.job.check {
		return nil
	}
	if w.fault != nil { // it may have been made without anyone knowing
		return w.fault
	}
	s.asked = s.job.question()
	made, err := w.log.Asked(context.Background(), by.Token, by.Who(), s.asked)
	if err == nil && made != nil {
		s.made = made
		if n := w.in.node(s.files[0].req.Name); n.Known() {
			s.files[0].result = SetResult{Mtime: n.Mtime(false), Deleted: n.Deleted()}
		}
	}
	return err
}

// maxRefusals is how many documents the text of an error names.
const maxRefusals = 20

// refusal is why a request cannot be carried out, given why its documents cannot; nil if they can.
func (s *step) refusal() error {
	var list []error
	for i := range s.files {
		if err := s.files[i].err; err != nil {
			list = append(list, err)
		}
	}
	if len(list) == 0 || !s.job.several {
		return s.files[0].err
	}
	code := codes.Of(list[0])
	var text strings.Builder
	fmt.Fprintf(&text, "nothing was changed, because of %d of %d documents", len(list), len(s.files))
	for i, err := range list {
		if code == codes.Conflict {
			code = codes.Of(err)
		}
		if i < maxRefusals {
			text.WriteString("; " + codes.Message(err))
		}
	}
	if more := len(list) - maxRefusals; more > 0 {
		fmt.Fprintf(&text, "; and %d more", more)
	}
	return &codes.Error{Code: code, Text: text.String(), Err: list[0]}
}

// marked are the documents because of which a change needs another person's approval, by name. They
// include those that only inherit from what it changes, because they are served again as well, and
// those that it takes away from a program whose main configurations they are.
func (w *writer) marked(s *step) (names []string) {
	by := s.files[0].req.Actor
	if s.files[0].req.resealed || w.cfg.Approval == nil || by == nil || by.Identity == nil {
		return nil
	}
	for _, c := range s.plan.Changes {
		if w.cfg.Approval.Marked(c.Name) {
			names = append(names, c.Name)
		}
	}
	for _, name := range s.plan.Prev.Meta().TakenAway(s.plan.Next.Meta()) {
		if w.cfg.Approval.Marked(name) {
			names = append(names, name)
		}
	}
	for i := range s.files { // of which perhaps only the layout changes
		if f := &s.files[i]; f.written() && w.cfg.Approval.Marked(f.req.Name) {
			names = append(names, f.req.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hold has the change kept if someone has to approve it; nil: it is to be made.
func (w *writer) hold(s *step) error {
	marked := w.marked(s)
	if by := s.files[0].req.Actor; by != nil && by.Approver != "" {
		return s.job.covers(append(marked, s.linked()...))
	}
	if s.approval = marked; marked == nil || s.job.check {
		return nil
	}
	return w.dir.troubles.during(func() error { return w.cfg.Approval.Hold(s.held()) })
}

// linked are the names that change because symlinks lead from them to files that are written or removed,
// by name.
func (s *step) linked() (names []string) {
	for i := range s.files {
		if f := &s.files[i]; !f.write && f.written() {
			names = append(names, f.req.Name)
		}
	}
	slices.Sort(names)
	return names
}

// covers refuses an approved change that by now changes one of these names that no one has approved:
// since it was held, something else may have come to inherit from what it changes, or be marked, or
// another symlink to lead there.
func (j *setJob) covers(names []string) error {
	for _, name := range names {
		if !slices.Contains(j.approved, name) {
			return codes.Errorf(codes.Conflict, "%s would change as well, which no one has approved", shorten(name))
		}
	}
	return nil
}

// held is a change as it is to be made when it is approved. What is to stay as it is, or is as
// requested already, must be so then.
func (s *step) held() *change.Held {
	h := &change.Held{Marked: s.approval, Linked: s.linked(), Actor: s.files[0].req.Actor, Asked: s.job.question()}
	for i := range s.job.reqs { // links to them are looked for again when it is made
		f := &s.files[i]
		d := change.Document{Name: f.req.Name, File: f.data, Keep: !f.write, Base: f.req.Base}
		if d.Base == nil {
			d.Base = new(log.Digest)
			if n := s.plan.Prev.Node(f.req.Name); n.Live() {
				*d.Base = n.Hash()
			}
		}
		h.Documents = append(h.Documents, d)
	}
	return h
}
