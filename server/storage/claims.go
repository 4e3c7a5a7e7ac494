package storage

import (
	"context"
	"sync"

	"confcenter/internal/roster"
	"confcenter/kv"
	"confcenter/server/gate"
)

// claims are the dirty tables that the lander of a session has. They end with the connection, so
// that a lander that was killed is not waited for.
type claims struct {
	store Store // set at open

	mu     sync.Mutex
	ended  bool                // guarded by mu
	fences map[int]kv.Revision // guarded by mu: by table
}

// claimsOf returns the session's claims, on its loop.
func (f *Handlers) claimsOf(s *gate.Session) *claims {
	if c, ok := s.Part(gate.OfStorage).(*claims); ok {
		return c
	}
	c := &claims{store: f.store, fences: map[int]kv.Revision{}}
	s.SetPart(gate.OfStorage, c)
	return c
}

// took is called by the worker that has claimed a table.
func (c *claims) took(table int, fence kv.Revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case fence == 0:
		delete(c.fences, table)
	case c.ended:
		c.giveBack(table, fence)
	default:
		c.fences[table] = fence
	}
}

// Ended gives back what the session has.
func (c *claims) Ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for table, fence := range c.fences {
		c.giveBack(table, fence)
	}
}

// giveBack waits for nothing. If the store does not take it, the claim ends with its time.
func (c *claims) giveBack(table int, fence kv.Revision) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.store.Release(ctx, table, fence)
}

// ReadOn implements gate.Part.
func (c *claims) ReadOn() {}

// Describe implements gate.Part.
func (c *claims) Describe(*roster.Client, int) {}
