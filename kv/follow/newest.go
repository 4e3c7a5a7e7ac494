package follow

import (
	"cmp"
	"container/list"
	"maps"
	"slices"
	"sync"

	"confcenter/internal/clock"
)

// State is what a store has published; it never changes.
type State interface {
	Seq() uint64
	// Names are those that are known.
	Names() []string
	// SeqOf is the sequence of a name's last change, and whether the name is known.
	SeqOf(name string) (seq uint64, known bool)
}

// Newest follows a store for those who are told the newest state of each name and not each of its
// changes. It keeps names, not states: a follower looks the state up when it gets to it. So one that
// has fallen behind costs nothing, and is told once of what has changed often.
type Newest[S State] struct {
	// set at open
	unfollow func()
	spare    int // see NewNewest
	left     Queue[sight[S]]
	worker   worker

	mu sync.Mutex
	// guarded by mu
	now       S
	tick      uint64                   // counts what was noted
	notes     *list.List               // of note, one for each name, oldest first
	of        map[string]*list.Element // the note of each name
	floor     Position                 // notes up to here were dropped
	followers map[chan struct{}]struct{}
	last      digest
}

// sight is what a store has published, and of which names it is told.
type sight[S State] struct {
	now   S
	names []string
	lost  bool // there were too many to keep their names
}

// note is the last that is known of a name.
type note struct {
	name      string
	tick, seq uint64
	// loose notes have no sequence of their own: something else than contents is new.
	loose bool
}

// News is a name to tell of.
type News struct {
	Name string
	Seq  uint64 // of its last change; 0 if it is not known
}

// Position is how far a follower has got.
type Position struct {
	Seq  uint64
	tick uint64
}

// digest is what Since returned last: followers that keep up all ask the same.
type digest struct {
	from, to Position
	news     []News
}

// maxLeft is how many publications are kept that are not noted yet.
const maxLeft = 1024

// NewNewest follows what is published from now on, and begins with now. It keeps spare names besides
// those that are known; above it all notes are dropped. Close it.
func NewNewest[S State](publisher func(fn func(now S, names []string)) (stop func()), now func() S, spare int) *Newest[S] {
	n := &Newest[S]{
		spare: spare,
		left: Queue[sight[S]]{
			Limit: maxLeft,
			Join:  func(_, next sight[S]) sight[S] { return sight[S]{now: next.now, lost: true} },
		},
		notes: list.New(), of: map[string]*list.Element{}, followers: map[chan struct{}]struct{}{},
	}
	n.worker.start(n.notify)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unfollow = publisher(n.leave)
	n.now = now()
	return n
}

// Close ends it. Its followers end by themselves.
func (n *Newest[S]) Close() {
	n.unfollow()
	n.worker.stop()
}

// leave runs on the store's goroutine, while the writer waits. So it only leaves what is to be noted.
func (n *Newest[S]) leave(now S, names []string) {
	n.left.Put(sight[S]{now: now, names: names}, 1)
	clock.Nudge(n.worker.wake)
}

// notify notes what the store has left, and wakes the followers.
func (n *Newest[S]) notify() {
	n.mu.Lock()
	n.catchUp()
	followers := slices.Collect(maps.Keys(n.followers))
	n.mu.Unlock()
	for _, wake := range followers {
		n.worker.notify(wake)
	}
}

// catchUp notes what the store has left, and returns how far that goes. mu is held.
func (n *Newest[S]) catchUp() Position {
	for s, ok := n.left.Take(); ok; s, ok = n.left.Take() {
		n.note(s)
		if s.lost || len(n.of) > len(n.now.Names())+n.spare {
			n.tick++
			clear(n.of)
			n.notes.Init()
			n.floor = Position{n.now.Seq(), n.tick}
		}
	}
	return Position{n.now.Seq(), n.tick}
}

func (n *Newest[S]) note(s sight[S]) {
	prev := n.now
	n.now = s.now
	n.tick++
	for _, name := range s.names {
		if old := n.of[name]; old != nil {
			n.notes.Remove(old)
		}
		before, _ := prev.SeqOf(name)
		after, _ := s.now.SeqOf(name)
		n.of[name] = n.notes.PushBack(note{name, n.tick, s.now.Seq(), after <= before})
	}
}

// Join sends to wake, which has capacity 1, when there is something new.
func (n *Newest[S]) Join(wake chan struct{}) (leave func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.followers[wake] = struct{}{}
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.followers, wake)
	}
}

// Present returns the newest state and its position.
func (n *Newest[S]) Present() (S, Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.catchUp()
	return n.now, at
}

// Since returns the names noted after a position, in the order in which to tell of them, or false if
// those notes were dropped. Its result is shared.
func (n *Newest[S]) Since(p Position) ([]News, Position, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.catchUp()
	switch {
	case p.tick < n.floor.tick:
		return nil, next, false
	case p.tick == n.tick:
		return nil, next, true
	case n.last.from == p && n.last.to == next:
		return n.last.news, next, true
	}
	var names []string
	for e := n.notes.Back(); e != nil && e.Value.(note).tick > p.tick; e = e.Prev() {
		names = append(names, e.Value.(note).name)
	}
	n.last = digest{p, next, InOrder(n.now, names, p.Seq)}
	return n.last.news, next, true
}

// Resume begins for a follower that knows everything up to a sequence: it returns the newest state,
// its position, and the names noted since without a sequence of their own; false if that is not
// known.
func (n *Newest[S]) Resume(seq uint64) (now S, at Position, loose []string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at = n.catchUp()
	for e := n.notes.Back(); e != nil && e.Value.(note).seq >= seq; e = e.Prev() {
		if e.Value.(note).loose {
			loose = append(loose, e.Value.(note).name)
		}
	}
	return n.now, at, loose, seq <= n.now.Seq() && (n.floor.tick == 0 || seq > n.floor.Seq)
}

// InOrder sorts names by their sequences, each once. Those without one after seq come first.
func InOrder[S State](now S, names []string, seq uint64) []News {
	list := make([]News, 0, len(names))
	for _, name := range names {
		own, known := now.SeqOf(name)
		if !known {
			own = 0
		}
		list = append(list, News{name, own})
	}
	slices.SortFunc(list, func(a, b News) int {
		return cmp.Or(cmp.Compare(max(seq, a.Seq), max(seq, b.Seq)), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(list)
}
