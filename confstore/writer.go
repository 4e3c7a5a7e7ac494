package confstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/confstore/revisions"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/internal/parallel"
	"confcenter/kv"
	"confcenter/meta"
)

// writer is the one way of every change, no matter who made it. Only the store's goroutine uses it.
type writer struct {
	// set at open
	*publisher
	cfg    *Config
	dir    *directory
	in     *intake
	queue  *queue
	placer placer
	data   atomicfile.Root
	log    *log.Log

	// store's goroutine only
	known   kv.Revision        // all versions through it are served, or were
	unsaved map[string]*log.By // who made versions that the log does not have; nil: only the list of bases is missing
	pause   time.Duration      // between the last two attempts to write the log, which grows while they fail
	next    time.Time          // no attempt before this
	fault   error              // why nothing is accepted until a restart; nil: no reason
}

// step is one change on its way: a request, or edits that were found on disk.
type step struct {
	job   *setJob // nil: it was found on disk
	files []fileSetting
	err   error
	plan  *snapshot.Plan // what it changes, applied; nil: nothing

	// of a change with a token
	asked log.Digest
	made  *log.Made // when it was asked for before

	approval []string // the documents because of which someone has to approve
}

// happens reports whether the step changes anything: it is neither refused nor only to be checked.
func (s *step) happens() bool { return s.plan != nil && (s.job == nil || !s.job.check) }

// recall makes the state of the last run the one with which edits since are compared.
func (w *writer) recall(now *snapshot.Snapshot) {
	for _, name := range now.Names() {
		w.cfg.Documents.Add(now.Node(name).Cost())
		w.known = max(w.known, now.Node(name).Revision(false))
	}
	w.snapshot.Store(now)
	w.caughtUp(w.known)
}

// serve carries out one request, and with it those that wait behind it.
func (w *writer) serve(first *setJob) {
	for jobs := w.collect(first); len(jobs) > 0; {
		done := w.group(jobs)
		for i := range done {
			w.queue.answer(done[i].job, &done[i], done[i].err)
		}
		jobs = jobs[len(done):]
	}
}

// group carries out requests together. It stops after the first whose file cannot be made, or after the
// one with which the group has become too large; the rest have not been done.
func (w *writer) group(jobs []*setJob) (done []step) {
	steps := make([]step, len(jobs))
	for i, job := range jobs {
		steps[i].begin(job, w.cfg.MaxFileBytes, w.cfg.Ring())
	}
	defer w.giveBack(steps)
	return w.carryOut(w.plan(steps))
}

// found carries out edits that were found on disk, as one step.
func (w *writer) found(edits []snapshot.Edit) {
	if len(edits) > 0 {
		w.takeIn(edits)
	}
	if w.in.faulted {
		w.checkMeta()
	}
}

func (w *writer) takeIn(edits []snapshot.Edit) {
	p, err := w.planner().Plan(edits, false)
	if err != nil {
		// _meta.json was checked when it was read; if it fails here, serve as before.
		w.dir.problems.Set(OfFile, meta.FileName, err.Error())
		return
	}
	for _, name := range p.AtTheEnd() {
		w.dir.problems.Set(OfFile, name, "has changed, but its version is at the end of all versions, so that clients do not fetch it; "+wayOut)
	}
	w.carryOut([]step{{plan: p}})
}

func (w *writer) planner() planner {
	return planner{snapshot.Planner{Prev: w.snapshot.Load(), Now: w.cfg.Clock.Now(), Limits: w.limits, Fault: w.publisher.fault}}
}

// carryOut carries out what is planned, whether it was asked for or found on disk, in the order that
// loses nothing: new files are complete beside the old ones, versions durable in the log, files
// renamed into place, and only then are the versions published, before anything that can wait. The
// result ends with the step after which the others have to be planned again.
func (w *writer) carryOut(steps []step) []step {
	steps = w.remember(w.prepare(steps))
	var placed []place.File
	overtaken := false
	for i := range steps {
		if s := &steps[i]; s.happens() {
			files, edited := w.place(s)
			placed, overtaken = append(placed, files...), overtaken || edited
			w.publish(s.plan)
		}
	}
	w.placer.inPlace(placed...)
	if len(steps) > 0 && steps[0].job == nil {
		w.commits.Find(placed...)
	}
	if overtaken {
		w.in.retryPlacing()
	}
	return steps
}

