package confstore

import (
	"sync"
	"sync/atomic"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/internal/atomicfile"
)

// SetRequest asks for new contents of one document.
type SetRequest struct {
	// Name must pass CheckName.
	Name string
	// Contents is JSON of any kind; nil or null deletes the document. It is not
	// copied and must not change until done is called, nor after that if the error is
	// codes.Timeout.
	Contents []byte
	// Exact makes the file hold the bytes of Contents as they are: blanks, final newline,
	// spelling of strings. Without it the store formats them. The compact form is served
	// either way, so a mere change of formatting is written, but neither raises the version
	// nor notifies subscribers. A write that is finished after a crash is exact too.
	Exact bool
	// Mtime is the version the writer wants, in seconds. Without HasMtime, or if it is 0, the
	// store takes the current time, or one second more than the stored version. An mtime is
	// refused if it is older than the one last given or found, or more than a day ahead of
	// the clock and more than one above the version served.
	Mtime    int32
	HasMtime bool
	// IfMtime, with HasIfMtime, makes the write conditional on the version served now,
	// without inheritance; 0 means that the document must not exist.
	IfMtime    int32
	HasIfMtime bool
	// Base, unless it is nil, makes the write conditional on the file: it is the digest of its bytes,
	// zero if it must not exist. While a file is there that cannot be served, change.Broken, only a
	// Base that names its bytes holds; without any condition they are kept in DataDir.
	Base *doclog.Digest
	// Actor is who writes; subscribers receive it with the change. If it has a token, the same
	// change asked for again with it is not made again: the result is the version now served.
	Actor *access.Actor

	file, keep bool // see change.Document: Contents are a file, which may be null; or the document stays as it is
	resealed   bool // Contents are the file that Base names, but for the key by which values are sealed
}

// givesMtime: CppCloud's clients send 0 for "none".
func (r *SetRequest) givesMtime() bool { return r.HasMtime && r.Mtime != 0 }

// was reports whether Contents were in service, or are to be as someone has asked for when they could
// be: they are not held to what has been refused only since.
func (r *SetRequest) was() bool {
	return r.resealed || r.Actor != nil && (r.Actor.Origin == access.Rollback || r.Actor.Approver != "")
}

// SetResult describes what is stored.
type SetResult struct {
	// Mtime is the version now served, without inheritance. It is also set if the error is
	// codes.Older or codes.Conflict. For a document that never existed it is the given one.
	Mtime int32
	// Deleted tells that the request was to delete.
	Deleted bool
}

// writer carries out requests to set. Several that wait together share the slow steps of the
// disk.
type writer struct {
	// set at open
	cfg  *Config
	in   *intake
	rec  *recorder
	data atomicfile.Root
	jobs chan *setJob
	held chan *setJob // of capacity 1: what has to come before those in jobs

	queued atomic.Int64 // bytes of contents in jobs
	moved  atomic.Int64 // ns since 1970 when one was last carried out

	mu      sync.Mutex
	closed  bool      // guarded by mu
	waiting []*setJob // guarded by mu: in the order of put, some of them answered
}

var errClosed = codes.Errorf(codes.Closed, "the configuration store is closed")

// put queues a request.
func (w *writer) put(job *setJob) error {
	for i := range job.reqs {
		req := &job.reqs[i]
		if err := CheckName(req.Name); err != nil {
			return err
		}
		job.size += int64(len(req.Contents))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	switch cost := job.waitCost(); {
	case cost > w.cfg.Queues.Limit():
		return codes.Errorf(codes.TooLarge, "contents of %s have %d bytes, and all that waits may have %d; make them smaller or raise the server's --memory", job, job.size, w.cfg.Queues.Limit())
	case !w.cfg.Queues.Take(cost):
		return codes.Errorf(codes.Busy, "there is no memory left for writes that wait; try again later")
	}
	job.since = w.cfg.Clock.Now()
	w.queued.Add(job.size)
	select {
	case w.jobs <- job:
		w.waiting = append(w.waiting, job)
		return nil
	default:
		w.left(job)
		return codes.Errorf(codes.Busy, "%d writes are waiting already; try again later", w.cfg.QueueLength)
	}
}

// left stops counting a request that does not wait any more.
func (w *writer) left(job *setJob) {
	w.queued.Add(-job.size)
	w.cfg.Queues.Give(job.waitCost())
}

// close has put refuse.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// refuse answers the requests that will not be carried out.
func (w *writer) refuse(why error) {
	for {
		select {
		case job := <-w.held:
			w.answer(job, nil, why)
		case job := <-w.jobs:
			w.answer(job, nil, why)
		default:
			return
		}
	}
}

// next is where the next request comes from.
func (w *writer) next() <-chan *setJob {
	if len(w.held) > 0 {
		return w.held
	}
	return w.jobs
}
