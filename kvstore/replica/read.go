package replica

import (
	"context"
	"sort"

	"confcenter/codes"
	"confcenter/kv"
)

// Revision implements kv.Store.
func (s *Store) Revision() kv.Revision { return s.index.revision() }

// Get implements kv.Store.
func (s *Store) Get(ns, key []byte) (*kv.Entry, kv.Revision) { return s.index.get(ns, key) }

// View implements kv.Store.
func (s *Store) View() kv.View { return s.index.view(s.cfg.Clock.Now(), s.queue.poke) }

// Namespaces implements kv.Store.
func (s *Store) Namespaces(after string, limit int) (list []kv.Namespace, more bool) {
	return s.index.namespaces(after, limit)
}

// GetAt implements kv.Store. Entries that are still current are found in memory.
func (s *Store) GetAt(ctx context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error) {
	if err := kv.CheckPair(ns, key); err != nil {
		return nil, err
	}
	visible, err := s.use(rev)
	if err != nil {
		return nil, err
	}
	defer s.reading.RUnlock()
	if e := s.index.getAt(ns, key, visible); rev == visible || (e != nil && e.Mod <= rev) {
		return e, nil
	}
	return s.log.GetAt(ctx, ns, key, rev)
}

// History implements kv.Store.
func (s *Store) History(ctx context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	if err := kv.CheckPair(ns, key); err != nil {
		return kv.Versions{}, err
	}
	if limit < 0 || before < 0 {
		return kv.Versions{}, codes.Errorf(codes.BadRequest, "limit %d or revision %d is negative", limit, before)
	}
	visible, err := s.use(0)
	if err != nil {
		return kv.Versions{}, err
	}
	defer s.reading.RUnlock()
	if before == 0 || before > visible {
		before = visible + 1 // the disk may know more already
	}
	if limit == 0 || limit > kv.MaxHistory {
		limit = kv.MaxHistory
	}
	return s.log.Versions(ctx, ns, key, before, limit)
}

// Changes implements kv.Store.
func (s *Store) Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	visible, err := s.use(after)
	if err != nil {
		return nil, err
	}
	defer s.reading.RUnlock()
	if after == visible {
		return nil, nil
	}
	list, err := s.log.Changes(ctx, after, maxBytes)
	if err != nil {
		return nil, err
	}
	seen := sort.Search(len(list), func(i int) bool { return list[i].Revision > visible })
	return list[:seen:seen], nil
}

// use begins a read of the log at rev. Unless it returns an error, reading is held.
func (s *Store) use(rev kv.Revision) (visible kv.Revision, err error) {
	s.reading.RLock()
	visible = s.Revision()
	switch {
	case s.closed:
		err = errClosed()
	case rev < 0:
		err = codes.Errorf(codes.BadRequest, "revision %d is negative", rev)
	case rev > visible:
		err = codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", rev, visible)
	}
	if err != nil {
		s.reading.RUnlock()
	}
	return visible, err
}
