package client

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"confcenter/client/internal/callback"
	"confcenter/codes"
	"confcenter/kv"
)

// KVCache is a copy of a namespace in memory, kept current by what the server pushes.
// A read is a map lookup without network. Reads see one revision, which lags the
// server by the time a push takes. End it with Close.
type KVCache struct {
	// set at open
	s      *KV
	watch  *KVWatch
	synced chan struct{} // closed when the first state is complete
	sync   func()        // closes synced
	job    *callback.Job

	mu sync.RWMutex // guards the rest

	entries  map[string]*kv.Entry
	revision kv.Revision
	next     map[string]*kv.Entry // a state that is still incomplete; nil: none
	part     []kv.Event           // of a revision that is still incomplete
	applied  uint64               // number of notices applied

	onChange []func(key string, e *kv.Entry)
	changed  map[string]struct{} // keys that onChange has not seen yet
}

// Cache reads the namespace into memory and keeps it current. It waits until the
// namespace is loaded, at most until ctx ends. After that ctx has no effect, and the
// cache lasts until it or the client is closed, across any number of connections.
// Without a connection it answers from what it has.
func (s *KV) Cache(ctx context.Context) (*KVCache, error) {
	if err := kv.CheckNamespace(s.ns); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	w, err := s.Watch(ctx, WatchOptions{State: true, Coalesce: true})
	if err != nil {
		return nil, fmt.Errorf("cache of %s: %w", s.ns, err)
	}
	c := &KVCache{
		s: s, watch: w, synced: make(chan struct{}), next: map[string]*kv.Entry{},
		entries: map[string]*kv.Entry{}, changed: map[string]struct{}{},
	}
	c.sync = sync.OnceFunc(func() { close(c.synced) })
	c.job = &callback.Job{Run: c.tell}
	err = closedError()
	if s.c.spawn(c.follow) {
		err = cmp.Or(s.c.wait(ctx, c.synced), w.failure())
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cache of %s: %w", s.ns, err)
	}
	return c, nil
}

// Close ends the cache, which keeps what it has. The functions given to OnChange
// are not called again, but a call that has begun may still be running.
func (c *KVCache) Close() { c.watch.Stop() }

// follow is the cache's goroutine, which applies the watch's notices.
func (c *KVCache) follow() {
	for n, err := range c.watch.Events(context.Background()) {
		if err != nil {
			c.sync()
			return
		}
		c.mu.Lock()
		c.applyLocked(n)
		c.applied++
		news := len(c.changed) > 0
		c.mu.Unlock()
		if news {
			c.s.c.callbacks.Post(c.job)
		}
	}
}

// applyLocked applies a notice. Until a new state is complete the previous one stays in
// service.
func (c *KVCache) applyLocked(n kv.Notice) {
	switch n.Kind {
	case kv.Resync:
		c.next, c.part = map[string]*kv.Entry{}, nil
	case kv.State:
		for i := range n.Events {
			c.next[n.Events[i].Entry.Key] = n.Events[i].Entry
		}
	case kv.Synced:
		c.replaceLocked()
		c.revision = n.Revision
		c.sync()
	case kv.Changed:
		c.changeLocked(n)
	}
}

func (c *KVCache) replaceLocked() {
	if len(c.onChange) > 0 {
		for key, e := range c.next {
			if old := c.entries[key]; old == nil || old.Mod != e.Mod {
				c.changed[key] = struct{}{}
			}
		}
		for key := range c.entries {
			if c.next[key] == nil {
				c.changed[key] = struct{}{}
			}
		}
	}
	c.entries, c.next = c.next, nil
}

// changeLocked applies whole revisions, so that no reader sees half of one.
func (c *KVCache) changeLocked(n kv.Notice) {
	if n.More || len(c.part) > 0 {
		c.part = append(c.part, n.Events...)
		n.Events = c.part
	}
	if n.More {
		return
	}
	for i := range n.Events {
		e := n.Events[i].Entry
		if e.Deleted() {
			delete(c.entries, e.Key)
		} else {
			c.entries[e.Key] = e
		}
		if len(c.onChange) > 0 {
			c.changed[e.Key] = struct{}{}
		}
	}
	c.revision, c.part = n.Revision, nil
}