// prepare makes the temporary files of requests. File systems flush several at once about as fast as
// one. If one cannot be made, the result ends with its request: the rest were planned on top of it.
func (w *writer) prepare(steps []step) []step {
	var files []*fileSetting
	for i := range steps {
		for k := range steps[i].files {
			if f := &steps[i].files[k]; steps[i].happens() && f.write && f.data != nil {
				files = append(files, f)
			}
		}
	}
	parallel.Each(len(files), maxFlushes, func(i int) {
		f := files[i]
		if f.file, f.err = w.dir.prepare(f.req.Name, f.data, f.mtime, f.before); f.err != nil {
			f.err = storageError(f.req.Name, "cannot write in the configuration directory", f.err)
		}
		w.queue.moved.Store(w.cfg.Clock.Now().UnixNano())
	})
	for i := range steps {
		s := &steps[i]
		if s.plan == nil || s.job == nil {
			continue
		}
		if err := s.refusal(); err != nil {
			cutOff(steps, i+1)
			s.fail(err)
			return steps[:i+1]
		}
	}
	return steps
}

// cutOff are the first n steps. The others are planned again.
func cutOff(steps []step, n int) []step {
	for i := range steps[n:] {
		steps[n+i].discard()
	}
	return steps[:n]
}

// remember makes the versions durable, each step under a revision of its own. The result ends with
// those of which it is known what became of them. What was found on disk is served in any case: the
// files are the truth, and a later commit catches up.
func (w *writer) remember(steps []step) []step {
	var list []log.Change
	full := w.cfg.State.Trouble() != nil
	for i := range steps {
		s := &steps[i]
		if !s.happens() {
			continue
		}
		lessens := full && s.job != nil && w.lessens(s.plan)
		if lessens && len(list) > 0 { // those before it may not be taken, and it must not hang on them
			return w.remember(cutOff(steps, i))
		}
		list = append(list, s.change(lessens))
		if lessens {
			steps = cutOff(steps, i+1)
			break
		}
	}
	if len(list) == 0 {
		return steps
	}
	revisions, err := w.commit(list...)
	for i := range steps {
		s := &steps[i]
		switch {
		case !s.happens():
		case len(revisions) > 0:
			s.plan.Recorded(revisions[0])
			revisions = revisions[1:]
		case s.job == nil && err != nil:
			w.miss(s.plan)
		case s.job == nil: // there was nothing to remember
		case i > 0 && codes.Of(err) == codes.Conflict: // something else came first: plan again
			return cutOff(steps, i)
		default:
			s.fail(err)
		}
	}
	return steps
}

// change is the step as the log has it.
func (s *step) change(lessens bool) log.Change {
	c := s.plan.Change()
	if c.Lessens = lessens; s.job == nil {
		return c
	}
	by := s.job.reqs[0].Actor
	if c.Asked, c.Who = s.asked, by.Who(); by != nil {
		c.Source = by.Source
	}
	return c
}

// lessens reports whether all that a change does is to take rights away.
func (w *writer) lessens(p *snapshot.Plan) bool {
	return !slices.ContainsFunc(p.Edits, func(e snapshot.Edit) bool { return !w.cfg.Lessens(e.Name, p.Prev.Node(e.Name).Text(), e.Text) })
}

// commit makes changes durable, behind what the log missed while it could not be written. It waits
// as long as the disk takes. It returns the revisions of those that are durable, and why the next is
// not. Of one that failed midway no one knows before a restart, so nothing more is tried.
func (w *writer) commit(list ...log.Change) (revisions []kv.Revision, err error) {
	if w.fault != nil {
		return nil, w.fault
	}
	missed, names := w.missed()
	switch {
	case len(list) == 1 && list[0].Lessens && !isAbout(&list[0], names):
		names = nil // that may find no space; it comes later
	case len(names) > 0:
		list = append([]log.Change{missed}, list...)
	}
	if len(list) == 0 || len(list) == 1 && list[0].Empty() {
		w.ended(w.dir.troubles.stillFailed())
		return nil, nil
	}
	err = w.dir.troubles.during(func() (err error) {
		revisions, err = w.log.Commit(context.Background(), list)
		return err
	})
	if len(revisions) > 0 {
		w.known = max(w.known, revisions[len(revisions)-1])
		if len(names) > 0 {
			w.saved(names, revisions[0])
			revisions = revisions[1:]
		}
	}
	if code := codes.Of(err); err != nil && (code == codes.Timeout || code == codes.Conflict) {
		w.fault = codes.Errorf(codes.Storage, "the configuration store takes no changes until a restart, because a write has failed midway: %w", err)
	}
	w.ended(err)
	return revisions, err
}

// isAbout reports whether a change is about one of these documents.
func isAbout(c *log.Change, names []string) bool {
	return slices.ContainsFunc(c.Versions, func(v log.Version) bool { return slices.Contains(names, v.Name) })
}

// miss notes what is served and not in the log.
func (w *writer) miss(p *snapshot.Plan) {
	for _, e := range p.Edits {
		by := log.ByOf(e.Actor, p.Now)
		w.unsaved[e.Name] = &by
	}
	for _, l := range p.Lists {
		w.unsaved[l.Name] = w.unsaved[l.Name] // nil, unless it misses the version, too
	}
}

