package confstore

import (
	"slices"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/doclog"
)

// marked are the documents because of which a change needs another person's approval, by name. They
// include those that only inherit from what it changes, because they are served again as well, and
// those that it takes away from a program whose main configurations they are.
func (w *writer) marked(s *step) (names []string) {
	by := s.files[0].req.Actor
	if s.files[0].req.resealed || w.cfg.Approval == nil || by == nil || by.Identity == nil {
		return nil
	}
	for _, c := range s.plan.changes {
		if w.cfg.Approval.Marked(c.Name) {
			names = append(names, c.Name)
		}
	}
	for _, name := range s.plan.prev.rules.meta.TakenAway(s.plan.rules.meta) {
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
			d.Base = new(doclog.Digest)
			if n := s.plan.prev.Node(f.req.Name); n.live() {
				*d.Base = n.own.hash
			}
		}
		h.Documents = append(h.Documents, d)
	}
	return h
}
