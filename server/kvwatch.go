package server

import (
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
	session *session
	id      uint32
	form    kvForm
	topic   *kvTopic

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

// kvWatches are a session's watches.
type kvWatches struct {
	byID   map[uint32]*kvWatch
	last   uint32     // id given out last
	behind []*kvWatch // whose turn it is first; those a worker is at included
	busy   bool       // a worker is catching up for this session
}

// kvWatchCost is about what a watch holds beside its texts, in bytes: itself, its
// topic and its places in maps.
const kvWatchCost = 512

func kvWatchSize(f kv.Filter) int { return kvWatchCost + len(f.NS) + len(f.Text) }

// kvWatch answers KVWATCH. Everything that happens after the revision answered, or
// after `from`, is told, and the reply is first.
func (s *session) kvWatch(h protocol.Header, _ []byte) bool {
	want, err := s.loop.req.KVWatch()
	var w *kvWatch
	var rev kv.Revision
	if err == nil {
		w, rev, err = s.addWatch(want)
	}
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	s.end(protocol.AppendKVWatching(s.begin(h.Command.Reply(), h.Seq), rev, w.id))
	s.flushReplies()
	s.catchUpWatches()
	return true
}

// addWatch makes the watch and says at which revision the store is.
func (s *session) addWatch(want protocol.KVWatchRequest) (*kvWatch, kv.Revision, error) {
	if max := s.srv.cfg.Limits.Watches; s.kv != nil && len(s.kv.byID) >= max {
		s.srv.count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "a connection may hold %d watches; end some with KVUNWATCH", max)
	}
	size := kvWatchSize(want.Filter)
	if !s.srv.memory.fits(size) {
		s.srv.count.WatchLimit.Add(1)
		return nil, 0, codes.Errorf(codes.Limit, "the memory for what peers hold is used up; try again later")
	}
	request := follow.Request{Filter: want.Filter, From: want.From, Past: want.Past, State: want.State}
	if want.Coalesce {
		request.Spare = follow.Joined
	}
	// The order matters: from the moment the loop is watched, it is posted whatever
	// becomes visible, and what was visible before is in rev.
	first := s.loop.kv.watched.Add(1) == 1
	cursor, rev, err := s.srv.feed.source.Open(request)
	if err != nil {
		s.loop.kv.watched.Add(-1)
		return nil, 0, err
	}
	if first {
		s.loop.kv.told = max(s.loop.kv.told, rev)
	}
	s.srv.memory.add(size)
	s.srv.count.Watches.Add(1)
	if s.kv == nil {
		s.kv = &kvWatches{byID: make(map[uint32]*kvWatch)}
	}
	s.kv.last++
	w := &kvWatch{session: s, id: s.kv.last, cursor: cursor}
	if want.Prev {
		w.form |= kvPrev
	}
	if want.Raw {
		w.form |= kvRaw
	}
	s.kv.byID[w.id] = w
	s.loop.kv.add(w)
	if want.State || cursor.At().Rev < rev {
		w.fallBehind()
	}
	return w, rev, nil
}

// kvUnwatch answers KVUNWATCH. Nothing of the watch follows the reply.
func (s *session) kvUnwatch(h protocol.Header, _ []byte) bool {
	id, err := s.loop.req.KVUnwatch()
	if err != nil {
		s.refuseState(h, err)
		return true
	}
	w := s.watch(id)
	if w == nil {
		s.refuseState(h, codes.Errorf(codes.NotFound, "watch %d does not exist or has ended", id))
		return true
	}
	w.end()
	delete(s.kv.byID, id)
	s.kv.behind = slices.DeleteFunc(s.kv.behind, func(other *kvWatch) bool { return other == w })
	s.result(h, 0, "success")
	return true
}

func (s *session) watch(id uint32) *kvWatch {
	if s.kv == nil {
		return nil
	}
	return s.kv.byID[id]
}

// end lets go of everything but the session's own references.
func (w *kvWatch) end() {
	s := w.session
	w.dead = true
	if !w.busy {
		w.cursor.Close()
	}
	s.loop.kv.remove(w)
	s.loop.kv.watched.Add(-1)
	s.srv.count.Watches.Add(-1)
	s.srv.memory.sub(kvWatchSize(w.cursor.Filter()))
}

// dropWatches ends all watches of a session that is lost.
func (s *session) dropWatches() {
	if s.kv == nil {
		return
	}
	for _, w := range s.kv.byID {
		w.end()
	}
	clear(s.kv.byID)
	s.kv.behind = nil
}