// missed is a change that brings the log up to what is served, of these names.
func (w *writer) missed() (c log.Change, names []string) {
	c = log.Change{Seq: w.snapshot.Load().Seq(), By: log.ByOf(onDisk, w.cfg.Clock.Now())}
	for name, by := range w.unsaved {
		if n := w.snapshot.Load().Node(name); n.Known() {
			if by != nil {
				v := n.Remembered(w.placer.bytesOf(n))
				v.By = by
				c.Versions = append(c.Versions, v)
				snapshot.NoteDocument(&c.Note, &access.Actor{Author: by.Author, Origin: by.Origin, Address: by.Peer}, name, v.Deleted)
			}
			if list, listed := n.List(); listed {
				c.Lists = append(c.Lists, list)
			}
			names = append(names, name)
		}
	}
	c.Sign()
	return c, names
}

// saved takes note of documents that the log has by now.
func (w *writer) saved(names []string, rev kv.Revision) {
	now := w.snapshot.Load()
	var placed []place.File
	for _, name := range names {
		if n := now.Node(name); n.Known() && w.unsaved[name] != nil {
			placed = append(placed, place.File{Name: name, Revision: rev})
			n.Recorded(rev)
		}
		delete(w.unsaved, name)
	}
	w.placer.inPlace(placed...)
	w.caughtUp(rev)
	w.commits.Find(placed...)
}

// caughtUp notes that the snapshot is what the log has up to a revision, after changes that did
// not come through publish one by one.
func (w *writer) caughtUp(rev kv.Revision) {
	w.logged(revisions.Step{Exact: &revisions.Exact{Snapshot: w.snapshot.Load(), Revision: rev}, Gap: true})
}

// retry has the log remember what it missed, if it is time.
func (w *writer) retry() {
	t := w.dir.troubles
	if w.fault == nil && (!w.cfg.Clock.Now().Before(w.next) || t.over()) && (t.writing.Load() != nil || len(w.unsaved) > 0) {
		_, _ = w.commit() // noted
	}
}

// maxPause is the longest time between attempts to write the log.
const maxPause = 30 * time.Second

// ended takes note of how the last attempt to write the log ended. One that was made before its
// time, because of a request, does not put off the next.
func (w *writer) ended(err error) {
	switch now := w.cfg.Clock.Now(); {
	case err == nil:
		w.pause = 0
	case !now.Before(w.next):
		w.pause = min(max(w.cfg.RetryPeriod, 2*w.pause), maxPause)
		w.next = now.Add(w.pause)
	}
	err = cmp.Or(err, w.fault)
	w.dir.troubles.ofLog(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.dir.problems.Set(OfLog, "log", text)
}

// stop refuses all writes until a restart.
func (w *writer) stop(why error) {
	w.fault = why
	w.ended(nil)
}

// place puts the files of a step in place: what readers of the directory see. If that fails the
// versions stand, and it is tried again. A file that was changed meanwhile is an edit that comes after
// them: edited.
func (w *writer) place(s *step) (placed []place.File, edited bool) {
	if s.job == nil { // they are there
		for i := range s.plan.Edits {
			if e := &s.plan.Edits[i]; s.plan.Revision > 0 {
				placed = append(placed, place.File{Name: e.Name, Revision: s.plan.Revision, State: e.State})
			}
		}
		return placed, false
	}
	owed := make([]*owedFile, 0, len(s.files))
	for i := range s.files {
		f := &s.files[i]
		if !f.written() {
			continue
		}
		name := f.req.Name
		n := s.plan.Next.Node(name)
		v := log.Version{Name: name, Revision: n.Revision(false), Deleted: n.Deleted(), Given: f.mtime, Hash: n.Hash(), Replaces: f.before.raw, File: f.data}
		o := &owedFile{version: v, before: f.before, pending: f.file}
		if f.leads > 0 {
			o.with = s.files[f.leads-1].req.Name
		}
		owed = append(owed, o)
	}
	placed, edited = w.placer.place(owed...)
	for _, o := range owed {
		w.in.placed(o.version.Name, !o.version.Deleted)
	}
	return placed, edited
}

// publish serves a plan.
func (w *writer) publish(p *snapshot.Plan) {
	for _, e := range p.Edits {
		w.cfg.Documents.Add(p.Next.Node(e.Name).Cost() - p.Prev.Node(e.Name).Cost())
	}
	w.publisher.publish(p)
	if p.AffectsMeta() {
		w.checkMeta()
	}
}

// checkMeta reports what is wrong with _meta.json, given the documents that exist.
func (w *writer) checkMeta() {
	w.in.faulted = false
	var list []health.Problem
	for _, p := range w.snapshot.Load().MetaProblems(func(name string) string {
		if broken := w.neverGood([]byte(name)); broken != nil {
			return broken.Says()
		}
		return ""
	}) {
		list = append(list, health.Problem{Name: p.Name, Text: p.Text})
	}
	w.dir.problems.Replace(OfMeta, list)
}
