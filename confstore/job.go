package confstore

import (
	"slices"
	"sync/atomic"
	"time"

	"confcenter/codes"
)

// setJob is a request that has been queued.
type setJob struct {
	// set at put
	req   SetRequest
	done  func(SetResult, error)
	since time.Time

	state atomic.Int32
}

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
func (w *writer) answer(j *setJob, result SetResult, err error) {
	w.left(j.req)
	w.moved.Store(w.cfg.Clock.Now().UnixNano())
	j.req.Contents = nil // the list of those that wait keeps it for a moment
	if j.state.Swap(jobAnswered) != jobAnswered {
		j.done(result, err)
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

// giveUp answers a request that takes too long.
func (w *writer) giveUp(j *setJob) {
	switch {
	case j.state.CompareAndSwap(jobQueued, jobAnswered):
		j.done(SetResult{}, codes.Errorf(codes.Storage, "%s: the server's disk has not answered for %s, so nothing was written; try again later", j.req.Name, w.cfg.SetTimeout))
	case j.state.CompareAndSwap(jobBegun, jobAnswered):
		j.done(SetResult{}, codes.Errorf(codes.Timeout, "%s: the server's disk has not answered for %s; whether the file will be written is not known: read it again later", j.req.Name, w.cfg.SetTimeout))
	}
}
