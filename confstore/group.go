package confstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"

	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/jsontext"
	"confcenter/internal/parallel"
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

// errLate is the result of a request that was answered because it took too long.
var errLate = codes.Errorf(codes.Storage, "the request was answered before its turn came")

// result is that of a Set.
func (s *step) result() SetResult {
	if len(s.files) == 0 {
		return SetResult{} // nothing was tried
	}
	return s.files[0].result
}

// tell says what is served now.
func (f *fileSetting) tell(now *snapshot.Snapshot) {
	if n := now.Node(f.req.Name); n.Known() {
		f.result.Mtime = n.Mtime(false)
	}
}

// collect takes waiting requests that can share a commit. A change of several is alone.
func (w *writer) collect(first *setJob) []*setJob {
	jobs, size := []*setJob{first}, first.size
	for len(jobs) < maxGroup && !first.several && !w.alone(first) {
		select {
		case job := <-w.queue.next():
			size += job.size
			if job.several || size > maxGroupBytes || slices.ContainsFunc(jobs, job.meets) || w.alone(job) {
				w.queue.held <- job
				return jobs
			}
			jobs = append(jobs, job)
		default:
			return jobs
		}
	}
	return jobs
}

// begin reads what a request asks for.
func (s *step) begin(job *setJob, limit int64, ring *secret.Ring) {
	s.job, s.files = job, make([]fileSetting, len(job.reqs))
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
	if !job.several {
		s.err = s.files[0].err
	}
}

// giveBack returns what was reserved: what is published is counted by itself.
func (w *writer) giveBack(steps []step) {
	for i := range steps {
		for k := range steps[i].files {
			f := &steps[i].files[k]
			w.cfg.Documents.Give(f.room + f.before.room)
		}
	}
}

// plan reads the files, takes in their unseen edits and works out the result of each request,
// based on those before it.
func (w *writer) plan(steps []step) []step {
	readings := make([]reading, 0, len(steps))
	for i, files := 0, 0; i < len(steps); i++ {
		s := &steps[i]
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
			steps = steps[:i+1]
		}
	}
	w.in.takeEdits(readings)
	p, more := w.planner(), 0
	for i, files := 0, 0; i < len(steps); i++ {
		s := &steps[i]
		if s.err != nil || s.made != nil {
			continue
		}
		if s.err = w.overtaken(s.job); s.err != nil {
			continue
		}
		if s.err = w.judge(p, s, &more); s.plan != nil {
			p.Prev = s.plan.Next
		}
		for k := range s.files {
			files += len(s.files[k].data)
		}
		if files > maxGroupFiles {
			steps = steps[:i+1]
		}
	}
	return steps
}

// read reads the files of a request as they are, and returns how long those are that are kept:
// the layout of a new file is taken from the old one.
func (w *writer) read(s *step) (size int) {
	keep := !s.job.several
	parallel.Each(len(s.files), maxFlushes, func(i int) { s.files[i].before = w.dir.read(s.files[i].req.Name, keep && i == 0) })
	for i := range s.files {
		size += len(s.files[i].before.data)
	}
	return size
}

// writable returns why nothing can be written at all; nil if something can.
func (w *writer) writable() error {
	if w.fault != nil {
		return w.fault
	}
	if !w.dir.present() && w.in.rewatch() == nil {
		return errDirGone
	}
	return nil
}

// judge works out the result of one request. more counts the names that are new.
func (w *writer) judge(p planner, s *step, more *int) error {
	edits := make([]snapshot.Edit, len(s.files))
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
	edits = slices.DeleteFunc(edits, func(e snapshot.Edit) bool { return e.Name == "" })
	if err := s.refusal(); err != nil || len(edits) == 0 {
		return err
	}
	pl, err := p.Plan(edits, false)
	if err != nil {
		return codes.Errorf(codes.BadRequest, "%w", err)
	}
	for i := range s.files {
		f := &s.files[i]
		if !f.edited {
			continue
		}
		next := pl.Next.Node(f.req.Name)
		if err := w.reserve(f, next.Cost()-p.Prev.Node(f.req.Name).Cost()); err != nil {
			return err
		}
		f.result.Mtime = next.Mtime(false)
	}
	s.plan = pl
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
func (w *writer) judgeFile(p planner, f *fileSetting, more int) (ed snapshot.Edit, err error) {
	req := f.req
	file := w.placer.meant(f.before)
	f.broken = file.broken(p.Prev.Node(req.Name))
	v, err := p.judge(req, f.text, file, w.in.full(req.Name, more))
	f.result.Mtime = v.mtime
	if err != nil || f.err != nil || req.keep {
		return ed, err
	}
	f.result.Deleted = f.text == nil
	if v.nothing {
		return ed, nil
	}
	if v.write && req.Actor.Proved() != nil && linked(w.dir.root, path.Dir(req.Name)) { // what was asked is another name's right
		return ed, codes.Errorf(codes.Forbidden, "%q is in a directory that a symlink leads to; nothing was changed: name the file as it is where that leads", shorten(req.Name))
	}
	if !v.edit.Quiet {
		if err := w.cfg.Check(req.Name, p.Prev.Node(req.Name).Text(), f.text, req.Actor); err != nil {
			return ed, err
		}
	}
	f.edited, f.write, f.mtime = true, v.write, v.fileTime
	switch {
	case !v.write || f.text == nil:
	case req.Exact:
		f.data = bytes.Clone(req.Contents) // the log keeps it, and the request is the writer's again once it is done
	default:
		f.data = w.dir.fileText(v.edit.Text, f.before)
	}
	v.edit.File, v.edit.Hash, v.edit.Replaces = f.before.data, f.before.raw, f.before.raw
	if v.write {
		v.edit.File, v.edit.Hash = f.data, log.Digest{}
		if f.data != nil {
			v.edit.Hash = log.DigestOf(f.data)
		}
	}
	return v.edit, nil
}

// written reports whether the document's file is another one now, by whichever name it was written.
func (f *fileSetting) written() bool { return f.write || f.leads > 0 && f.edited }

// discard removes the temporary files of a request that is going to be planned again.
func (s *step) discard() {
	for i := range s.files {
		if f := &s.files[i]; f.file != nil {
			_ = f.file.Discard() // a start removes what is left
		}
	}
}

// fail gives up a request that is not carried out.
func (s *step) fail(err error) {
	s.discard()
	for i := range s.files {
		s.files[i].tell(s.plan.Prev)
	}
	s.plan, s.err = nil, err
}

// storageError is a disk error in a form that may be shown to a writer: without paths of this
// machine.
func storageError(name, what string, err error) error {
	reason := atomicfile.Cause(err)
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
