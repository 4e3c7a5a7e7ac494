package server

import (
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/protocol"
)

// kvFrameBytes is about how large a frame of events becomes before the next one
// is begun. One event alone may be longer.
const kvFrameBytes = 48 << 10

// kvEventCost is about what an event takes in a frame beside key and value.
const kvEventCost = 160

// kvFrame is one encoded frame, for any watch in the same form.
type kvFrame struct {
	bytes       []byte
	from, to    follow.Mark // how far a watch has been told before and after it
	first, last kv.Revision // of its events
}

// kvCuts say what fits into a frame of each form.
var kvCuts = func() (cuts [kvForms]follow.Cut) {
	for form := range kvForm(kvForms) {
		cuts[form] = follow.Cut{Max: kvFrameBytes, Cost: func(e *kv.Event) int { return kvCost(e, form) }}
	}
	return cuts
}()

func kvCost(e *kv.Event, form kvForm) int {
	n := kvEventCost + len(e.Entry.NS) + kvEntryCost(e.Entry, form)
	if form&kvPrev != 0 && e.Prev != nil {
		n += kvEventCost + kvEntryCost(e.Prev, form)
	}
	return n
}

func kvEntryCost(e *kv.Entry, form kvForm) int {
	n := len(e.Value.Data)
	if e.Value.Type == kv.Bytes && form&kvRaw == 0 {
		n += n / 3 // base64
	}
	return n + len(e.Key)
}

// appendNotice appends the frame of a notice, for a watch to be named later.
func appendNotice(dst []byte, n kv.Notice, form kvForm) []byte {
	return appendKVEvents(dst, protocol.KVEvents{
		Revision: n.Revision, Events: n.Events, More: n.More,
		State: n.Kind == kv.State, Synced: n.Kind == kv.Synced, Resync: n.Kind == kv.Resync,
	}, form)
}

// appendKVEvents appends a whole frame for a watch to be named later. It never
// is longer than a peer takes.
func appendKVEvents(dst []byte, ev protocol.KVEvents, form kvForm) []byte {
	start := len(dst)
	dst = encodeKVEvents(dst, ev, form)
	if len(dst)-start <= protocol.HeaderSize+protocol.MaxBody || len(ev.Events) != 1 {
		return dst
	}
	// One event so long that it does not fit: what was before is what can be
	// spared, as it is where the store does not have it any more.
	alone := ev
	alone.Events = []kv.Event{{Kind: ev.Events[0].Kind, Entry: ev.Events[0].Entry}}
	return encodeKVEvents(dst[:start], alone, form)
}

func encodeKVEvents(dst []byte, ev protocol.KVEvents, form kvForm) []byte {
	start := len(dst)
	dst = protocol.BeginFrame(dst, protocol.KVEvent, 0)
	dst = protocol.AppendKVEvents(dst, ev, form&kvPrev != 0, form&kvRaw != 0)
	return protocol.FinishFrame(dst, start)
}

// kvHead is how many bytes of a frame are copied for each watch, so that the rest
// can be shared: they hold the header and the watch's number.
const kvHead = 64

// sendEvents sends w one frame that others are sent too. It reports whether the
// bytes are still referred to: then they must not change any more.
func (w *kvWatch) sendEvents(frame []byte) (kept bool) {
	s := w.of.s
	s.group().count.WatchFrames.Add(1)
	protocol.SetSeq(frame, s.group().nextSeq())
	protocol.SetKVWatch(frame, w.id)
	if len(frame) < wholeFrame {
		s.out.sendOwn(frame)
		return false
	}
	s.out.sendShared(frame[:kvHead], frame[kvHead:], "")
	return true
}
