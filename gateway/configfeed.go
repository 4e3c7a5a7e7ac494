package gateway

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"sync"

	"confcenter/confstore"
	"confcenter/internal/clock"
)

// configFeed feeds the streams of configuration changes. It keeps names, not
// events: a stream sends the state that a file has when the stream gets to it. So a
// stream that has fallen behind costs nothing, and the others send every change.
type configFeed struct {
	// set at open
	store    *confstore.Store
	start    uint64 // sequence at the start of the feed
	unfollow func()
	spare    int           // how many noted names beyond those of the documents are kept; above it all notes are dropped
	wake     chan struct{} // capacity 1: the store has left something
	stop     chan struct{}
	done     chan struct{}

	left mailbox

	mu sync.Mutex
	// guarded by mu
	notes
	streams map[chan struct{}]struct{}
	last    digest
}

// mailbox is where the store leaves what it has published.
type mailbox struct {
	mu sync.Mutex
	// guarded by mu
	sights []sight
	lost   bool // there was too much
}

type sight struct {
	now   *confstore.Snapshot
	names []string
}

// notes are what was noted, each by its tick.
type notes struct {
	now     *confstore.Snapshot
	tick    uint64           // counts what was noted
	touched map[string]touch // the last note of each name
	recent  []note           // the last notes, oldest first
	cut     bool             // recent no longer starts at the first note
	floor   configPosition   // notes up to here were dropped
}

// touch is the last note of a name.
type touch struct {
	tick, seq uint64
	// loose notes have no sequence of their own: a file broke or healed.
	loose bool
}

type note struct {
	tick uint64
	name string
}

// change is a file to tell of.
type change struct {
	name string
	seq  uint64 // of its last change; 0 if it was never valid
}

// digest is what since returned last: streams that keep up all ask the same.
type digest struct {
	from, to configPosition
	changes  []change
}

// Bounds of a feed.
const (
	maxRecent = 8192 // notes that are found without scanning all names
	maxSpare  = 100_000
	maxLeft   = 1024 // publications that are not noted yet
)

// newConfigFeed follows store. It returns nil if store is nil.
func newConfigFeed(store *confstore.Store) *configFeed {
	if store == nil {
		return nil
	}
	f := &configFeed{
		store: store, spare: maxSpare, streams: map[chan struct{}]struct{}{}, notes: notes{touched: map[string]touch{}},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfollow = store.Follow(f.note)
	f.now = store.Snapshot()
	f.start = f.now.Seq()
	go f.run()
	return f
}

func (f *configFeed) close() {
	f.unfollow()
	close(f.stop)
	<-f.done
}

// note runs on the store's goroutine, while the writer waits. So it only leaves
// what is to be noted.
func (f *configFeed) note(now *confstore.Snapshot, names []string) {
	f.left.mu.Lock()
	if len(f.left.sights) == maxLeft {
		f.left.sights, f.left.lost = nil, true
	}
	f.left.sights = append(f.left.sights, sight{now, names})
	f.left.mu.Unlock()
	clock.Nudge(f.wake)
}

// run notes what the store has left, and wakes the streams.
func (f *configFeed) run() {
	defer close(f.done)
	for {
		select {
		case <-f.stop:
			return
		case <-f.wake:
		}
		f.mu.Lock()
		f.catchUp()
		streams := slices.AppendSeq(make([]chan struct{}, 0, len(f.streams)), maps.Keys(f.streams))
		f.mu.Unlock()
		for i, wake := range streams {
			if clock.Nudge(wake); i%maxNotes == maxNotes-1 {
				runtime.Gosched()
			}
		}
	}
}

// catchUp notes what the store has left. mu is held.
func (f *configFeed) catchUp() {
	f.left.mu.Lock()
	sights, lost := f.left.sights, f.left.lost
	f.left.sights, f.left.lost = nil, false
	f.left.mu.Unlock()
	for _, s := range sights {
		f.add(s)
	}
	if lost || len(f.touched) > len(f.now.Names())+f.spare {
		f.tick++
		clear(f.touched)
		f.recent, f.cut, f.floor = nil, false, configPosition{f.tick, f.now.Seq()}
	}
}

func (n *notes) add(s sight) {
	prev := n.now
	n.now = s.now
	n.tick++
	for _, name := range s.names {
		n.touched[name] = touch{n.tick, s.now.Seq(), seqOf(s.now, name) <= seqOf(prev, name)}
		n.recent = append(n.recent, note{n.tick, name})
	}
	if len(n.recent) > maxRecent {
		n.recent, n.cut = slices.Clone(n.recent[len(n.recent)-maxRecent/2:]), true
	}
}

func seqOf(s *confstore.Snapshot, name string) uint64 {
	if n := s.Node(name); n != nil {
		return n.Seq()
	}
	return 0
}

// configPosition is how far a stream has got.
type configPosition struct {
	tick, seq uint64
}

// join sends to wake, which has capacity 1, when there is something new.
func (f *configFeed) join(wake chan struct{}) (leave func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[wake] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, wake)
	}
}

