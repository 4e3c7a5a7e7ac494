package confstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"

	"confcenter/access/seal"
	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
	"confcenter/internal/jsontext"
)

// Limits of a group of requests.
const (
	maxGroup      = 64
	maxGroupBytes = 4 << 20  // of contents
	maxGroupFiles = 16 << 20 // of files that it reads and writes
	maxFlushes    = 16       // files and directories flushed at once
)

// ownLayout is that of files that have none yet, as CppCloud writes them.
var ownLayout = jsontext.Layout{Newline: "\n", Indent: "    ", End: "\n"}

// setting is one request on its way.
type setting struct {
	job   *setJob
	files []fileSetting
	err   error
	out   *outcome // what it changes; nil: nothing

	// of a change with a token
	asked doclog.Digest
	made  *doclog.Made // when it was asked for before

	approval []string // the documents because of which someone has to approve

	one [1]fileSetting // the array of files of a Set
}

// fileSetting is one document of a request.
type fileSetting struct {
	req    *SetRequest
	text   []byte // compact; nil = delete
	before reading
	broken *Broken // what is wrong with the file that is there
	result SetResult
	err    error
	edited bool                // it is among the edits of the plan
	write  bool                // the file too
	data   []byte              // its bytes; nil: it is going to be removed, or stays
	mtime  int32               // and its time
	room   int64               // reserved for the document until it is published
	file   *atomicfile.Pending // nil: not made yet, or not needed
	leads  int                 // the one, counted from 1, whose file this is another name of; 0: it is a file of its own
}

// serve carries out one request, and with it those that wait behind it.
func (w *writer) serve(first *setJob) { w.carryOut(w.collect(first)) }

// errLate is the result of a request that was answered because it took too long.
var errLate = codes.Errorf(codes.Storage, "the request was answered before its turn came")

func (w *writer) carryOut(jobs []*setJob) {
	for len(jobs) > 0 {
		done := w.group(jobs)
		for i := range done {
			w.answer(done[i].job, &done[i], done[i].err)
		}
		jobs = jobs[len(done):]
	}
}

// tell says what is served now.
func (f *fileSetting) tell(now *Snapshot) {
	if n := now.Node(f.req.Name); n.known() {
		f.result.Mtime = n.own.served
	}
}

// collect takes waiting requests that can share a commit. A change of several is alone.
func (w *writer) collect(first *setJob) []*setJob {
	jobs, size := []*setJob{first}, first.size
	for len(jobs) < maxGroup && first.changed == nil && !w.alone(first) {
		select {
		case job := <-w.next():
			size += job.size
			if job.changed != nil || size > maxGroupBytes || slices.ContainsFunc(jobs, job.meets) || w.alone(job) {
				w.held <- job
				return jobs
			}
			jobs = append(jobs, job)
		default:
			return jobs
		}
	}
	return jobs
}

// group carries jobs out in the order that loses nothing: the new files complete beside the old
// ones, the versions durable in the log, the renames, and only then the publications. It stops
// after the first job whose file cannot be made, or after the one with which it has become too
// large; the rest have not been done.
func (w *writer) group(jobs []*setJob) (done []setting) {
	sets := make([]setting, len(jobs))
	for i, job := range jobs {
		sets[i].begin(job, w.cfg.MaxFileBytes, w.cfg.Ring())
	}
	defer w.giveBack(sets)
	sets = w.commit(w.prepare(w.plan(sets)))
	overtaken := false
	for i := range sets {
		if s := &sets[i]; s.out != nil && !s.job.check {
			overtaken = w.place(s) || overtaken
			w.publish(s)
		}
	}
	if overtaken {
		w.in.retryPlacing()
	}
	return sets
}

