package gateway

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"confcenter/confstore"
)

// configFeed feeds the streams of configuration changes. It keeps names, not
// events: a stream sends the state that a file has when the stream gets to it. So a
// stream that has fallen behind costs nothing, and the others send every change.
type configFeed struct {
	// set at open
	store ConfigStore
	start uint64 // sequence at the start of the feed
	leave func() // stops following store
	spare int    // how many noted names beyond those of the documents are kept; above it all notes are dropped

	mu sync.Mutex

	// guarded by mu
	now     *confstore.Snapshot
	tick    uint64           // counts what was noted
	touched map[string]touch // the last note of each name
	recent  []note           // the last notes, oldest first
	cut     bool             // recent no longer starts at the first note
	floor   configPosition   // notes up to here were dropped
	streams map[chan struct{}]struct{}
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

// Bounds of a feed.
const (
	maxRecent = 8192 // notes that are found without scanning all names
	maxSpare  = 100_000
)

// newConfigFeed follows store. It returns nil if store is nil.
func newConfigFeed(store ConfigStore) *configFeed {
	if store == nil {
		return nil
	}
	f := &configFeed{store: store, spare: maxSpare, touched: map[string]touch{}, streams: map[chan struct{}]struct{}{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave = store.Follow(f.note)
	f.now = store.Snapshot()
	f.start = f.now.Seq()
	return f
}

// note runs on the store's goroutine.
func (f *configFeed) note(now *confstore.Snapshot, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prev := f.now
	f.now = now
	f.tick++
	for _, name := range names {
		f.touched[name] = touch{f.tick, now.Seq(), seqOf(now, name) <= seqOf(prev, name)}
		f.recent = append(f.recent, note{f.tick, name})
	}
	if len(f.recent) > maxRecent {
		f.recent, f.cut = slices.Clone(f.recent[len(f.recent)-maxRecent/2:]), true
	}
	if len(f.touched) > len(now.Names())+f.spare {
		clear(f.touched)
		f.recent, f.cut, f.floor = nil, false, configPosition{f.tick, now.Seq()}
	}
	for wake := range f.streams {
		select {
		case wake <- struct{}{}:
		default:
		}
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
	return f.now, configPosition{f.tick, f.now.Seq()}
}

// since returns the files noted after a position, in the order in which to send
// them, or false if those notes were dropped.
func (f *configFeed) since(p configPosition) ([]fileState, configPosition, bool) {
	f.mu.Lock()
	now, next, known := f.now, configPosition{f.tick, f.now.Seq()}, p.tick >= f.floor.tick
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
	f.mu.Unlock()
	if !known {
		return nil, next, false
	}
	return f.inOrder(now, names, p.seq), next, true
}

// missed returns the files that a client who knows everything up to a sequence has
// missed, or false if that is unknown.
func (f *configFeed) missed(seq uint64) ([]fileState, configPosition, bool) {
	f.mu.Lock()
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
	return f.inOrder(now, names, seq), next, true
}

// inOrder sorts the files by sequence. Those without a sequence after the given one
// come first.
func (f *configFeed) inOrder(now *confstore.Snapshot, names map[string]struct{}, seq uint64) []fileState {
	files := make([]fileState, 0, len(names))
	for name := range maps.Keys(names) {
		file, _ := fileOf(f.store, now, name)
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b fileState) int {
		return cmp.Or(cmp.Compare(max(seq, a.seq()), max(seq, b.seq())), cmp.Compare(a.name, b.name))
	})
	return files
}

// seq is the sequence of the file's last change; 0 if it was never valid.
func (f *fileState) seq() uint64 {
	if !f.known() {
		return 0
	}
	return f.node.Seq()
}
