package confstore

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
	"confcenter/internal/jsontext"
	"confcenter/kv"
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
	job    *setJob
	text   []byte // compact; nil = delete
	before reading
	result SetResult
	err    error
	out    *outcome            // what it changes; nil: nothing
	write  bool                // the file too
	data   []byte              // its bytes; nil: it is going to be removed, or stays
	mtime  int32               // and its time
	room   int64               // reserved for the document until it is published
	file   *atomicfile.Pending // nil: not made yet, or not needed
}

// serve carries out one request, and with it those that wait behind it.
func (w *writer) serve(first *setJob) { w.carryOut(w.collect(first)) }

func (w *writer) carryOut(jobs []*setJob) {
	for len(jobs) > 0 {
		done, ended := w.group(jobs)
		if !ended {
			w.suspended = &suspension{done, jobs[len(done):]}
			return
		}
		w.answerAll(done)
		jobs = jobs[len(done):]
	}
}

func (w *writer) answerAll(done []setting) {
	for i := range done {
		w.answer(done[i].job, done[i].result, done[i].err)
	}
}

// suspension is what was under way when the log ceased to answer.
type suspension struct {
	sets []setting // whose commit has not ended
	rest []*setJob // behind them
}

// resume goes on when the log answers again; revisions are those of the requests under way that
// took effect, err is why the next did not.
func (w *writer) resume(revisions []kv.Revision, err error) {
	was := w.suspended
	w.suspended = nil
	if was == nil {
		return
	}
	for i := range was.sets {
		was.sets[i].discard() // what took effect is put in place like what is found in the log
	}
	unknown := w.rec.reconcile()
	for i := range was.sets {
		s := &was.sets[i]
		if s.out == nil {
			continue
		}
		switch {
		case len(revisions) == 0:
			s.fail(err)
		case unknown != nil:
			s.fail(codes.Errorf(codes.Timeout, "%s: it was written, but the server's disk does not answer again; read it later", s.job.req.Name))
			revisions = revisions[1:]
		default:
			s.result.Mtime = w.in.node(s.job.req.Name).own.served
			revisions = revisions[1:]
		}
	}
	w.in.retryPlacing()
	w.answerAll(was.sets)
	w.carryOut(was.rest)
}

