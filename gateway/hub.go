package gateway

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
)

// Limits of what is kept for streams. All streams share it with each other and with
// the store, so a stream that falls behind costs the others nothing: it reads back
// from the store's log.
const (
	recentBytes = 8 << 20  // of the newest changes
	hubBytes    = 1 << 20  // of changes that the hub looks at in one go
	pieceBytes  = 64 << 10 // of changes that a stream takes in one go
	maxHolders  = 4        // streams that may hold a whole state
	maxReads    = 4        // streams that read the log at a time
	maxNotes    = 16       // streams that are woken at a time
)

// hubKind is how hubs differ.
type hubKind struct {
	share int64        // it keeps one part in so many of what may be kept
	piece int          // see follow.Source
	spare follow.Spare // of its streams
}

// The kinds. Documents keep their newest changes themselves, and beginning to read their log back
// costs more.
var (
	ofKeys      = hubKind{share: 1, piece: 16 << 10, spare: follow.Overwritten}
	ofDocuments = hubKind{share: 8, piece: pieceBytes, spare: follow.Nothing}
)

// hub follows a store once for all streams, and wakes those whose filter matches.
type hub struct {
	source follow.Source
	spare  follow.Spare
	recent *follow.Recent
	frames *frames
	unhook func()
	wake   chan struct{} // capacity 1
	reads  chan struct{} // holds one per stream that reads the log
	stop   chan struct{}
	done   chan struct{}
	woken  int          // run only: streams since it last let others go first
	told   atomic.Int64 // every stream has been woken for changes up to this revision
	behind atomic.Uint64
	open   atomic.Int64 // subscriptions

	subs sync.RWMutex
	// guarded by subs: by the namespace of the filter; "" is all namespaces
	byNS map[string]map[*subscription]struct{}
}

// newHub makes a hub that keeps changes and encoded events in the pool of stalls.
func newHub(store follow.Store, stalls *stalls, kind hubKind) *hub {
	room := stalls.pool.Limit() / kind.share
	h := &hub{
		source: follow.Source{Store: store, Piece: kind.piece, Holders: maxHolders, Long: stalls.pool},
		spare:  kind.spare,
		recent: follow.NewRecent(int(min(recentBytes, room/2)), stalls.pool),
		frames: &frames{stalls: stalls, max: int(room / 4), young: map[frameKey]*frame{}},
		reads:  make(chan struct{}, maxReads),
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
	h.recent.Pass(h.source.Store.Revision()) // others may go on using the pool
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
	clock.Nudge(h.wake)
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
				h.note(s, told+1, chunk.After)
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
		h.note(s, c.Revision, kept)
	}
	for from := 0; from < len(c.Events); {
		ns := c.Events[from].Entry.NS
		to := from + 1
		for to < len(c.Events) && c.Events[to].Entry.NS == ns {
			to++
		}
		for s := range h.byNS[ns] {
			if s.wants(c.Events[from:to]) {
				h.note(s, c.Revision, kept)
			}
		}
		from = to
	}
}

// note notes a change for a stream. From time to time it lets everything else go first:
// there may be thousands.
func (h *hub) note(s *subscription, revision, kept kv.Revision) {
	s.note(revision, kept)
	if h.woken++; h.woken%maxNotes == 0 {
		runtime.Gosched()
	}
}

// subscription is what one stream follows. Only one goroutine at a time may call
// poll.
type subscription struct {
	hub    *hub
	filter kv.Filter
	wake   chan struct{}               // capacity 1
	turn   *turn                       // of the stream; nil in tests
	path   string                      // of documents: the part that is told of; "": the whole
	reveal func([]kv.Event) []kv.Event // reveals what the reader may know; nil: nothing
	cut    follow.Cut
	// opened is the newest revision when it began, if the store makes changes only for those who want
	// them: up to there the hub may have nothing for it.
	opened kv.Revision

	// the reader's
	cursor *follow.Cursor
	live   bool // what is at hand came from the hub, and later matches are noted
	part   bool // with live: the hub keeps more that is already noted
	begun  bool // with path: a part of a revision has been told

	pending atomic.Int64 // the first matching revision since the reader last looked; 0: none
	lagging atomic.Bool  // the hub no longer keeps what comes next
}

