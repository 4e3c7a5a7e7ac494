package http

import (
	"context"

	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kv/documents"
	"confcenter/kv/follow"
	"confcenter/server/http/sse"
)

// Limits of what is kept for streams. All streams share it with each other and with
// the store, so a stream that falls behind costs the others nothing: it reads back
// from the store's log.
const (
	recentBytes = 8 << 20 // of the newest changes
	maxHolders  = 4       // streams that may hold a whole state
	maxReads    = 4       // streams that read the log at a time
)

// hubKind is how hubs differ.
type hubKind struct {
	share int64        // it keeps one part in so many of what may be kept
	piece int          // see follow.Source
	spare follow.Spare // of its streams
	cut   follow.Cut
}

// The kinds. Documents keep their newest changes themselves, and beginning to read their log back
// costs more.
var (
	ofKeys      = hubKind{share: 1, piece: 16 << 10, spare: follow.Overwritten, cut: cut}
	ofDocuments = hubKind{share: 8, piece: 64 << 10, spare: follow.Nothing, cut: documentCut}
)

// cut bounds what a stream encodes at a time. A notice never has events of several
// revisions, and a long event is alone.
var cut = follow.Cut{Alone: true, Max: sse.Chunk, Cost: func(e *kv.Event) int { return memory.VersionCost + e.Entry.Size() }}

// hub is what the streams of a store share.
type hub struct {
	*follow.Exact
	kind   hubKind
	frames *sse.Frames[frameKey]
}

// newHub makes a hub that keeps changes and encoded events in the pool of streams.
func newHub(store follow.Store, streams *sse.Streams, kind hubKind) *hub {
	room := streams.Pool.Limit() / kind.share
	return &hub{
		Exact: follow.NewExact(follow.Config{
			Store: store, Pool: streams.Pool, Keep: int(min(recentBytes, room/2)), Piece: kind.piece, Holders: maxHolders, Readers: maxReads, Cut: kind.cut,
		}),
		kind:   kind,
		frames: sse.NewFrames[frameKey](streams, int(room/4)),
	}
}

// subscription is what one stream follows.
type subscription struct {
	*follow.Follower
	hub    *hub
	turn   *sse.Turn                   // of the stream
	path   string                      // of documents: the part that is told of; "": the whole
	reveal func([]kv.Event) []kv.Event // reveals what the reader may know; nil: nothing

	begun bool // with path: a part of a revision has been told
}

// subscribe follows what a stream asks for. It returns codes.FutureRevision if that
// has not been reached. The caller closes the subscription.
func (h *hub) subscribe(want follow.Request) (*subscription, error) {
	want.Spare = h.kind.spare
	f, err := h.Follow(want)
	if err != nil {
		return nil, err
	}
	return &subscription{Follower: f, hub: h}, nil
}

func (s *subscription) close() {
	s.Stop()
	if s.hub.Open() == 0 {
		s.hub.frames.Clear()
	}
}

// poll returns the next notice without waiting for one, or false if there is none. It has no
// events if none is about the path, and none that completes anything is marked More. What is no
// longer kept is read outside the stream's turn.
func (s *subscription) poll(ctx context.Context) (kv.Notice, bool, error) {
	for {
		n, ok, far, err := s.Take()
		if !far {
			if ok && s.reveal != nil {
				n.Events = s.reveal(n.Events)
			}
			if ok && s.path != "" {
				s.narrow(&n)
			}
			return n, ok, err
		}
		s.turn.End()
		err = s.ReadBack(ctx)
		if s.turn.Begin(); err != nil {
			return kv.Notice{}, false, err
		}
	}
}

// narrow reduces a notice to what is at the path.
func (s *subscription) narrow(n *kv.Notice) {
	for i := range n.Events { // there may be much in which nothing is told
		s.turn.Spend(s.hub.kind.cut.Cost(&n.Events[i]))
	}
	n.Events = documents.Narrow(n.Events, s.path, n.Kind == kv.State)
	if n.Kind == kv.Changed && len(n.Events) == 0 && !s.begun {
		n.More = true
		return
	}
	s.begun = n.Kind == kv.Changed && n.More
}

// frameOf returns the frame of an event that poll has returned, if others may need it,
// too. The caller releases it.
func (s *subscription) frameOf(e *kv.Event, state bool, form form) *sse.Frame {
	if s.reveal != nil {
		return nil
	}
	if cost := s.hub.kind.cut.Cost(e); cost < sse.Chunk && (!s.Live() || s.hub.Open() <= 1) {
		return nil
	}
	key := frameKeyOf(e, state, s.path, form)
	return s.hub.frames.Of(key, func() (text []byte, more int) {
		if key.entry != nil || key.state != nil { // it is kept
			more = e.Entry.Size()
		}
		if key.prev != nil {
			more += key.prev.Size()
		}
		return encoders[form](nil, e), more
	})
}

// frameKey names an event: of a key by the entries that streams share with the store and with each
// other, of a document by its revision. What a document is in a state its revision does not say,
// because others have a say in it.
type frameKey struct {
	entry, prev    *kv.Entry
	ns, name, path string
	mod            kv.Revision
	state          *byte // of the contents
	form           form
}

func frameKeyOf(e *kv.Event, state bool, path string, form form) frameKey {
	if form >= documentForm {
		key := frameKey{ns: e.Entry.NS, name: e.Entry.Key, path: path, mod: e.Entry.Mod, form: form}
		if state {
			key.state = &e.Entry.Value.Data[0]
		}
		return key
	}
	key := frameKey{entry: e.Entry, form: form}
	if form == ownPrevForm {
		key.prev = e.Prev
	}
	return key
}