// collect takes waiting requests that can share a commit. A document occurs in it once,
// because its file is compared with the one before.
func (w *writer) collect(first *setJob) []*setJob {
	jobs, size := []*setJob{first}, len(first.req.Contents)
	for len(jobs) < maxGroup {
		select {
		case job := <-w.next():
			size += len(job.req.Contents)
			if size > maxGroupBytes || slices.ContainsFunc(jobs, func(other *setJob) bool { return other.req.Name == job.req.Name }) {
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
// large; the rest have not been done. ended is false if the log does not answer: then it is not
// known what becomes of those in done.
func (w *writer) group(jobs []*setJob) (done []setting, ended bool) {
	if w.rec.scribe.hangs() {
		return nil, false
	}
	sets := make([]setting, len(jobs))
	for i, job := range jobs {
		sets[i].job = job
		if !job.begin() {
			sets[i].err = errHanging // it was told so
			continue
		}
		sets[i].text, sets[i].err = requestText(job.req, w.cfg.MaxFileBytes)
	}
	defer w.giveBack(sets)
	sets = w.prepare(w.plan(sets))
	if sets, ended = w.commit(sets); !ended {
		return sets, false
	}
	for i := range sets {
		if s := &sets[i]; s.out != nil {
			w.place(s)
			w.publish(s)
		}
	}
	return sets, true
}

// giveBack returns what was reserved: what is published is counted by itself.
func (w *writer) giveBack(sets []setting) {
	for i := range sets {
		w.cfg.Documents.Give(sets[i].room + sets[i].before.room)
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
			s.before = w.in.dir.read(s.job.req.Name, true)
			readings = append(readings, s.before)
			files += len(s.before.data)
		}
		if files > maxGroupFiles {
			sets = sets[:i+1]
		}
	}
	w.in.takeEdits(readings)
	p, more := w.rec.planner(), 0
	for i, files := 0, 0; i < len(sets); i++ {
		s := &sets[i]
		if s.err != nil {
			continue
		}
		if s.err = w.judge(p, s, more); s.out != nil {
			p.prev = s.out.next
			if s.data != nil && s.before.missing {
				more++
			}
		}
		if files += len(s.data); files > maxGroupFiles {
			sets = sets[:i+1]
		}
	}
	return sets
}

// writable returns why nothing can be written at all; nil if something can.
func (w *writer) writable() error {
	if err := w.rec.refusal(); err != nil {
		return err
	}
	if !w.in.dir.present() && !w.in.rewatch() {
		return errDirGone
	}
	return nil
}

// judge works out the result of one request.
func (w *writer) judge(p planner, s *setting, more int) error {
	req := s.job.req
	v, err := p.judge(req, s.text, s.before, w.in.full(req.Name, more))
	s.result.Mtime = v.mtime
	if err != nil {
		return err
	}
	s.result.Deleted = s.text == nil
	if v.nothing {
		return nil
	}
	s.write, s.mtime = v.write, v.fileTime
	switch {
	case !v.write || s.text == nil:
	case req.Exact:
		s.data = req.Contents
	default:
		s.data = w.in.dir.fileText(v.edit.text, s.before)
	}
	v.edit.file, v.edit.hash, v.edit.replaces = s.before.data, s.before.raw, s.before.raw
	if v.write {
		v.edit.file, v.edit.hash = s.data, doclog.Digest{}
		if s.data != nil {
			v.edit.hash = doclog.DigestOf(s.data)
		}
	}
	pl, err := p.plan([]edit{v.edit}, false)
	if err != nil {
		return codes.Errorf(codes.BadRequest, "%w", err)
	}
	if err := w.reserve(s, p.prev.Node(req.Name), pl.docs[0]); err != nil {
		return err
	}
	s.out, s.result.Mtime = pl.apply(&w.rec.limits), pl.docs[0].served
	return nil
}

// prepare makes the temporary files. File systems flush several at once about as fast as one.
// If one cannot be made, the result ends with it: the rest, which were planned on top of it,
// are not done.
func (w *writer) prepare(sets []setting) []setting {
	var files []*setting
	for i := range sets {
		if s := &sets[i]; s.out != nil && s.data != nil {
			files = append(files, s)
		}
	}
	each(len(files), maxFlushes, func(i int) {
		s := files[i]
		s.file, s.err = w.in.dir.prepare(s.job.req.Name, s.data, s.mtime, s.before)
	})
	for i := range sets {
		s := &sets[i]
		if s.out == nil || s.err == nil {
			continue
		}
		for j := range sets[i+1:] {
			sets[i+1+j].discard()
		}
		s.fail(storageError(s.job.req.Name, "write", s.err))
		return sets[:i+1]
	}
	return sets
}

// discard removes the temporary file of a request that is going to be planned again.
func (s *setting) discard() {
	if s.file != nil {
		_ = s.file.Discard() // a start removes what is left
	}
}

// commit makes the versions durable, each under a revision of its own. The result ends with those
// of which it is known what became of them. It is false if the log does not answer.
func (w *writer) commit(sets []setting) (done []setting, ended bool) {
	var list []doclog.Change
	for i := range sets {
		if s := &sets[i]; s.out != nil {
			list = append(list, s.out.plan.change())
		}
	}
	if len(list) == 0 {
		return sets, true
	}
	revisions, err := w.rec.commit(list...)
	if errors.Is(err, errHanging) {
		return sets, false
	}
	for i := range sets {
		s := &sets[i]
		switch {
		case s.out == nil:
		case len(revisions) > 0:
			s.out.plan.recorded(revisions[0])
			revisions = revisions[1:]
		case i > 0 && codes.Of(err) == codes.Conflict: // something else came first: plan again
			for j := range sets[i:] {
				sets[i+j].discard()
			}
			return sets[:i], true
		default:
			s.fail(err)
		}
	}
	return sets, true
}

// fail gives up a request that is not carried out.
func (s *setting) fail(err error) {
	if s.file != nil {
		err = errors.Join(err, s.file.Discard())
	}
	if n := s.out.plan.prev.Node(s.job.req.Name); n.known() {
		s.result.Mtime = n.own.served
	}
	s.out, s.err = nil, err
}

// place puts the file in place: the one step that readers of the directory see. If that fails the
// version stands, and is tried again.
func (w *writer) place(s *setting) {
	if !s.write {
		return
	}
	name, doc := s.job.req.Name, s.out.plan.docs[0]
	v := doclog.Version{Name: name, Revision: doc.revision, Deleted: doc.deleted, Given: s.mtime, Hash: doc.hash, Replaces: s.before.raw, File: s.data}
	w.in.placer.place(&owedFile{v, s.file}, s.before)
}

func (w *writer) publish(s *setting) {
	name := s.job.req.Name
	if s.write {
		w.in.placed(name, s.text != nil)
	}
	w.rec.carryOut(s.out, false)
}

// storageError is a disk error in a form that may be shown to a writer: without paths of this
// machine.
func storageError(name, verb string, err error) error {
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
	return &codes.Error{Code: codes.Storage, Text: fmt.Sprintf("%s: cannot %s in the configuration directory: %s", name, verb, reason), Err: err}
}