// begin reads what a request asks for.
func (s *setting) begin(job *setJob, limit int64, ring *seal.Ring) {
	s.job, s.files = job, s.one[:]
	if len(job.reqs) != 1 {
		s.files = make([]fileSetting, len(job.reqs))
	}
	for i := range job.reqs {
		s.files[i].req = &job.reqs[i]
	}
	if !job.begin() {
		s.err = errLate
		return
	}
	job.conceal(ring)
	for i := range s.files {
		f := &s.files[i]
		f.text, f.err = requestText(f.req, limit, ring)
	}
	if job.changed == nil {
		s.err = s.files[0].err
	}
}

// giveBack returns what was reserved: what is published is counted by itself.
func (w *writer) giveBack(sets []setting) {
	for i := range sets {
		for k := range sets[i].files {
			f := &sets[i].files[k]
			w.cfg.Documents.Give(f.room + f.before.room)
		}
	}
}

// plan reads the files, takes in their unseen edits and works out the result of each request,
// based on those before it.
func (w *writer) plan(sets []setting) []setting {
	readings := make([]reading, 0, len(sets))
	for i, files := 0, 0; i < len(sets); i++ {
		s := &sets[i]
		if s.err == nil && len(readings) == 0 {
			s.err = w.writable()
		}
		if s.err == nil {
			s.err = w.replayed(s)
		}
		if s.err == nil && s.made == nil {
			s.err = w.follow(s)
		}
		if s.err == nil && s.made == nil {
			files += w.read(s)
			for k := range s.files {
				readings = append(readings, s.files[k].before)
			}
		}
		if files > maxGroupFiles {
			sets = sets[:i+1]
		}
	}
	w.in.takeEdits(readings)
	p, more := w.rec.planner(), 0
	for i, files := 0, 0; i < len(sets); i++ {
		s := &sets[i]
		if s.err != nil || s.made != nil {
			continue
		}
		if s.err = w.overtaken(s.job); s.err != nil {
			continue
		}
		if s.err = w.judge(p, s, &more); s.out != nil {
			p.prev = s.out.next
		}
		for k := range s.files {
			files += len(s.files[k].data)
		}
		if files > maxGroupFiles {
			sets = sets[:i+1]
		}
	}
	return sets
}

// read reads the files of a request as they are, and returns how long those are that are kept:
// the layout of a new file is taken from the old one.
func (w *writer) read(s *setting) (size int) {
	keep := s.job.changed == nil
	each(len(s.files), maxFlushes, func(i int) { s.files[i].before = w.in.dir.read(s.files[i].req.Name, keep && i == 0) })
	for i := range s.files {
		size += len(s.files[i].before.data)
	}
	return size
}

// writable returns why nothing can be written at all; nil if something can.
func (w *writer) writable() error {
	if w.rec.fault != nil {
		return w.rec.fault
	}
	if !w.in.dir.present() && !w.in.rewatch() {
		return errDirGone
	}
	return nil
}

// judge works out the result of one request. more counts the names that are new.
func (w *writer) judge(p planner, s *setting, more *int) error {
	edits := make([]edit, len(s.files))
	for _, links := range [...]bool{false, true} {
		for i := range s.files {
			f := &s.files[i]
			if f.leads > 0 != links {
				continue
			}
			var err error
			if !links {
				edits[i], err = w.judgeFile(p, f, *more)
				f.err = cmp.Or(f.err, err)
			} else if file := &s.files[f.leads-1]; file.err == nil {
				edits[i], file.err = w.judgeLink(p, f, file, edits[f.leads-1], *more)
			}
			if f.edited && f.data != nil && f.before.missing {
				*more++
			}
		}
	}
	edits = slices.DeleteFunc(edits, func(e edit) bool { return e.name == "" })
	if err := s.refusal(); err != nil || len(edits) == 0 {
		return err
	}
	pl, err := p.plan(edits, false)
	if err != nil {
		return codes.Errorf(codes.BadRequest, "%w", err)
	}
	for i := range s.files {
		f := &s.files[i]
		doc := pl.doc(f.req.Name)
		if doc == nil {
			continue
		}
		if err := w.reserve(f, p.prev.Node(f.req.Name), doc); err != nil {
			return err
		}
		f.result.Mtime = doc.served
	}
	s.out = pl.apply(&w.rec.limits)
	err = w.hold(s)
	if err == nil && !s.job.check {
		err = w.keepAside(s)
	}
	if err != nil {
		s.fail(err)
	}
	return err
}

