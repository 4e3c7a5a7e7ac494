package kvstore

import (
	"context"
	"sync"

	"confcenter/kv"
)

// Copy implements kv.Copier.
func (s *Store) Copy(context.Context) (kv.Copy, error) {
	if _, err := s.use(0); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var begun kv.Copy // guarded by mu
	var late bool     // guarded by mu
	c, err := slow(s, func() (kv.Copy, error) {
		c, err := s.log.Copy()
		mu.Lock()
		defer mu.Unlock()
		if begun = c; late && err == nil {
			c.Close()
		}
		return c, err
	})
	if err == nil {
		return &copying{c, s}, nil
	}
	mu.Lock()
	defer mu.Unlock()
	if late = true; begun != nil {
		begun.Close()
	}
	return nil, err
}

// copying is a copy that the closing of the store ends.
type copying struct {
	kv.Copy
	store *Store
}

// Next implements kv.Copy.
func (c *copying) Next(dst []byte) ([]byte, error) {
	if _, err := c.store.use(0); err != nil {
		return nil, err
	}
	return slow(c.store, func() ([]byte, error) { return c.Copy.Next(dst) })
}
