package gateway

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/kv"
)

// Limits of what waits for streams. It is shared with the store and between them,
// so that a stream that falls behind costs nobody else; beyond the limits it forgets
// what waits and reads it back from the store's log.
const (
	maxBacklog      = 1024    // batches that wait for the hub
	maxBacklogBytes = 8 << 20 // keys and values of them
	maxParts        = 1024    // changes that wait for one stream
	maxPartBytes    = 1 << 20 // keys and values of them
	readBack        = 64 << 10
	statePage       = 256
)

// hub follows the store once for all streams, and tells each what it asked for.
type hub struct {
	store  kv.Store
	unhook func()
	wake   chan struct{} // capacity 1
	stop   chan struct{}
	done   chan struct{}
	told   atomic.Int64 // revision up to which every stream has been offered everything
	behind atomic.Uint64
	open   atomic.Int64 // subscriptions

	mu sync.Mutex
	// guarded by mu
	backlog []*kv.Batch
	bytes   int
	missed  bool // batches were dropped since backlog was taken

	subs sync.RWMutex
	// guarded by subs: by the namespace of the filter, "" for all
	byNS map[string]map[*subscription]struct{}
}

func newHub(store kv.Store) *hub {
	h := &hub{
		store: store,
		wake:  make(chan struct{}, 1),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		byNS:  map[string]map[*subscription]struct{}{},
	}
	h.unhook = store.Follow(h.follow)
	go h.run()
	return h
}

func (h *hub) close() {
	h.unhook()
	close(h.stop)
	<-h.done
}

