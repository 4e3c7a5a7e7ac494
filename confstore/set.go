package confstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"syscall"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// ownLayout is that of files that have none yet, as CppCloud writes them.
var ownLayout = jsontext.Layout{Newline: "\n", Indent: "    ", End: "\n"}

// SetRequest asks for new contents of one document.
type SetRequest struct {
	// Name must pass CheckName.
	Name string
	// Contents is JSON of any kind; nil or null deletes the document. It is not
	// copied and must not change until done is called.
	Contents []byte
	// Exact has the file hold the bytes of Contents as they are: blanks, final
	// newline, spelling of strings. Without it the store formats them. Served is the
	// compact form either way, so other formatting of the same contents is written
	// and neither raises the version nor tells subscribers. A write that a start
	// finishes after a crash is exact too.
	Exact bool
	// Mtime is the version the writer wants, in seconds. Without HasMtime, or if
	// it is 0, the store takes the present, or a second more than what is stored.
	// What is older than the mtime last given or found is refused, and what is more
	// than a day ahead of both the clock and the version served.
	Mtime    int32
	HasMtime bool
	// IfMtime, with HasIfMtime, makes the write conditional on the version that is
	// served now, without inheritance; 0 means that there must be no document.
	IfMtime    int32
	HasIfMtime bool
	// Actor is who writes, for those who are told of the change.
	Actor *access.Actor
}

// givesMtime: CppCloud's clients send 0 for "none".
func (r SetRequest) givesMtime() bool { return r.HasMtime && r.Mtime != 0 }

// SetResult tells what is stored.
type SetResult struct {
	// Mtime is the version now served, without inheritance. It is also filled in
	// if the error is codes.Older or codes.Conflict. Of a document that never was
	// it is what was given.
	Mtime int32
	// Deleted tells that the request was to delete.
	Deleted bool
}

type setJob struct {
	req  SetRequest
	done func(SetResult, error)
}

// Set queues a write. Requests are carried out one after the other in the order
// they came. done is called on the store's goroutine, after the change is durable
// and published, or with the reason why there is none; it must only post. codes.Busy
// there means that the version runs more than a day ahead of the clock, as after many
// writes in a second; the text says when to try again. If Set
// itself returns an error (codes.BadName, codes.Busy, codes.Closed) done is never
// called.
func (s *Store) Set(req SetRequest, done func(SetResult, error)) error {
	if err := CheckName(req.Name); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	size := int64(len(req.Contents))
	if s.queued.Add(size) > s.cfg.QueueBytes && size < s.queued.Load() {
		s.queued.Add(-size)
		return codes.Errorf(codes.Busy, "more than %d bytes of writes are waiting; try again later", s.cfg.QueueBytes)
	}
	select {
	case s.sets <- setJob{req, done}:
		return nil
	default:
		s.queued.Add(-size)
		return codes.Errorf(codes.Busy, "%d writes are waiting already; try again later", s.cfg.QueueLength)
	}
}

var errClosed = codes.Errorf(codes.Closed, "the configuration store is closed")

// finish carries out one queued write.
func (s *Store) finish(job setJob) {
	result, err := s.set(job.req)
	s.queued.Add(-int64(len(job.req.Contents)))
	job.done(result, err)
}

func (s *Store) refuseQueued() {
	for {
		select {
		case job := <-s.sets:
			job.done(SetResult{}, errClosed)
		default:
			return
		}
	}
}

