package watch

import (
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/protocol"
	"confcenter/server/tcp/loop"
)

// frameBytes is about the size of a frame of events. A single event may be longer.
const frameBytes = 48 << 10

// envelope is about the size of an event in a frame besides key and value, in bytes.
const envelope = 160

// frame is an encoded frame, for any watch of the same form.
type frame struct {
	bytes       []byte
	from, to    follow.Mark // a watch's position before and after it
	first, last kv.Revision // of its events
}

func cost(e *kv.Event, form form) int {
	n := envelope + len(e.Entry.NS) + quotedSize(e.Entry, form)
	if form&withPrev != 0 && e.Prev != nil {
		n += envelope + quotedSize(e.Prev, form)
	}
	return n
}

func quotedSize(e *kv.Entry, form form) int {
	n := len(e.Value.Data)
	if e.Value.Type.Octets() && (form&withRaw == 0 || e.Value.Type != kv.Bytes) {
		n += n / 3 // base64
	}
	return n + len(e.Key)
}

// appendNotice appends the frame of a notice, without the number of a watch. It is longer
// than what clients may send only if it has nothing but one long entry, quoted.
func (f *Handlers) appendNotice(dst []byte, n kv.Notice, form form) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, f.kind.event, 0)
	dst = f.kind.append(dst, protocol.KVEvents{
		Revision: n.Revision, Events: n.Events, More: n.More,
		State: n.Kind == kv.State, Synced: n.Kind == kv.Synced, Resync: n.Kind == kv.Resync,
	}, form)
	if len(dst)-start > protocol.HeaderSize+protocol.MaxBody && len(n.Events) == 1 && form&withPrev != 0 {
		// Two entries are too long together: leave out the previous one, as if the store
		// did not have it any more. Else one event could be more than a small server may
		// hold for all its peers, and would end one connection after the other.
		return f.appendNotice(dst[:start], n, form&^withPrev)
	}
	return protocol.FinishFrame(dst, start)
}

// headBytes is how many bytes of a frame are copied for each watch; the rest is shared.
// They contain the header and the watch's number.
const headBytes = 64

// sendEvents sends w a frame that is shared with other watches. A frame of at least
// loop.WholeFrame bytes must not change afterwards.
func (w *watch) sendEvents(frame []byte) {
	s := w.of.s
	s.Group().Count.WatchFrames.Add(1)
	protocol.SetSeq(frame, s.Group().NextSeq())
	protocol.SetKVWatch(frame, w.id)
	if len(frame) < loop.WholeFrame {
		s.Out.SendOwn(frame)
		return
	}
	s.Out.SendShared(frame[:headBytes], frame[headBytes:], "")
}