// tell is the cache's job.
func (c *KVCache) tell() {
	c.mu.Lock()
	keys, functions := slices.Sorted(maps.Keys(c.changed)), slices.Clone(c.onChange)
	clear(c.changed)
	c.mu.Unlock()
	for _, key := range keys {
		if c.watch.failure() != nil {
			return
		}
		e := c.Get(key)
		for _, fn := range functions {
			c.s.c.callbacks.Call("a function given to OnChange of the cache of "+c.s.ns, func() { fn(key, e) })
		}
	}
}

// OnChange calls fn for every key that changes from now on, with its new entry, or
// nil if it is gone; one call at a time. If a key changes faster than fn returns, fn
// gets only the newest entry. fn may read the cache and write to the store. A panic
// of fn goes to Config.OnError.
func (c *KVCache) OnChange(fn func(key string, e *kv.Entry)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onChange = append(c.onChange, fn)
}

// Current reports whether the cache is connected and has applied everything it was
// sent. After a lost connection it is false until the next one is up; a connection
// that dies silently is noticed after Config.KeepAlive and KeepAliveTimeout.
func (c *KVCache) Current() bool {
	taken, ok := c.watch.current()
	c.mu.RLock()
	defer c.mu.RUnlock()
	return ok && c.next == nil && c.applied == taken
}

// Revision is the revision of the cache: that of the last change it applied, or of
// its initial state.
func (c *KVCache) Revision() kv.Revision {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// Get returns a key's entry, nil if it is absent. It must not be modified.
func (c *KVCache) Get(key string) *kv.Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[key]
}

// Len returns the number of keys.
func (c *KVCache) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// List is every entry whose key begins with prefix, "" for all, in the order of
// the keys' bytes, all at one revision. It looks at every key of the namespace.
func (c *KVCache) List(prefix string) []*kv.Entry {
	c.mu.RLock()
	var list []*kv.Entry
	for key, e := range c.entries {
		if strings.HasPrefix(key, prefix) {
			list = append(list, e)
		}
	}
	c.mu.RUnlock()
	slices.SortFunc(list, func(a, b *kv.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// valueIn returns a key's value, read by read; def if it is absent or of another type.
func valueIn[T any](c *KVCache, key string, def T, read func(kv.Value) (T, error)) T {
	e := c.Get(key)
	if e == nil {
		return def
	}
	v, err := read(e.Value)
	return valueOr(def, v, err)
}

// GetString is the string of a key, def if the key is absent or of another type.
func (c *KVCache) GetString(key, def string) string { return valueIn(c, key, def, stringOf) }

// GetInt is GetString for an int.
func (c *KVCache) GetInt(key string, def int64) int64 { return valueIn(c, key, def, kv.Value.Int) }

// GetDouble is GetString for a double or an int.
func (c *KVCache) GetDouble(key string, def float64) float64 {
	return valueIn(c, key, def, kv.Value.Double)
}

// GetBool is GetString for a bool.
func (c *KVCache) GetBool(key string, def bool) bool { return valueIn(c, key, def, kv.Value.Bool) }

// GetBytes is GetString for bytes. They must not be modified.
func (c *KVCache) GetBytes(key string, def []byte) []byte { return valueIn(c, key, def, bytesOf) }

// GetJSON decodes a json value as KV.GetJSON does, with the same errors.
func (c *KVCache) GetJSON(key string, v any) error {
	e := c.Get(key)
	if e == nil {
		return fmt.Errorf("get %s of %s: %w", key, c.s.ns, codes.Errorf(codes.NotFound, "there is no such key"))
	}
	return decodeJSON(e.Value, v)
}