// judgeFile works out what becomes of one document.
func (w *writer) judgeFile(p planner, f *fileSetting, more int) (ed edit, err error) {
	req := f.req
	file := w.in.placer.meant(f.before)
	f.broken = file.broken(p.prev.Node(req.Name))
	v, err := p.judge(req, f.text, file, w.in.full(req.Name, more))
	f.result.Mtime = v.mtime
	if err != nil || f.err != nil || req.keep {
		return ed, err
	}
	f.result.Deleted = f.text == nil
	if v.nothing {
		return ed, nil
	}
	if v.write && req.Actor.Proved() != nil && linked(w.in.dir.root, path.Dir(req.Name)) { // what was asked is another name's right
		return ed, codes.Errorf(codes.Forbidden, "%q is in a directory that a symlink leads to; nothing was changed: name the file as it is where that leads", shorten(req.Name))
	}
	if !v.edit.quiet {
		if err := w.cfg.Check(req.Name, p.prev.Node(req.Name).liveText(), f.text, req.Actor); err != nil {
			return ed, err
		}
	}
	f.edited, f.write, f.mtime = true, v.write, v.fileTime
	switch {
	case !v.write || f.text == nil:
	case req.Exact:
		f.data = bytes.Clone(req.Contents) // the log keeps it, and the request is the writer's again once it is done
	default:
		f.data = w.in.dir.fileText(v.edit.text, f.before)
	}
	v.edit.file, v.edit.hash, v.edit.replaces = f.before.data, f.before.raw, f.before.raw
	if v.write {
		v.edit.file, v.edit.hash = f.data, doclog.Digest{}
		if f.data != nil {
			v.edit.hash = doclog.DigestOf(f.data)
		}
	}
	return v.edit, nil
}

// prepare makes the temporary files. File systems flush several at once about as fast as one.
// If one cannot be made, the result ends with its request: the rest, which were planned on top of
// it, are not done.
func (w *writer) prepare(sets []setting) []setting {
	var files []*fileSetting
	for i := range sets {
		s := &sets[i]
		if s.out == nil || s.job.check {
			continue
		}
		for k := range s.files {
			if f := &s.files[k]; f.write && f.data != nil {
				files = append(files, f)
			}
		}
	}
	each(len(files), maxFlushes, func(i int) {
		f := files[i]
		if f.file, f.err = w.in.dir.prepare(f.req.Name, f.data, f.mtime, f.before); f.err != nil {
			f.err = storageError(f.req.Name, "cannot write in the configuration directory", f.err)
		}
		w.moved.Store(w.cfg.Clock.Now().UnixNano())
	})
	for i := range sets {
		s := &sets[i]
		err := error(nil)
		if s.out != nil {
			err = s.refusal()
		}
		if err == nil {
			continue
		}
		for j := range sets[i+1:] {
			sets[i+1+j].discard()
		}
		s.fail(err)
		return sets[:i+1]
	}
	return sets
}

// written reports whether the document's file is another one now, by whichever name it was written.
func (f *fileSetting) written() bool { return f.write || f.leads > 0 && f.edited }

// discard removes the temporary files of a request that is going to be planned again.
func (s *setting) discard() {
	for i := range s.files {
		if f := &s.files[i]; f.file != nil {
			_ = f.file.Discard() // a start removes what is left
		}
	}
}

