package confstore

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/doclog"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// setJob is a request that has been queued.
type setJob struct {
	// set before put
	reqs    []SetRequest // of a Set one
	done    func(SetResult, error)
	changed func(change.Result, error) // of a Change, in place of done
	check   bool                       // of a Change: nothing is written
	behind  kv.Revision                // of a Change, if not 0: no document was changed after it
	asked   doclog.Digest              // of a Change: what was asked for, if that is not what reqs say

	approved []string // of a Change: the documents that the approver has approved of

	since time.Time // set at put
	size  int64     // set at put: bytes of contents

	state atomic.Int32
	one   [1]SetRequest // the array of reqs of a Set
}

// newSet is the request of a Set.
func newSet(req SetRequest, done func(SetResult, error)) *setJob {
	j := &setJob{done: done}
	j.one[0] = req
	j.reqs = j.one[:]
	return j
}

// String is what errors call the request.
func (j *setJob) String() string {
	if j.changed == nil {
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

// answer ends a request; s is nil if nothing was tried. One that was answered because it took too
// long is not answered again.
func (w *writer) answer(j *setJob, s *setting, err error) {
	w.left(j)
	w.moved.Store(w.cfg.Clock.Now().UnixNano())
	for i := range j.reqs {
		j.reqs[i].Contents = nil // the list of those that wait keeps it for a moment
	}
	if j.state.Swap(jobAnswered) != jobAnswered {
		j.end(s, err)
	}
}

func (j *setJob) end(s *setting, err error) {
	switch {
	case j.changed == nil && s == nil:
		j.done(SetResult{}, err)
	case j.changed == nil:
		j.done(s.files[0].result, err)
	case s == nil:
		j.changed(change.Result{}, err)
	default:
		j.changed(s.changed(), err)
	}
}

// overdue returns the requests that have waited for too long, and forgets those that were
// answered. A long queue in front of a slow disk waits for as long as it gets shorter.
func (w *writer) overdue() []*setJob {
	limit := w.cfg.Clock.Now().Add(-w.cfg.SetTimeout)
	if limit.UnixNano() < w.moved.Load() {
		limit = time.Time{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(j *setJob) bool { return j.state.Load() == jobAnswered })
	n := 0
	for n < len(w.waiting) && w.waiting[n].since.Before(limit) {
		n++
	}
	return slices.Clone(w.waiting[:n])
}

// giveUpAll answers all requests: the store ends while a disk holds it up.
func (w *writer) giveUpAll() {
	w.mu.Lock()
	waiting := slices.Clone(w.waiting)
	w.mu.Unlock()
	for _, j := range waiting {
		w.giveUp(j)
	}
}

// giveUp answers a request that takes too long.
func (w *writer) giveUp(j *setJob) {
	switch {
	case j.state.CompareAndSwap(jobQueued, jobAnswered):
		j.end(nil, codes.Errorf(codes.Storage, "%s: the server's disk has not answered for %s, so nothing was written; try again later", j, w.cfg.SetTimeout))
	case j.state.CompareAndSwap(jobBegun, jobAnswered):
		j.end(nil, codes.Errorf(codes.Timeout, "%s: the server's disk has not answered for %s; whether it will be written is not known: read it again later", j, w.cfg.SetTimeout))
	}
}