func (s *Store) set(req SetRequest) (SetResult, error) {
	text, err := requestText(req)
	if err == nil {
		err = s.tooLarge(req, text)
	}
	if err != nil {
		return SetResult{}, err
	}
	if err := s.writable(); err != nil {
		return SetResult{}, err
	}
	before := s.takeIn(req.Name)
	e := s.entries[req.Name]
	result := SetResult{Deleted: text == nil}
	if e.known() {
		result.Mtime = e.doc.served
	}
	if err := s.refuse(req, e, before); err != nil {
		return result, err
	}
	if !req.Exact {
		text = asSpelled(e, text)
	}
	given := s.given(req, e)
	ed := edit{name: req.Name, text: text, given: given, fileTime: given, quiet: sameContents(e, text), actor: req.Actor}
	if ed.quiet && !req.givesMtime() {
		ed.given = e.doc.given
	}
	if req.Exact && text != nil {
		ed.exact = req.Contents
	}
	if text == nil && !e.known() && before.missing { // nothing to delete
		return SetResult{Mtime: ed.given, Deleted: true}, nil
	}
	if !ed.quiet || ed.given > e.doc.served {
		if err := s.refuseVersion(req.Name); err != nil {
			return result, err
		}
	}
	switch {
	case ed.quiet && before.missing == (text == nil) && before.fault == "" && (ed.exact == nil || before.raw == digestOf(ed.exact)):
		err = s.confirm(ed)
	default:
		err = s.write(ed, before)
	}
	if e := s.entries[req.Name]; err == nil && e.known() {
		result.Mtime = e.doc.served
	}
	return result, err
}

// requestText is the compact text to store, nil for a deletion.
func requestText(req SetRequest) ([]byte, error) {
	if req.Contents == nil {
		return nil, nil
	}
	kind, err := jsontext.CheckUTF8(req.Contents)
	switch {
	case err != nil:
		return nil, codes.Errorf(codes.BadJSON, "contents of %q: %s", req.Name, faultAt(req.Contents, err))
	case kind == jsontext.Null:
		return nil, nil
	case req.Name == meta.FileName && kind != jsontext.Object:
		return nil, codes.Errorf(codes.BadRequest, "contents of %s must be a JSON object", meta.FileName)
	case req.Exact:
		return compactText(req.Contents), nil
	}
	return readableText(compactText(req.Contents)), nil
}

// tooLarge refuses what could not be read back.
func (s *Store) tooLarge(req SetRequest, text []byte) error {
	size := len(text) + len(ownLayout.End)
	if req.Exact {
		size = len(req.Contents)
	}
	if text != nil && int64(size) > s.cfg.MaxFileBytes {
		return codes.Errorf(codes.TooLarge, "contents of %q would make a file of %d bytes, the limit is %d; make them smaller or raise the limit", req.Name, size, s.cfg.MaxFileBytes)
	}
	return nil
}

// writable tells why nothing can be written at all.
func (s *Store) writable() error {
	if s.journal.fault != nil {
		return s.journal.fault
	}
	if !s.rootPresent() && !s.rewatch() {
		return codes.Errorf(codes.Storage, "the configuration directory is gone; put it back and write again")
	}
	return nil
}

// takeIn publishes an edit of the file that nobody has seen yet and returns the
// file as it is.
func (s *Store) takeIn(name string) reading {
	r := s.read(s.root, name)
	now := s.clock.Now()
	switch e := s.entries[name]; {
	case r.missing && e == nil, r.fault != "":
		return r // a file that does not parse is not an edit yet
	case r.missing:
		if ed, ok := s.removed(name, e, now); ok {
			s.found([]edit{ed})
		}
	default:
		if ed, ok := s.takeGood(r); ok {
			s.found([]edit{ed})
		}
	}
	return r
}

// refuse tells why req must not be carried out, given what is stored.
func (s *Store) refuse(req SetRequest, e *entry, file reading) error {
	served := int32(0)
	if e.live() {
		served = e.doc.served
	}
	switch {
	case file.isDir:
		return codes.Errorf(codes.BadName, "filename %q is a directory; choose another name", req.Name)
	case req.HasIfMtime && req.IfMtime != served:
		return codes.Errorf(codes.Conflict, "%s: if_mtime is %d, the stored version %d; read it again and decide", req.Name, req.IfMtime, served)
	case req.HasMtime && req.Mtime > maxGiven:
		return codes.Errorf(codes.BadRequest, "%s: mtime %d is beyond %d; give seconds since 1970", req.Name, req.Mtime, maxGiven)
	case req.givesMtime() && s.tooFarAhead(req.Mtime, e):
		return codes.Errorf(codes.BadRequest, "%s: mtime %d is %s, more than a day ahead of the server's clock and of the stored version; give the current time in seconds, or omit mtime",
			req.Name, req.Mtime, timeOf(req.Mtime).Format(time.RFC3339))
	case req.givesMtime() && e.known() && req.Mtime < e.doc.given && ahead(timeOf(e.doc.given), s.clock.Now()):
		return s.refuseVersion(req.Name) // nobody's time of day is enough
	case req.givesMtime() && e.known() && req.Mtime < e.doc.given:
		return codes.Errorf(codes.Older, "%s: mtime %d is older than the stored %d; read the current version and write again", req.Name, req.Mtime, e.doc.served)
	case e == nil && len(s.entries) >= s.cfg.MaxFiles:
		return codes.Errorf(codes.Limit, "there are %d files, the limit; remove some or raise the limit", s.cfg.MaxFiles)
	}
	return nil
}