// commit makes the versions durable, each request under a revision of its own. The result ends with
// those of which it is known what became of them.
func (w *writer) commit(sets []setting) (done []setting) {
	var list []doclog.Change
	full := w.cfg.State.Trouble() != nil
	for i := range sets {
		if s := &sets[i]; s.out != nil && !s.job.check {
			lessens := full && w.lessens(s.out.plan)
			if lessens && len(list) > 0 { // those before it may not be taken, and it must not hang on them
				return w.commit(cutOff(sets, i))
			}
			c := s.out.plan.change()
			c.Lessens = lessens
			by := s.job.reqs[0].Actor
			if c.Asked, c.Who = s.asked, by.Who(); by != nil {
				c.Source = by.Source
			}
			list = append(list, c)
			if lessens {
				sets = cutOff(sets, i+1)
				break
			}
		}
	}
	if len(list) == 0 {
		return sets
	}
	revisions, err := w.rec.commit(list...)
	for i := range sets {
		s := &sets[i]
		switch {
		case s.out == nil:
		case len(revisions) > 0:
			s.out.plan.recorded(revisions[0])
			revisions = revisions[1:]
		case i > 0 && codes.Of(err) == codes.Conflict: // something else came first: plan again
			return cutOff(sets, i)
		default:
			s.fail(err)
		}
	}
	return sets
}

// cutOff are the first n requests. The others are planned again.
func cutOff(sets []setting, n int) []setting {
	for i := range sets[n:] {
		sets[n+i].discard()
	}
	return sets[:n]
}

// lessens reports whether all that a change does is to take rights away.
func (w *writer) lessens(p *plan) bool {
	return !slices.ContainsFunc(p.edits, func(e edit) bool { return !w.cfg.Lessens(e.name, p.prev.Node(e.name).liveText(), e.text) })
}

// fail gives up a request that is not carried out.
func (s *setting) fail(err error) {
	s.discard()
	for i := range s.files {
		s.files[i].tell(s.out.plan.prev)
	}
	s.out, s.err = nil, err
}

// place puts the files in place: the one step that readers of the directory see. If that fails the
// versions stand, and it is tried again. A file that was changed meanwhile is an edit that comes
// after them: overtaken.
func (w *writer) place(s *setting) (overtaken bool) {
	owed, before := make([]*owedFile, 0, len(s.files)), make([]reading, 0, len(s.files))
	for i := range s.files {
		f := &s.files[i]
		if !f.written() {
			continue
		}
		name := f.req.Name
		doc := s.out.plan.doc(name)
		v := doclog.Version{Name: name, Revision: doc.revision(), Deleted: doc.deleted, Given: f.mtime, Hash: doc.hash, Replaces: f.before.raw, File: f.data}
		o := &owedFile{version: v, pending: f.file}
		if f.leads > 0 {
			o.with = s.files[f.leads-1].req.Name
		}
		owed, before = append(owed, o), append(before, f.before)
	}
	return w.in.placer.place(owed, before)
}

func (w *writer) publish(s *setting) {
	for i := range s.files {
		if f := &s.files[i]; f.written() {
			w.in.placed(f.req.Name, f.text != nil)
		}
	}
	w.rec.carryOut(s.out, false)
}

// storageError is a disk error in a form that may be shown to a writer: without paths of this
// machine.
func storageError(name, what string, err error) error {
	reason := cause(err)
	var errno syscall.Errno
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, atomicfile.ErrNotDirectory):
		return &codes.Error{Code: codes.BadName, Text: fmt.Sprintf("%q lies below a file; choose another name", name), Err: err}
	case errors.Is(err, syscall.ENOSPC):
		reason = "the disk is full; free space and write again"
	case atomicfile.IsReadOnly(err) && errors.As(err, &errno):
		reason = errno.Error() + "; make the configuration directory writable, or edit the file there"
	case errors.As(err, &errno):
		reason = errno.Error()
	}
	return &codes.Error{Code: codes.Storage, Text: fmt.Sprintf("%s: %s: %s", name, what, reason), Err: err}
}
