package gateway

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"confcenter/confstore"
)

// configFeed is what streams of configuration changes read. It keeps names, not
// events: a stream is told of the state that a file has when the stream gets to it,
// so that one that has fallen behind costs nothing and others are told of each
// change.
type configFeed struct {
	// set at open
	store ConfigStore
	start uint64 // sequence when the feed began
	leave func() // stops following store
	spare int    // names noted beyond those of the documents; then all notes are forgotten

	mu sync.Mutex

	// guarded by mu
	now     *confstore.Snapshot
	tick    uint64           // counts what was noted
	touched map[string]touch // the last note of each name
	recent  []note           // the last notes, oldest first
	cut     bool             // recent does not begin with the first note
	floor   configPosition   // notes up to it were forgotten
	streams map[chan struct{}]struct{}
}

// touch is when a name was noted last.
type touch struct {
	tick, seq uint64
	// loose: no sequence tells of it, as when a file breaks or heals.
	loose bool
}

type note struct {
	tick uint64
	name string
}

// Bounds of a feed.
const (
	maxRecent = 8192 // notes that are found without looking at all names
	maxSpare  = 100_000
)

// newConfigFeed follows store; nil if there is none.
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

// note is called by the store's goroutine.
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

// configPosition is how far a stream has been told.
type configPosition struct {
	tick, seq uint64
}

// join has wake, of capacity 1, receive when there is something new.
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

// present is the newest snapshot and the position of somebody who knows it.
func (f *configFeed) present() (*confstore.Snapshot, configPosition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, configPosition{f.tick, f.now.Seq()}
}

// since are the files noted after a position, in the order to tell them; false if
// the notes are forgotten.
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

// missed are the files that somebody has to be told of who was told of everything
// up to a sequence; false if that is not known.
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
		// What broke before the start is in no note.
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

// inOrder puts first what no sequence after the given one tells of, then what is
// told of by their sequences.
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

// seq is the sequence that tells of the file; 0 for one that was never good.
func (f *fileState) seq() uint64 {
	if !f.known() {
		return 0
	}
	return f.node.Seq()
}