func (s *Store) tooFarAhead(given int32, e *entry) bool {
	now := s.clock.Now()
	if e.known() && timeOf(e.doc.served).After(now) {
		now = timeOf(e.doc.served)
	}
	return ahead(timeOf(given), now)
}

// refuseVersion tells why a write may not raise the document's version now. Edits of
// files are not asked: they have happened.
func (s *Store) refuseVersion(name string) error {
	of, version := s.highest(name, s.rules)
	whose := "its version"
	if of != name {
		whose = "the version of its heir " + of
	}
	switch now := s.clock.Now(); {
	case version == math.MaxInt32:
		return codes.Errorf(codes.Limit, "%s: %s is %d, the end of all versions; %s", name, whose, version, wayOut)
	case ahead(timeOf(version), now):
		free := timeOf(version).Add(-maxAhead)
		return codes.Errorf(codes.Busy, "%s: %s, %d, runs more than a day ahead of the server's clock; try again at %s. If that is far off, correct the clock or %s",
			name, whose, version, free.Format(time.RFC3339), wayOut)
	}
	return nil
}

// wayOut is for versions that waiting does not help; deleting the document would
// not either, because its tombstone goes on counting.
const wayOut = "edit the file itself, which always counts, or use another name; docs/operator.md says under Versions how to start versions over"

// given is the mtime of a write: what the writer says, or the present unless
// something later is stored.
func (s *Store) given(req SetRequest, e *entry) int32 {
	if req.givesMtime() {
		return req.Mtime
	}
	now := s.clock.Now()
	given := seconds(now, now)
	if e.known() {
		given = max(given, e.doc.given)
	}
	return given
}

// confirm is for a write of what is stored already: nothing is written and nobody
// is told, but a later mtime counts from now on, across restarts too.
func (s *Store) confirm(ed edit) error {
	e := s.entries[ed.name]
	if ed.given <= e.doc.given {
		return nil
	}
	p, err := s.plan([]edit{ed}, false)
	if err != nil {
		return err
	}
	err = s.journal.append(append(s.catchUp(), p.records()...))
	s.journaled(err)
	if err == nil {
		s.publish(p, false)
	}
	return err
}

// write carries out one edit on the disk, in the order that loses nothing: the
// new file complete and durable beside the old one, the intent durable in the
// journal, the rename, the directory durable, and only then the publication.
func (s *Store) write(ed edit, before reading) error {
	p, err := s.plan([]edit{ed}, false)
	if err != nil {
		return codes.Errorf(codes.BadRequest, "%w", err)
	}
	file, err := s.prepareFile(ed, before)
	if err != nil {
		return storageError(ed.name, "write", err)
	}
	if err := s.intend(p, before); err != nil {
		return errors.Join(err, discard(file))
	}
	if err := s.replace(ed, file); err != nil {
		s.abort(p, ed.name)
		return errors.Join(storageError(ed.name, "replace", err), discard(file))
	}
	s.settleWrite(p, ed)
	e := s.entry(ed.name)
	e.onDisk, e.sig, e.broken = ed.text != nil, signature{}, ""
	s.setFault(ed.name, e)
	delete(s.settle.missing, ed.name)
	delete(s.settle.suspect, ed.name)
	s.publish(p, false)
	s.problems.set(OfFile, ed.name, "")
	return nil
}

