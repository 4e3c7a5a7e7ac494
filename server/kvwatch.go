package server

import (
	"context"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/protocol"
)

// kvWatch is one session's wish to be told what happens to some keys of the state
// store. It belongs to the session's loop; while a worker is at it, its cursor is
// the worker's.
//
// A watch is live or behind. A live one is sent each change by the fan-out of its
// loop as it happens. Once its session has more to read than it should, or if the
// watch begins in the past, it is behind: nothing is queued for it, and workers
// read back what it misses from the store's log, piece by piece as the peer reads,
// until it has reached what its loop has told the others. If the log does not
// reach back far enough, it is told to forget everything and given the state.
type kvWatch struct {
	// set at open
	of    *kvWatches
	id    uint32
	form  kvForm
	topic *kvTopic

	cursor *follow.Cursor // how far it has been told; the loop's, or a worker's while busy

	// loop only
	place  int // in the topic
	behind bool
	busy   bool // a worker is at it
	served bool // its turn in catching up is over
	dead   bool
}

// kvForm is how a watch wants its events encoded.
type kvForm uint8

// The forms combine these.
const (
	kvPrev  kvForm      = 1 << iota // with the entry before
	kvRaw                           // octets behind the JSON
	kvForms = 1 << iota             // how many there are
)

// watchHandlers serve the watches on a state store.
type watchHandlers struct {
	// set at open
	gate *gate
	life context.Context // of what workers read

	unfollow func() // ends what Follow began; nil before
	catchUps kvCatchUps
	source   follow.Source
}

// addWatches has g serve watches on store. Workers read it for as long as life lasts.
func addWatches(life context.Context, g *gate, store kv.Store) *watchHandlers {
	f := &watchHandlers{gate: g, life: life}
	f.catchUps.work = g.group.work
	f.source.Store, f.source.Piece, f.source.Holders = store, kvReadBack, kvHolders
	g.add(map[protocol.Command]route{
		protocol.KVWatch:   {handle: f.kvWatch, tailed: true},
		protocol.KVUnwatch: {handle: f.kvUnwatch, tailed: true},
	})
	g.keep(ofWatch, func(d *desk) any { return newKVHub(d.loop) })
	return f
}

// kvWatches are a session's watches.
type kvWatches struct {
	// set at open
	f   *watchHandlers
	s   *session
	hub *kvHub

	// loop only
	byID   map[uint32]*kvWatch
	last   uint32     // id given out last
	behind []*kvWatch // whose turn it is first; those a worker is at included
	busy   bool       // a worker is catching up for this session
}

// watchesOf is the session's.
func (f *watchHandlers) watchesOf(s *session) *kvWatches {
	if k, ok := s.part(ofWatch).(*kvWatches); ok {
		return k
	}
	k := &kvWatches{f: f, s: s, hub: hubOf(s.desk), byID: make(map[uint32]*kvWatch)}
	s.setPart(ofWatch, k)
	return k
}

// readOn is called when the peer has read on.
func (k *kvWatches) readOn() { k.catchUp() }

// ended ends all watches.
func (k *kvWatches) ended() {
	for _, w := range k.byID {
		w.end()
	}
	clear(k.byID)
	k.behind = nil
}

func (k *kvWatches) describe(info *ClientInfo, room int) {
	info.Watches = len(k.byID)
	for _, w := range k.byID {
		if len(info.Watching) == room {
			break
		}
		info.Watching = append(info.Watching, w.cursor.Filter())
	}
}

// kvWatchCost is about what a watch holds beside its texts, in bytes: itself, its
// topic and its places in maps.
const kvWatchCost = 512

func kvWatchSize(f kv.Filter) int { return kvWatchCost + len(f.NS) + len(f.Text) }

// kvWatch answers KVWATCH. Everything that happens after the revision answered, or
// after `from`, is told, and the reply is first.
func (f *watchHandlers) kvWatch(s *session, h protocol.Header, _ []byte) bool {
	want, err := s.desk.req.KVWatch()
	watches := f.watchesOf(s)
	var w *kvWatch
	var rev kv.Revision
	if err == nil {
		w, rev, err = watches.add(want)
	}
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	s.end(protocol.AppendKVWatching(s.begin(h.Command.Reply(), h.Seq), rev, w.id))
	s.flushReplies()
	watches.catchUp()
	return true
}

// add makes the watch and says at which revision the store is.
func (k *kvWatches) add(want protocol.KVWatchRequest) (*kvWatch, kv.Revision, error) {
	g := k.s.group()
	if max := k.s.limits().Watches; len(k.byID) >= max {
		g.count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "a connection may hold %d watches; end some with KVUNWATCH", max)
	}
	size := kvWatchSize(want.Filter)
	if !g.memory.fits(size) {
		g.count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "the memory for what peers hold is used up; try again later")
	}
	request := follow.Request{Filter: want.Filter, From: want.From, Past: want.Past, State: want.State}
	if want.Coalesce {
		request.Spare = follow.Joined
	}
	// The order matters: from the moment the loop is watched, it is posted whatever
	// becomes visible, and what was visible before is in rev.
	first := k.hub.watched.Add(1) == 1
	cursor, rev, err := k.f.source.Open(request)
	if err != nil {
		k.hub.watched.Add(-1)
		return nil, 0, err
	}
	if first {
		k.hub.told = max(k.hub.told, rev)
	}
	g.memory.add(size)
	g.count.Watches.Add(1)
	k.last++
	w := &kvWatch{of: k, id: k.last, cursor: cursor}
	if want.Prev {
		w.form |= kvPrev
	}
	if want.Raw {
		w.form |= kvRaw
	}
	k.byID[w.id] = w
	k.hub.add(w)
	if want.State || cursor.At().Rev < rev {
		w.fallBehind()
	}
	return w, rev, nil
}

// kvUnwatch answers KVUNWATCH. Nothing of the watch follows the reply.
func (f *watchHandlers) kvUnwatch(s *session, h protocol.Header, _ []byte) bool {
	id, err := s.desk.req.KVUnwatch()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	k := f.watchesOf(s)
	w := k.byID[id]
	if w == nil {
		s.refuseState(h, codes.Errorf(codes.NotFound, "watch %d does not exist or has ended", id))
		return true
	}
	w.end()
	delete(k.byID, id)
	k.behind = slices.DeleteFunc(k.behind, func(other *kvWatch) bool { return other == w })
	s.result(h, 0, "success")
	return true
}

// end lets go of everything but the session's own references.
func (w *kvWatch) end() {
	w.dead = true
	if !w.busy {
		w.cursor.Close()
	}
	hub, g := w.of.hub, w.of.s.group()
	hub.remove(w)
	hub.watched.Add(-1)
	g.count.Watches.Add(-1)
	g.memory.sub(kvWatchSize(w.cursor.Filter()))
}
