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

// frames caches encoded events, so that streams share them. Its key is the address
// of the event, since all streams share the events that the hub keeps.
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

// of returns an event as it is sent, without its id and the final empty line.
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

// appendFrame appends an event of a notice that poll returned, without its id and
// the final empty line. It encodes the event only once if several streams may need
// it.
func (s *subscription) appendFrame(dst []byte, e *kv.Event, form form) []byte {
	if s.live && s.hub.open.Load() > 1 {
		return append(dst, s.hub.frames.of(e, form)...)
	}
	return encoders[form](dst, e)
}
