package sse

import (
	queue "container/list"
	"sync"

	"confcenter/internal/memory"
)

// stalls are the streams that wait for their peers to read. What they hold is counted
// in the pool of streams, and the one that has waited longest ends when that is over its
// limit: its peer can come back and go on from where it was.
type stalls struct {
	pool *memory.Pool // set at open

	mu sync.Mutex
	// guarded by mu
	waits *queue.List // of *wait, oldest first
	going int64       // bytes of streams that were told to end and still hold them
	cut   uint64      // streams that were told to end
}

// stalled is what a stream holds while it waits.
type stalled struct {
	own    int64  // bytes of its own
	shared int64  // about its part of what it shares with others, which the pool has counted
	event  int64  // bytes of all of that
	end    func() // ends the stream; any goroutine may call it
}

// wait is one stream's wait for its peer.
type wait struct {
	stalled
	place *queue.Element // nil: it was told to end
}

func newStalls(pool *memory.Pool) *stalls { return &stalls{pool: pool, waits: queue.New()} }

// enter lists a stream until leave is called.
func (l *stalls) enter(s stalled) *wait {
	w := &wait{stalled: s}
	l.mu.Lock()
	w.place = l.waits.PushBack(w)
	l.mu.Unlock()
	l.pool.Add(s.own)
	return w
}

func (l *stalls) leave(w *wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.place == nil {
		l.going -= w.own + w.shared
	} else {
		l.waits.Remove(w.place)
	}
	l.pool.Give(w.own)
}

// relieve ends the streams that have waited longest, as many as it takes to get the pool
// back to its limit. No stream ends because of the event that it is in the middle of: its
// peer would come back for the same one, again and again.
func (l *stalls) relieve() {
	if !l.pool.Over() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for over := l.pool.Held() - l.pool.Limit() - l.going; over > 0; {
		oldest := l.waits.Front()
		if oldest == nil || over <= oldest.Value.(*wait).event {
			return
		}
		w := l.waits.Remove(oldest).(*wait)
		w.place = nil
		l.going += w.own + w.shared
		over -= w.own + w.shared
		l.cut++
		l.pool.Refuse()
		w.end()
	}
}

// Counts returns how many streams wait, and how many were ended.
func (l *stalls) Counts() (waiting int, cut uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits.Len(), l.cut
}
