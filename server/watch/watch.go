// Package watch serves watches on keys of the state store and on documents: it handles KVWATCH and
// KVUNWATCH, and sends KVEVENT.
package watch

import (
	"slices"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
)

// watch is one session's watch on some keys of the state store. It belongs to the
// session's loop; while a worker is busy with it, its cursor belongs to the worker.
//
// A watch is live or behind. The fan-out of its loop sends a live watch each change as it
// happens. A watch falls behind when its session's output is too long, or if it begins in
// the past. Then nothing is queued for it, and workers read what it misses from the
// store's log, piece by piece as the peer reads, until it has caught up with the live
// watches of its loop. If the log does not go back far enough, the watch gets a resync and
// the whole state.
type watch struct {
	// set at open
	of    *watches
	id    uint32
	form  form
	path  string // only of what changes there; empty: everything
	topic *topic
	count edge.Watch
	// reveal reveals what the peer may know; nil: nothing. Only a worker uses it, while busy.
	reveal *edge.Revealer

	cursor *follow.Cursor // its position; the loop's, or a worker's while busy

	// loop only
	place  int // in the topic
	behind bool
	busy   bool // a worker has it
	served bool // it has had its turn in catching up
	dead   bool
	marked kv.Revision // of the last frame

	halfway bool // the worker's while busy: a revision has been begun
}

// form is the encoding of a watch's events.
type form uint8

// The forms combine these.
const (
	withPrev form        = 1 << iota // with the previous entry
	withRaw                          // of keys: octets after the JSON
	forms    = 1 << iota             // how many there are

	withPaths = withRaw // of documents: the paths that have changed
)

// Handlers serve the watches on a state store, or on documents.
type Handlers struct {
	// set at open
	gate *gate.Gate
	kind *kind

	unfollow func() // ends what Follow began; nil before
	catchUps catchUps
	source   follow.Source
}

// Add makes g serve watches on store.
func Add(g *gate.Gate, store follow.Store) *Handlers { return add(g, ofKeys, store) }

func add(g *gate.Gate, kind *kind, store follow.Store) *Handlers {
	f := &Handlers{gate: g, kind: kind}
	f.catchUps.work = g.Group.Work
	f.source.Store, f.source.Piece, f.source.Holders, f.source.Long = store, readBackBytes, maxHolders, g.Group.Memory
	g.Add(map[protocol.Command]gate.Route{
		kind.watch:   {Handle: f.watch, Tailed: kind.tailed, Strict: true},
		kind.unwatch: {Handle: f.unwatch, Tailed: kind.tailed, Strict: true},
	})
	g.Keep(kind.family, func(d *gate.Local) any { return newHub(d.Loop) })
	return f
}

// watches are a session's watches.
type watches struct {
	// set at open
	f   *Handlers
	s   *gate.Session
	hub *hub

	// loop only
	byID   map[uint32]*watch
	last   uint32   // the last id assigned
	behind []*watch // in the order of their turns, including busy ones
	busy   bool     // a worker is catching up for this session
}

// watchesOf returns the session's watches.
func (f *Handlers) watchesOf(s *gate.Session) *watches {
	if k, ok := s.Part(f.kind.family).(*watches); ok {
		return k
	}
	k := &watches{f: f, s: s, hub: f.hubOf(s.Local), byID: make(map[uint32]*watch)}
	s.SetPart(f.kind.family, k)
	return k
}

// ReadOn is called when the peer has read more of its output.
func (k *watches) ReadOn() { k.catchUp() }

// Ended ends all watches.
func (k *watches) Ended() {
	for _, w := range k.byID {
		w.end()
	}
	clear(k.byID)
	k.behind = nil
}

func (k *watches) Describe(info *roster.Client, room int) {
	info.Watches += len(k.byID)
	if k.f.kind != ofKeys {
		return // what it watches has no namespace
	}
	for _, w := range k.byID {
		if len(info.Watching) == room {
			break
		}
		info.Watching = append(info.Watching, w.cursor.Filter())
	}
}

func sizeOf(f kv.Filter, path string) int64 {
	return int64(memory.WatchCost + len(f.NS) + len(f.Text) + len(path))
}

// watch answers KVWATCH and CFWATCH. The reply comes first; then follows everything that happens after
// the revision in the reply, or after `from`.
func (f *Handlers) watch(s *gate.Session, h protocol.Header, _ []byte) bool {
	want, err := f.kind.read(&s.Local.Req)
	if err == nil {
		err = s.Judge(f.kind.about(s.Things(), want.Filter))
	}
	watches := f.watchesOf(s)
	var w *watch
	var rev kv.Revision
	if err == nil {
		w, rev, err = watches.add(want)
	}
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	s.End(protocol.AppendKVWatching(s.Begin(h.Command.Reply(), h.Seq), rev, w.id))
	s.FlushReplies()
	watches.catchUp()
	return true
}

// add makes the watch and returns the store's revision.
func (k *watches) add(want request) (*watch, kv.Revision, error) {
	g := k.s.Group()
	if max := k.s.Limits().Watches; len(k.byID) >= max {
		g.Count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "a connection may hold %d watches; end some with %s", max, k.f.kind.unwatch)
	}
	size := sizeOf(want.Filter, want.path)
	if !g.Memory.Fits(size) {
		g.Count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "the memory for what peers hold is used up; try again later")
	}
	ns := ""
	if k.f.kind == ofKeys {
		ns = want.Filter.NS
	}
	count, err := k.s.Watch(ns)
	if err != nil {
		g.Count.WatchLimit.Add(1)
		return nil, 0, err
	}
	// The order matters: once the loop counts a watch, everything that becomes visible is
	// posted to it, and what was visible before is in rev.
	first := k.hub.watched.Add(1) == 1
	cursor, rev, err := k.f.source.Open(want.Request)
	if err != nil {
		k.hub.watched.Add(-1)
		count.End()
		return nil, 0, err
	}
	if first {
		k.hub.told = max(k.hub.told, rev)
	}
	g.Memory.Add(size)
	g.Count.Watches.Add(1)
	k.last++
	w := &watch{of: k, id: k.last, cursor: cursor, form: want.form, path: want.path, count: count, marked: rev}
	if want.reveals {
		w.reveal = k.s.Revealer(true)
	}
	k.byID[w.id] = w
	k.hub.add(w)
	if want.State || cursor.At().Rev < rev {
		w.fallBehind()
	}
	return w, rev, nil
}

// unwatch answers KVUNWATCH and CFUNWATCH. Nothing of the watch follows the reply.
func (f *Handlers) unwatch(s *gate.Session, h protocol.Header, _ []byte) bool {
	id, err := s.Local.Req.KVUnwatch()
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	k := f.watchesOf(s)
	w := k.byID[id]
	if w == nil {
		s.Refuse(h, codes.Errorf(codes.NotFound, "watch %d does not exist or has ended", id))
		return true
	}
	w.end()
	delete(k.byID, id)
	k.behind = slices.DeleteFunc(k.behind, func(other *watch) bool { return other == w })
	s.Result(h, 0, "success")
	return true
}

// end releases everything except the session's own references.
func (w *watch) end() {
	w.dead = true
	if !w.busy {
		w.cursor.Close()
	}
	hub, g := w.of.hub, w.of.s.Group()
	hub.remove(w)
	hub.watched.Add(-1)
	w.count.End()
	g.Count.Watches.Add(-1)
	g.Memory.Give(sizeOf(w.cursor.Filter(), w.path))
}
