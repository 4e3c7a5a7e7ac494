package confstore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/internal/memory"
	"confcenter/kv"
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
	Base *log.Digest
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

// queue has the requests that wait. Any goroutine may use it; the store's takes them out.
type queue struct {
	// set at open
	cfg  *Config
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
func (q *queue) put(job *setJob) error {
	for i := range job.reqs {
		req := &job.reqs[i]
		if err := CheckName(req.Name); err != nil {
			return err
		}
		job.size += int64(len(req.Contents))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	switch cost := job.waitCost(); {
	case cost > q.cfg.Queues.Limit():
		return codes.Errorf(codes.TooLarge, "contents of %s have %d bytes, and all that waits may have %d; make them smaller or raise the server's --memory", job, job.size, q.cfg.Queues.Limit())
	case !q.cfg.Queues.Take(cost):
		return codes.Errorf(codes.Busy, "there is no memory left for writes that wait; try again later")
	}
	job.since = q.cfg.Clock.Now()
	q.queued.Add(job.size)
	select {
	case q.jobs <- job:
		q.waiting = append(q.waiting, job)
		return nil
	default:
		q.left(job)
		return codes.Errorf(codes.Busy, "%d writes are waiting already; try again later", q.cfg.QueueLength)
	}
}

// left stops counting a request that does not wait any more.
func (q *queue) left(job *setJob) {
	q.queued.Add(-job.size)
	q.cfg.Queues.Give(job.waitCost())
}

// close has put refuse.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// refuse answers the requests that will not be carried out.
func (q *queue) refuse(why error) {
	for {
		select {
		case job := <-q.held:
			q.answer(job, &step{}, why)
		case job := <-q.jobs:
			q.answer(job, &step{}, why)
		default:
			return
		}
	}
}

// next is where the next request comes from.
func (q *queue) next() <-chan *setJob {
	if len(q.held) > 0 {
		return q.held
	}
	return q.jobs
}

// setJob is a request that has been queued.
type setJob struct {
	// set before put
	reqs []SetRequest // of a Set one
	done func(s *step, err error)

	// of a Change
	several  bool        // it is one
	check    bool        // nothing is written
	behind   kv.Revision // if not 0: no document was changed after it
	asked    log.Digest  // what was asked for, if that is not what reqs say
	approved []string    // the documents that the approver has approved of

	since time.Time // set at put
	size  int64     // set at put: bytes of contents

	state atomic.Int32
}

// newSet is the request of a Set.
func newSet(req SetRequest, done func(SetResult, error)) *setJob {
	return &setJob{reqs: []SetRequest{req}, done: func(s *step, err error) { done(s.result(), err) }}
}

// String is what errors call the request.
func (j *setJob) String() string {
	if !j.several {
		return j.reqs[0].Name
	}
	return fmt.Sprintf("the change of %d documents", len(j.reqs))
}

// meets reports whether one of two Sets can only be judged when the other has been carried out:
// they are about one file, which is compared with the one before, or about a file and what would
// lie below it; or they have one token.
func (j *setJob) meets(other *setJob) bool {
	a, b := &j.reqs[0], &other.reqs[0]
	return a.Name == b.Name || below(a.Name, b.Name) || below(b.Name, a.Name) ||
		a.Actor != nil && b.Actor != nil && a.Actor.Token != "" && a.Actor.Token == b.Actor.Token
}

// waitCost is what a request takes that waits.
func (j *setJob) waitCost() int64 { return j.size + int64(memory.WaiterCost*len(j.reqs)) }

// The states of a request, in their order. Who brings it into the last one answers.
const (
	jobQueued int32 = iota
	jobBegun
	jobAnswered
)

// begin reports whether the request is still to be carried out.
func (j *setJob) begin() bool {
	return j.state.CompareAndSwap(jobQueued, jobBegun) || j.state.Load() == jobBegun
}

// answer ends a request. One that was answered because it took too long is not answered again.
func (q *queue) answer(j *setJob, s *step, err error) {
	q.left(j)
	q.moved.Store(q.cfg.Clock.Now().UnixNano())
	for i := range j.reqs {
		j.reqs[i].Contents = nil // the list of those that wait keeps it for a moment
	}
	if j.state.Swap(jobAnswered) != jobAnswered {
		j.done(s, err)
	}
}

// open returns the requests that were not answered yet, in the order of put.
func (q *queue) open() []*setJob {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(j *setJob) bool { return j.state.Load() == jobAnswered })
	return slices.Clone(q.waiting)
}

// overdue returns the requests that have waited for too long. A long queue in front of a slow disk
// waits for as long as it gets shorter.
func (q *queue) overdue() []*setJob {
	limit, list := q.cfg.Clock.Now().Add(-q.cfg.SetTimeout), q.open()
	if limit.UnixNano() < q.moved.Load() {
		return nil
	}
	n := 0
	for n < len(list) && list[n].since.Before(limit) {
		n++
	}
	return list[:n]
}

// giveUpAll answers all requests: the store ends while a disk holds it up.
func (q *queue) giveUpAll() {
	for _, j := range q.open() {
		q.giveUp(j)
	}
}

// giveUp answers a request that takes too long.
func (q *queue) giveUp(j *setJob) {
	switch {
	case j.state.CompareAndSwap(jobQueued, jobAnswered):
		j.done(&step{}, codes.Errorf(codes.Storage, "%s: the server's disk has not answered for %s, so nothing was written; try again later", j, q.cfg.SetTimeout))
	case j.state.CompareAndSwap(jobBegun, jobAnswered):
		j.done(&step{}, codes.Errorf(codes.Timeout, "%s: the server's disk has not answered for %s; whether it will be written is not known: read it again later", j, q.cfg.SetTimeout))
	}
}

// abandon answers the requests that were under way when the store's goroutine panicked.
func (q *queue) abandon() {
	for _, j := range q.open() {
		if j.state.Load() == jobBegun {
			q.answer(j, &step{}, codes.Errorf(codes.Timeout, "%s: the configuration store has failed; restart the server to find out whether it was written", j))
		}
	}
}
