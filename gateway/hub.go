package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/kv"
	"confcenter/kv/follow"
)

// Limits of what is kept for streams. All streams share it with each other and with
// the store, so a stream that falls behind costs the others nothing: it reads back
// from the store's log.
const (
	recentBytes = 8 << 20  // of the newest changes
	hubBytes    = 1 << 20  // of changes that the hub looks at in one go
	pieceBytes  = 64 << 10 // of changes that a stream takes in one go
	logBytes    = 16 << 10 // see follow.Source
	maxHolders  = 4        // streams that may hold a whole state
)

// hub follows the store once for all streams, and wakes those whose filter matches.
type hub struct {
	source follow.Source
	recent *follow.Recent
	frames frames
	unhook func()
	wake   chan struct{} // capacity 1
	stop   chan struct{}
	done   chan struct{}
	told   atomic.Int64 // every stream has been woken for changes up to this revision
	behind atomic.Uint64
	open   atomic.Int64 // subscriptions

	subs sync.RWMutex
	// guarded by subs: by the namespace of the filter; "" is all namespaces
	byNS map[string]map[*subscription]struct{}
}

// newHub makes a hub that keeps about so many bytes of changes.
func newHub(store kv.Store, bytes int) *hub {
	h := &hub{
		source: follow.Source{Store: store, Piece: logBytes, Holders: maxHolders},
		recent: follow.NewRecent(bytes, nil),
		wake:   make(chan struct{}, 1),
		stop:   make(chan struct{}),
		done:   make(chan struct{}),
		byNS:   map[string]map[*subscription]struct{}{},
	}
	h.unhook = store.Follow(h.follow)
	newest := store.Revision()
	h.recent.Begin(newest)
	h.told.Store(int64(newest))
	go h.run()
	return h
}

func (h *hub) close() {
	h.unhook()
	close(h.stop)
	<-h.done
}

// follow runs on the store's goroutine and only takes note. Without streams there
// is nothing to note: a stream that is opened later reads the store's revision
// after the batch has become visible.
func (h *hub) follow(b *kv.Batch) {
	if h.open.Load() == 0 {
		h.recent.Pass(b.Last())
		return
	}
	h.recent.Add(b)
	poke(h.wake)
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (h *hub) run() {
	defer close(h.done)
	for {
		select {
		case <-h.stop:
			return
		case <-h.wake:
		}
		for h.notify() {
		}
	}
}

// notify wakes the streams that match something in one piece of what is new, and
// reports whether anything was new.
func (h *hub) notify() bool {
	h.subs.RLock()
	defer h.subs.RUnlock()
	told := kv.Revision(h.told.Load())
	chunk := h.recent.Since(told, hubBytes)
	if told < chunk.After { // so much has come that some of it is gone
		for _, set := range h.byNS {
			for s := range set {
				s.note(told+1, chunk.After)
			}
		}
	}
	for i := range chunk.Changes {
		h.tell(&chunk.Changes[i], chunk.After)
	}
	h.told.Store(int64(max(told, chunk.Last)))
	return chunk.Last > told
}

// tell wakes the streams that match some event of a change. Events are sorted by
// namespace and key.
func (h *hub) tell(c *kv.Change, kept kv.Revision) {
	if len(c.Events) == 0 {
		return
	}
	for s := range h.byNS[""] {
		s.note(c.Revision, kept)
	}
	for from := 0; from < len(c.Events); {
		ns := c.Events[from].Entry.NS
		to := from + 1
		for to < len(c.Events) && c.Events[to].Entry.NS == ns {
			to++
		}
		for s := range h.byNS[ns] {
			if s.wants(c.Events[from:to]) {
				s.note(c.Revision, kept)
			}
		}
		from = to
	}
}

// subscription is what one stream follows. Only one goroutine at a time may call
// poll.
type subscription struct {
	hub    *hub
	filter kv.Filter
	wake   chan struct{} // capacity 1

	// the reader's
	cursor *follow.Cursor
	live   bool // what is at hand came from the hub, and later matches are noted
	rest   bool // with live: the hub keeps more that is already noted

	pending atomic.Int64 // the first matching revision since the reader last looked; 0: none
	lagging atomic.Bool  // the hub no longer keeps what comes next
}

// subscribe follows what matches the filter: the changes after revision from (0:
// from now on), or with state first the current state. It returns
// codes.FutureRevision if from has not been reached. The caller closes the
// subscription.
func (h *hub) subscribe(filter kv.Filter, from kv.Revision, state bool) (*subscription, error) {
	s := &subscription{hub: h, filter: filter, wake: make(chan struct{}, 1), live: from == 0 && !state}
	s.lagging.Store(!s.live)
	h.subs.Lock()
	set := h.byNS[filter.NS]
	if set == nil {
		set = map[*subscription]struct{}{}
		h.byNS[filter.NS] = set
	}
	set[s] = struct{}{}
	if h.open.Add(1) == 1 {
		h.told.Store(int64(h.source.Store.Revision())) // nothing was noted in the meantime
	}
	h.subs.Unlock()
	// Only now, so that no change falls between what is read and what is followed.
	var err error
	if s.cursor, _, err = h.source.Open(follow.Request{Filter: filter, From: from, State: state, Spare: follow.Overwritten}); err != nil {
		s.leave()
		return nil, err
	}
	return s, nil
}

func (s *subscription) close() {
	s.cursor.Close()
	s.leave()
}

func (s *subscription) leave() {
	h := s.hub
	h.subs.Lock()
	defer h.subs.Unlock()
	set := h.byNS[s.filter.NS]
	delete(set, s)
	if len(set) == 0 {
		delete(h.byNS, s.filter.NS)
	}
	if h.open.Add(-1) == 0 {
		h.frames.clear()
	}
}

// wants reports whether any event of one namespace matches. Keys with the same
// prefix are adjacent.
func (s *subscription) wants(events []kv.Event) bool {
	i, _ := slices.BinarySearchFunc(events, s.filter.Text, func(e kv.Event, text string) int { return strings.Compare(e.Entry.Key, text) })
	return i < len(events) && s.filter.Match(events[i].Entry.NS, events[i].Entry.Key)
}

// note makes the reader look from a revision on. The hub no longer keeps what came
// up to kept.
func (s *subscription) note(revision, kept kv.Revision) {
	if !s.pending.CompareAndSwap(0, int64(revision)) && s.pending.Load() <= int64(kept) && !s.lagging.Swap(true) {
		s.hub.behind.Add(1)
	}
	poke(s.wake)
}

// poll returns the next notice without waiting for one, or false if there is none.
// A notice never has events of several revisions.
func (s *subscription) poll(ctx context.Context) (kv.Notice, bool, error) {
	return s.cursor.Poll(ctx, s.since, follow.Cut{Alone: true})
}

// since returns what the hub keeps after a revision. When a live stream has taken
// everything that was noted for it, nothing before the pending revision matches.
func (s *subscription) since(revision kv.Revision) follow.Chunk {
	if !s.rest {
		told := kv.Revision(s.hub.told.Load()) // read before pending, which includes it
		if pending := kv.Revision(s.pending.Swap(0)); pending > 0 {
			told = pending - 1
		}
		if s.live {
			s.cursor.Skip(follow.Mark{Rev: told})
			revision = s.cursor.At().Rev
		}
	}
	chunk := s.hub.recent.Since(revision, pieceBytes)
	s.live, s.rest = revision >= chunk.After, chunk.Part
	if was := s.lagging.Swap(!s.live); !was && !s.live {
		s.hub.behind.Add(1)
	}
	return chunk
}