// prepareFile makes the temporary file, nil for a deletion.
func (s *Store) prepareFile(ed edit, before reading) (*atomicfile.Pending, error) {
	if ed.text == nil {
		return nil, nil
	}
	if err := atomicfile.MkdirAll(s.root, dirOf(ed.name), 0o755); err != nil {
		return nil, err
	}
	attr := atomicfile.Attr{ModTime: time.Unix(int64(ed.fileTime), 0)}
	if before.mode.IsRegular() {
		attr.Perm = before.mode.Perm()
	}
	data := ed.exact
	if data == nil {
		data = s.fileText(ed.text, before)
	}
	return atomicfile.Prepare(s.root, ed.name, data, attr)
}

// fileText is the form people read, as far as can be that of the file which it takes
// the place of. Text that is long and nested deeply at once would grow beyond all
// bounds; it stays compact.
func (s *Store) fileText(compact []byte, before reading) []byte {
	layout := before.layout
	size := layout.Len(compact)
	if int64(size) > s.cfg.MaxFileBytes {
		layout.Newline, size = "", len(compact)+len(layout.End)
	} else if before.fault == "" && !before.missing {
		old, _, err := atomicfile.ReadFile(s.root, before.name, s.cfg.MaxFileBytes)
		if err == nil && digestOf(old) == before.raw {
			if text := layout.AppendAlike(nil, compact, old); int64(len(text)) <= s.cfg.MaxFileBytes {
				return text
			}
		}
	}
	return layout.Append(make([]byte, 0, size), compact)
}

func (s *Store) fileAttr(name string, given int32) atomicfile.Attr {
	attr := atomicfile.Attr{ModTime: time.Unix(int64(given), 0)}
	if info, err := s.root.Stat(name); err == nil && info.Mode().IsRegular() {
		attr.Perm = info.Mode().Perm()
	}
	return attr
}

// intend records what is going to happen.
func (s *Store) intend(p *plan, before reading) error {
	records := append(s.catchUp(), p.records()...)
	intent := &records[len(records)-1]
	intent.kind, intent.absent, intent.previous = recordIntent, before.missing, before.raw
	if exact := p.edits[0].exact; exact != nil {
		intent.exact, intent.text = true, exact
	}
	err := s.journal.append(records)
	s.journaled(err)
	return err
}

// replace is the one step that readers of the directory see.
func (s *Store) replace(ed edit, file *atomicfile.Pending) error {
	if file != nil {
		return file.Rename()
	}
	err := s.root.Remove(ed.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// abort takes an intent back. If the server stops before that is recorded, a start
// carries the write out although its writer was told that it failed: an error then
// means that the outcome is not known.
func (s *Store) abort(p *plan, name string) {
	s.journaled(s.journal.takeBack(p.seqs[name]))
}

// settleWrite makes the rename durable. If it cannot be, the change stands all the
// same: it is in the journal, and without the mark a restart carries it out again.
// No further write is taken.
func (s *Store) settleWrite(p *plan, ed edit) {
	if err := s.root.SyncDir(dirOf(ed.name)); err != nil {
		s.journal.fault = codes.Errorf(codes.Storage, "the configuration directory could not be made durable and accepts no changes until a restart: %s", cause(err))
		s.journaled(s.journal.fault)
		return
	}
	s.journal.markDone(p.seqs[ed.name])
}

func discard(file *atomicfile.Pending) error {
	if file == nil {
		return nil
	}
	return file.Discard()
}

func dirOf(name string) string { return path.Dir(name) }

// storageError is an error of the disk as a writer may be told it: without paths
// of this machine.
func storageError(name, verb string, err error) error {
	reason := cause(err)
	var errno syscall.Errno
	switch {
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, atomicfile.ErrNotDirectory):
		return &codes.Error{Code: codes.BadName, Text: fmt.Sprintf("%q lies below a file; choose another name", name), Err: err}
	case errors.Is(err, syscall.ENOSPC):
		reason = "the disk is full; free space and write again"
	case errors.As(err, &errno):
		reason = errno.Error()
	}
	return &codes.Error{Code: codes.Storage, Text: fmt.Sprintf("%s: cannot %s: %s", name, verb, reason), Err: err}
}
