package gateway

import (
	"sync"

	"confcenter/kv"
)

// Limits of what is kept of encoded events.
const (
	maxFrames = 4 << 20 // bytes
	frameCost = 128     // of each, beside its text
)

// frames are events as they were encoded for one stream, for the others. An event is
// known by its place in memory: those that the hub keeps are shared by all streams.
type frames struct {
	mu sync.RWMutex
	// guarded by mu
	young, old map[frameKey][]byte
	bytes      int // of young
}

type frameKey struct {
	event *kv.Event
	form  form
}

// of is an event as it is sent, but for its id and the empty line at its end.
func (f *frames) of(e *kv.Event, form form) []byte {
	key := frameKey{e, form}
	f.mu.RLock()
	text := f.young[key]
	if text == nil {
		text = f.old[key]
	}
	f.mu.RUnlock()
	if text != nil {
		return text
	}
	text = encoders[form](nil, e)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes += len(text) + frameCost; f.young == nil || f.bytes > maxFrames/2 {
		f.young, f.old, f.bytes = map[frameKey][]byte{}, f.young, len(text)+frameCost
	}
	f.young[key] = text
	return text
}

func (f *frames) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.young, f.old, f.bytes = nil, nil, 0
}

// appendFrame appends an event of a notice that poll returned, but for its id and the
// empty line at its end. It is encoded once if several streams may want it.
func (s *subscription) appendFrame(dst []byte, e *kv.Event, form form) []byte {
	if s.live && s.hub.open.Load() > 1 {
		return append(dst, s.hub.frames.of(e, form)...)
	}
	return encoders[form](dst, e)
}