// subscribe follows what a stream asks for. It returns codes.FutureRevision if that
// has not been reached. The caller closes the subscription.
func (h *hub) subscribe(want follow.Request) (*subscription, error) {
	s := &subscription{hub: h, filter: want.Filter, cut: cut, wake: make(chan struct{}, 1), live: want.From == 0 && !want.Past && !want.State}
	s.lagging.Store(!s.live)
	h.subs.Lock()
	set := h.byNS[s.filter.NS]
	if set == nil {
		set = map[*subscription]struct{}{}
		h.byNS[s.filter.NS] = set
	}
	set[s] = struct{}{}
	if h.open.Add(1) == 1 {
		h.told.Store(int64(h.source.Store.Revision())) // nothing was noted in the meantime
	}
	h.subs.Unlock()
	// Only now, so that no change falls between what is read and what is followed.
	want.Spare = h.spare
	cursor, newest, err := h.source.Open(want)
	if err != nil {
		s.leave()
		return nil, err
	}
	if s.cursor = cursor; selective(h.source.Store) {
		s.opened = newest
	}
	return s, nil
}

func selective(store follow.Store) bool {
	_, is := store.(follow.Selective)
	return is
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
	clock.Nudge(s.wake)
}

// cut bounds what a stream encodes at a time. A notice never has events of several
// revisions, and a long event is alone.
var cut = follow.Cut{Alone: true, Max: sseChunk, Cost: func(e *kv.Event) int { return memory.VersionCost + e.Entry.Size() }}

// poll returns the next notice without waiting for one, or false if there is none. It has no
// events if none is about the path, and none that completes anything is marked More.
func (s *subscription) poll(ctx context.Context) (kv.Notice, bool, error) {
	for {
		n, ok, far := s.cursor.Take(s.since, s.cut)
		if !far {
			if ok && s.reveal != nil {
				n.Events = s.reveal(n.Events)
			}
			if ok && s.path != "" {
				s.narrow(&n)
			}
			return n, ok, nil
		}
		if err := s.fetch(ctx); err != nil {
			return kv.Notice{}, false, err
		}
	}
}

// narrow reduces a notice to what is at the path.
func (s *subscription) narrow(n *kv.Notice) {
	if s.turn != nil { // there may be much in which nothing is told
		for i := range n.Events {
			s.turn.spend(s.cut.Cost(&n.Events[i]))
		}
	}
	n.Events = documents.Narrow(n.Events, s.path, n.Kind == kv.State)
	if n.Kind == kv.Changed && len(n.Events) == 0 && !s.begun {
		n.More = true
		return
	}
	s.begun = n.Kind == kv.Changed && n.More
}

// fetch reads what the hub no longer keeps. The state is in memory. Reading the log may
// wait for a disk, so the stream does it outside its turn, and few do at a time.
func (s *subscription) fetch(ctx context.Context) error {
	if s.turn == nil || s.cursor.Telling() {
		return s.cursor.Fetch(ctx)
	}
	s.turn.end()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.hub.reads <- struct{}{}:
	}
	err := s.cursor.Fetch(ctx)
	<-s.hub.reads
	s.turn.begin()
	return err
}

// rest drops the changes that are at hand; poll reads them again.
func (s *subscription) rest() {
	if s.cursor.Drop() {
		s.live, s.part = false, false
	}
}

// since returns what the hub keeps after a revision. When a live stream has taken
// everything that was noted for it, nothing before the pending revision matches.
func (s *subscription) since(revision kv.Revision) follow.Chunk {
	if !s.part {
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
	if revision < s.opened {
		chunk = follow.Chunk{After: s.opened}
	}
	s.live, s.part = revision >= chunk.After, chunk.Part
	if was := s.lagging.Swap(!s.live); !was && !s.live {
		s.hub.behind.Add(1)
	}
	return chunk
}

// frameOf returns the frame of an event that poll has returned, if others may need it,
// too. The caller releases it.
func (s *subscription) frameOf(e *kv.Event, state bool, form form) *frame {
	if s.reveal != nil {
		return nil
	}
	if cost := s.cut.Cost(e); cost >= sseChunk || s.live && s.hub.open.Load() > 1 {
		return s.hub.frames.of(frameKeyOf(e, state, s.path, form), e)
	}
	return nil
}
