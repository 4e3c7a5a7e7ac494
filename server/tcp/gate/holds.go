package gate

import (
	"sync"

	"confcenter/internal/roster"
)

// Holds are what requests have taken for their session that ends with its connection.
type Holds struct {
	mu    sync.Mutex
	ended bool           // guarded by mu
	list  map[any]func() // guarded by mu
}

// HeldBy returns those of a family, on the session's loop.
func HeldBy(s *Session, key Family) *Holds {
	if h, ok := s.Part(key).(*Holds); ok {
		return h
	}
	h := &Holds{list: map[any]func(){}}
	s.SetPart(key, h)
	return h
}

// OnEnd has end called when the session ends, at once if it has. It replaces what there was for key; nil:
// nothing is held any more. Any goroutine may call it. end must not wait.
func (h *Holds) OnEnd(key any, end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case end == nil:
		delete(h.list, key)
	case h.ended:
		end()
	default:
		h.list[key] = end
	}
}

// Ended implements Part.
func (h *Holds) Ended() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for _, end := range h.list {
		end()
	}
}

// ReadOn implements Part.
func (h *Holds) ReadOn() {}

// Describe implements Part.
func (h *Holds) Describe(*roster.Client, int) {}