// present returns the newest snapshot and its position.
func (f *configFeed) present() (*confstore.Snapshot, configPosition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catchUp()
	return f.now, configPosition{f.tick, f.now.Seq()}
}

// since returns the files noted after a position, in the order in which to tell of
// them, or false if those notes were dropped. Its result is shared.
func (f *configFeed) since(p configPosition) ([]change, configPosition, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catchUp()
	next := configPosition{f.tick, f.now.Seq()}
	switch {
	case p.tick < f.floor.tick:
		return nil, next, false
	case p.tick == f.tick:
		return nil, next, true
	case f.last.from == p && f.last.to == next:
		return f.last.changes, next, true
	}
	names := map[string]struct{}{}
	if f.cut && p.tick < f.recent[0].tick {
		for name, t := range f.touched {
			if t.tick > p.tick {
				names[name] = struct{}{}
			}
		}
	} else {
		for i := len(f.recent) - 1; i >= 0 && f.recent[i].tick > p.tick; i-- {
			names[f.recent[i].name] = struct{}{}
		}
	}
	f.last = digest{p, next, inOrder(f.now, names, p.seq)}
	return f.last.changes, next, true
}

// missed returns the files that a client who knows everything up to a sequence has
// missed, or false if that is unknown.
func (f *configFeed) missed(seq uint64) ([]change, configPosition, bool) {
	f.mu.Lock()
	f.catchUp()
	now, next := f.now, configPosition{f.tick, f.now.Seq()}
	known := seq <= now.Seq() && (f.floor.tick == 0 || seq > f.floor.seq)
	names := map[string]struct{}{}
	for name, t := range f.touched {
		if t.loose && t.seq >= seq {
			names[name] = struct{}{}
		}
	}
	f.mu.Unlock()
	if !known {
		return nil, next, false
	}
	for _, name := range now.Names() {
		node := now.Node(name)
		// No note has what broke before the feed started.
		if node.Seq() > seq || seq <= f.start && node.Broken() != "" {
			names[name] = struct{}{}
		}
	}
	if seq <= f.start {
		for _, fault := range f.store.Faults() {
			names[fault.Name] = struct{}{}
		}
	}
	return inOrder(now, names, seq), next, true
}

// inOrder sorts the files by sequence. Those without a sequence after the given one
// come first.
func inOrder(now *confstore.Snapshot, names map[string]struct{}, seq uint64) []change {
	list := make([]change, 0, len(names))
	for name := range names {
		list = append(list, change{name, (&fileState{node: now.Node(name)}).seq()})
	}
	slices.SortFunc(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(max(seq, a.seq), max(seq, b.seq)), cmp.Compare(a.name, b.name))
	})
	return list
}

// seq is the sequence of the file's last change; 0 if it was never valid.
func (f *fileState) seq() uint64 {
	if !f.known() {
		return 0
	}
	return f.node.Seq()
}