// follow is called by the store's goroutine and only takes note. Without streams
// there is nothing to note: one that is opened from now on reads the store's
// revision after it has become visible here.
func (h *hub) follow(b *kv.Batch) {
	if h.open.Load() == 0 {
		return
	}
	size := 0
	for i := range b.Changes {
		size += sizeOfEvents(b.Changes[i].Events)
	}
	h.mu.Lock()
	h.backlog = append(h.backlog, b)
	h.bytes += size
	if len(h.backlog) > 1 && (len(h.backlog) > maxBacklog || h.bytes > maxBacklogBytes) {
		h.backlog, h.bytes, h.missed = []*kv.Batch{b}, size, true
	}
	h.mu.Unlock()
	poke(h.wake)
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func sizeOfEvents(events []kv.Event) (n int) {
	for i := range events {
		n += events[i].Entry.Size()
	}
	return n
}

func (h *hub) run() {
	defer close(h.done)
	for {
		select {
		case <-h.stop:
			return
		case <-h.wake:
		}
		h.mu.Lock()
		backlog, missed := h.backlog, h.missed
		h.backlog, h.bytes, h.missed = nil, 0, false
		h.mu.Unlock()
		h.fanOut(backlog, missed)
	}
}

func (h *hub) fanOut(backlog []*kv.Batch, missed bool) {
	h.subs.RLock()
	defer h.subs.RUnlock()
	if missed {
		since := kv.Revision(h.told.Load())
		for _, set := range h.byNS {
			for s := range set {
				s.fallBehind(since)
			}
		}
	}
	for _, b := range backlog {
		for i := range b.Changes {
			h.tell(&b.Changes[i])
		}
		h.told.Store(int64(b.Last()))
	}
}

// tell offers a change to those who asked for some of it. Its events are in the order
// of namespace and key, so that what one stream wants of them stands together.
func (h *hub) tell(c *kv.Change) {
	if len(c.Events) == 0 {
		return
	}
	var shared *change // made when somebody wants it
	offer := func(set map[*subscription]struct{}, from, to int) {
		if len(set) == 0 {
			return
		}
		if shared == nil {
			shared = newChange(c.Revision, c.Events)
		}
		size := sizeOfEvents(c.Events[from:to])
		for s := range set {
			s.offer(part{shared, from, to}, size)
		}
	}
	offer(h.byNS[""], 0, len(c.Events))
	for from := 0; from < len(c.Events); {
		ns := c.Events[from].Entry.NS
		to := from + 1
		for to < len(c.Events) && c.Events[to].Entry.NS == ns {
			to++
		}
		offer(h.byNS[ns], from, to)
		from = to
	}
}

// change is what one transaction changed, with what it was encoded as: each form
// once, by the first stream that needs it.
type change struct {
	revision kv.Revision
	events   []kv.Event
	frames   []encoded // one for each event
}

type encoded [forms]atomic.Pointer[[]byte]

func newChange(revision kv.Revision, events []kv.Event) *change {
	return &change{revision: revision, events: events, frames: make([]encoded, len(events))}
}

// frame is event i as it is sent, but for its id and the empty line at its end.
func (c *change) frame(i int, f form) []byte {
	slot := &c.frames[i][f]
	if text := slot.Load(); text != nil {
		return *text
	}
	text := encoders[f](nil, &c.events[i])
	slot.Store(&text)
	return text
}

// part is the events of a change that one stream wants.
type part struct {
	*change
	from, to int
}

// subscription is what one stream asked for. One goroutine at a time calls next.
type subscription struct {
	hub    *hub
	filter kv.Filter
	wake   chan struct{} // capacity 1

	// the reader's
	position kv.Revision // everything up to it has been returned, or does not match
	catching bool        // what follows position is read back
	target   kv.Revision // with catching: was the newest when it was aimed at
	state    *stateReader

	mu sync.Mutex
	// guarded by mu
	queue  []part
	bytes  int
	behind bool
	since  kv.Revision // with behind: nothing before it was missed
}

// subscribe tells of what matches the filter: the changes after revision from, 0 for
// those from now on, or with state what there is first. codes.FutureRevision if from
// is not reached. The caller closes the subscription.
func (h *hub) subscribe(filter kv.Filter, from kv.Revision, state bool) (*subscription, error) {
	if err := filter.Check(); err != nil {
		return nil, err
	}
	s := &subscription{hub: h, filter: filter, wake: make(chan struct{}, 1)}
	h.subs.Lock()
	set := h.byNS[filter.NS]
	if set == nil {
		set = map[*subscription]struct{}{}
		h.byNS[filter.NS] = set
	}
	set[s] = struct{}{}
	h.open.Add(1)
	h.subs.Unlock()
	// Only now, so that no change lies between what is read and what is followed.
	s.position = h.store.Revision()
	if from > s.position {
		newest := s.position
		s.close()
		return nil, codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", from, newest)
	}
	if state {
		s.state = &stateReader{}
	} else if from > 0 {
		s.position, s.catching = from, true
	}
	return s, nil
}

func (s *subscription) close() {
	s.closeState()
	h := s.hub
	h.subs.Lock()
	defer h.subs.Unlock()
	set := h.byNS[s.filter.NS]
	delete(set, s)
	if len(set) == 0 {
		delete(h.byNS, s.filter.NS)
	}
	h.open.Add(-1)
}

// offer queues what of p matches; size is that of all its events.
func (s *subscription) offer(p part, size int) {
	if s.filter.Text != "" {
		if p = s.cut(p); p.from == p.to {
			return
		}
		size = sizeOfEvents(p.events[p.from:p.to])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind {
		return
	}
	s.queue = append(s.queue, p)
	s.bytes += size
	if len(s.queue) > 1 && (len(s.queue) > maxParts || s.bytes > maxPartBytes) {
		s.fallBehindLocked(s.queue[0].revision - 1)
	}
	poke(s.wake)
}

// cut is what of p matches: keys with the same beginning stand together.
func (s *subscription) cut(p part) part {
	events := p.events[p.from:p.to]
	from, _ := slices.BinarySearchFunc(events, s.filter.Text, func(e kv.Event, text string) int { return strings.Compare(e.Entry.Key, text) })
	to := from
	for to < len(events) && s.filter.Match(events[to].Entry.NS, events[to].Entry.Key) {
		to++
	}
	return part{p.change, p.from + from, p.from + to}
}

// fallBehind is for when the hub itself has missed something after since.
func (s *subscription) fallBehind(since kv.Revision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind {
		return
	}
	if len(s.queue) > 0 {
		since = s.queue[0].revision - 1
	}
	s.fallBehindLocked(since)
	poke(s.wake)
}

func (s *subscription) fallBehindLocked(since kv.Revision) {
	s.hub.behind.Add(1)
	s.queue, s.bytes = nil, 0
	s.behind, s.since = true, since
}

// piece is something a stream is told: the kinds are those of kv.Watch.
type piece struct {
	kind     kv.NoticeKind
	parts    []part
	revision kv.Revision // where the stream stands after it
}

// poll is what there is to tell, without waiting for it; false if there is nothing.
func (s *subscription) poll(ctx context.Context) (piece, bool, error) {
	for {
		if s.state != nil {
			p, err := s.nextState()
			return p, err == nil, err
		}
		if !s.catching {
			told := kv.Revision(s.hub.told.Load()) // before the queue is looked at: what was told is in it
			parts := s.take()
			if !s.catching {
				return s.live(parts, told)
			}
		}
		p, err := s.catchUp(ctx)
		if err != nil || len(p.parts) > 0 || p.kind == kv.Resync {
			return p, err == nil, err
		}
	}
}

// take empties the queue. What is offered from now on is queued again, also if
// something was dropped before: it comes after all that catchUp will read, or is
// known by its revision.
func (s *subscription) take() []part {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := s.queue
	s.queue, s.bytes = nil, 0
	if s.behind {
		s.behind, s.catching = false, true
		s.position = max(s.position, s.since)
	}
	return parts
}

// live returns what was queued, of which catchUp or the state may have been ahead.
func (s *subscription) live(parts []part, told kv.Revision) (piece, bool, error) {
	for len(parts) > 0 && parts[0].revision <= s.position {
		parts = parts[1:]
	}
	if len(parts) == 0 {
		s.position = max(s.position, told)
		return piece{}, false, nil
	}
	s.position = parts[len(parts)-1].revision
	return piece{kind: kv.Changed, parts: parts, revision: s.position}, true, nil
}

// catchUp reads back a piece of what follows position. catching ends when nothing
// does.
func (s *subscription) catchUp(ctx context.Context) (piece, error) {
	if s.position >= s.target {
		s.target = s.hub.store.Revision()
	}
	changes, err := s.hub.store.Changes(ctx, s.position, readBack)
	switch {
	case codes.Of(err) == codes.Compacted:
		s.catching, s.state = false, &stateReader{}
		return piece{kind: kv.Resync}, nil
	case err != nil:
		return piece{}, err
	case len(changes) == 0:
		s.catching = false
		return piece{}, nil
	}
	s.position = changes[len(changes)-1].Revision
	return piece{kind: kv.Changed, parts: s.coalesce(changes), revision: s.position}, nil
}

// coalesce leaves out what is written over later in changes, or has been when target
// was the newest revision: that is told when its turn comes, so who fell behind gets
// there sooner, whatever waits in between. What is written over since target counts
// as new, or a stream would learn nothing of a key that is written all the time.
func (s *subscription) coalesce(changes []kv.Change) (parts []part) {
	type id struct{ ns, key string }
	left := map[id]int{} // events to come
	selected := make([][]kv.Event, len(changes))
	for i := range changes {
		selected[i] = s.filter.Select(changes[i].Events)
		for _, e := range selected[i] {
			left[id{e.Entry.NS, e.Entry.Key}]++
		}
	}
	for i, events := range selected {
		var kept []kv.Event
		for _, e := range events {
			at := id{e.Entry.NS, e.Entry.Key}
			if left[at]--; left[at] == 0 && !s.overwritten(e.Entry) {
				kept = append(kept, e)
			}
		}
		if len(kept) > 0 {
			parts = append(parts, part{newChange(changes[i].Revision, kept), 0, len(kept)})
		}
	}
	return parts
}

func (s *subscription) overwritten(e *kv.Entry) bool {
	now, _ := s.hub.store.Get([]byte(e.NS), []byte(e.Key))
	return now != nil && now.Mod > e.Mod && now.Mod <= s.target
}
