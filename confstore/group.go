package confstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"confcenter/codes"
	"confcenter/confstore/ledger"
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
			w.suspended = jobs
			return
		}
		for _, s := range done {
			w.answer(s.job, s.result, s.err)
		}
		jobs = jobs[len(done):]
	}
}

// resume begins again what was under way when the ledger ceased to answer, but for what was
// answered meanwhile.
func (w *writer) resume() {
	jobs := w.suspended
	w.suspended = nil
	w.carryOut(jobs)
}

// collect takes waiting requests that can share a commit. A document occurs in it once,
// because the ledger keeps one unfinished write for each.
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

// group carries jobs out in the order that loses nothing: the new files complete and durable
// beside the old ones, the intents durable in the ledger, the renames, the directories
// durable, and only then the publications. It stops after the first job whose file cannot be
// made or put in place, or after the one with which it has become too large; the rest have not
// been done. ended is false if none has, because the ledger does not answer.
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
	if !w.commit(sets) {
		return nil, false
	}
	sets = w.place(sets)
	for i := range sets {
		if s := &sets[i]; s.out != nil {
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
	if v.write {
		v.edit.write = &ledger.Write{File: s.data, Absent: s.before.missing, Replaces: s.before.raw}
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

// commit makes the intents durable, all at once. It is false if the ledger does not answer: they
// may become durable yet, so they are taken back as soon as it does.
func (w *writer) commit(sets []setting) (ended bool) {
	var c ledger.Change
	for i := range sets {
		if s := &sets[i]; s.out != nil {
			one := s.out.plan.change()
			c.Lists, c.Versions = append(c.Lists, one.Lists...), append(c.Versions, one.Versions...)
		}
	}
	if c.Empty() {
		return true
	}
	err := w.rec.commit(c)
	if errors.Is(err, errHanging) {
		for i := range sets {
			sets[i].discard()
		}
		w.takeBack(sets)
		return false
	}
	for i := range sets {
		if s := &sets[i]; err != nil && s.out != nil {
			s.fail(err)
		}
	}
	return true
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

// place puts the files in place: the one step that readers of the directory see. If that fails
// for one, its intent and those after it, which were planned on top of it, are taken back, and
// the result ends with it. If the server stops before that is remembered, the next start
// carries the write out although its writer was told that it failed: in that case an error
// means that the outcome is not known.
func (w *writer) place(sets []setting) []setting {
	var placed []uint64
	var dirs []string
	for i := range sets {
		s := &sets[i]
		if s.out == nil || !s.write {
			continue
		}
		name := s.job.req.Name
		if err := s.replace(w.in.dir.root); err != nil {
			w.sync(dirs, placed)
			w.takeBack(sets[i:])
			s.fail(storageError(name, "replace", err))
			return sets[:i+1]
		}
		placed = append(placed, s.out.plan.seq)
		if dir := path.Dir(name); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	w.sync(dirs, placed)
	return sets
}

func (s *setting) replace(root atomicfile.Root) error {
	if s.file != nil {
		return s.file.Rename()
	}
	err := root.Remove(s.job.req.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// takeBack takes back the intents of sets. The files after the first are made again when their
// turn comes.
func (w *writer) takeBack(sets []setting) {
	var seqs []uint64
	for i := range sets {
		s := &sets[i]
		if s.out == nil || !s.write {
			continue
		}
		seqs = append(seqs, s.out.plan.seq)
		if i > 0 {
			s.discard()
		}
	}
	w.rec.owe(func() error { return w.rec.ledger.TakeBack(seqs...) })
}

var errNotFlushed = errors.New("the configuration directory could not be made durable and accepts no changes until a restart")

// sync makes the renames durable. If that fails the changes stand nevertheless: they are in the
// ledger, and without the mark a restart carries them out again. No further write is accepted.
func (w *writer) sync(dirs []string, placed []uint64) {
	errs := make([]error, len(dirs))
	each(len(dirs), maxFlushes, func(i int) { errs[i] = w.in.dir.root.SyncDir(dirs[i]) })
	for _, err := range errs {
		if err != nil {
			w.rec.stop(codes.Errorf(codes.Storage, "%w: %s", errNotFlushed, cause(err)))
			return
		}
	}
	if len(placed) > 0 {
		w.rec.owe(func() error {
			w.rec.ledger.Placed(placed...)
			return nil
		})
	}
}

func (w *writer) publish(s *setting) {
	name := s.job.req.Name
	if s.write {
		w.in.placed(name, s.text != nil)
	}
	w.rec.carryOut(s.out, false)
	if s.write {
		w.rec.problems.set(OfFile, name, "")
	}
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
