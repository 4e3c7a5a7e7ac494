package kvstore

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
	if err := checkPast(ns, key); err != nil {
		return nil, err
	}
	visible, err := s.use(rev)
	if err != nil {
		return nil, err
	}
	if e := s.index.getAt(ns, key, visible); rev == visible || (e != nil && e.Mod <= rev) {
		s.reading.RUnlock()
		return e, nil
	}
	return slow(s, func() (*kv.Entry, error) { return s.log.GetAt(ns, key, rev) })
}

// History implements kv.Store.
func (s *Store) History(ctx context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	if err := checkPast(ns, key); err != nil {
		return kv.Versions{}, err
	}
	if limit < 0 || before < 0 {
		return kv.Versions{}, codes.Errorf(codes.BadRequest, "limit %d or revision %d is negative", limit, before)
	}
	visible, err := s.use(0)
	if err != nil {
		return kv.Versions{}, err
	}
	if before == 0 || before > visible {
		before = visible + 1 // the disk may know more already
	}
	if limit == 0 || limit > kv.MaxHistory {
		limit = kv.MaxHistory
	}
	return slow(s, func() (kv.Versions, error) { return s.log.Versions(ns, key, before, limit) })
}

// checkPast reports whether there is anything to know of a key's past.
func checkPast(ns, key string) error {
	if kv.Reserved(ns) {
		return codes.Errorf(codes.Compacted, "namespace %.64q belongs to player storage, which keeps no earlier versions: read the current one", ns)
	}
	return kv.CheckPair(ns, key)
}

// Changes implements kv.Store.
func (s *Store) Changes(ctx context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	visible, err := s.use(after)
	if err != nil {
		return nil, err
	}
	if after == visible {
		s.reading.RUnlock()
		return nil, nil
	}
	list, err := slow(s, func() ([]kv.Change, error) { return s.log.Changes(after, maxBytes) })
	if err != nil {
		return nil, err
	}
	seen := sort.Search(len(list), func(i int) bool { return list[i].Revision > visible })
	return list[:seen:seen], nil
}

// Identity implements kv.Archive.
func (s *Store) Identity() string { return s.log.Identity() }

// ListArchive implements kv.Archive.
func (s *Store) ListArchive(ctx context.Context, l kv.List) (kv.Page, error) {
	if !kv.Archived(l.NS) {
		return kv.Page{}, codes.Errorf(codes.BadRequest, "namespace %.64q is not archived: list it in memory", l.NS)
	}
	if err := checkList(l); err != nil {
		return kv.Page{}, err
	}
	if l.Limit == 0 || l.Limit > kv.MaxList {
		l.Limit = kv.MaxList
	}
	if l.MaxBytes <= 0 {
		l.MaxBytes = kv.MaxPage
	}
	if _, err := s.use(0); err != nil {
		return kv.Page{}, err
	}
	return slow(s, func() (kv.Page, error) { return s.log.ListArchive(l) })
}

// use begins a read of the log at rev. Unless it returns an error, reading is held.
func (s *Store) use(rev kv.Revision) (visible kv.Revision, err error) {
	s.reading.RLock()
	visible = s.Revision()
	switch {
	case s.reading.closed:
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

// slow reads from the log, which may have to wait for the disk. reading is held, and
// released when the read has ended: if the disk hangs, that is after slow has returned.
func slow[T any](s *Store, read func() (T, error)) (answer T, err error) {
	select {
	case s.reading.slow <- struct{}{}:
	default:
		s.reading.RUnlock()
		return answer, codes.Errorf(codes.Busy, "%d reads of earlier revisions are waiting for the disk, which is the limit", cap(s.reading.slow))
	}
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	go func() { // ended by the log; Close waits for it, since it holds reading
		defer func() {
			<-s.reading.slow
			s.reading.RUnlock()
		}()
		o := outcome{err: codes.Errorf(codes.Internal, "reading earlier revisions failed; the server's log says why")}
		defer func() { done <- o }()
		defer func() {
			if what := recover(); what != nil {
				s.caught("a read of earlier revisions", what)
			}
		}()
		o.answer, o.err = read()
	}()
	timer := s.cfg.Clock.NewTimer(s.cfg.ReadTimeout)
	defer timer.Stop()
	select {
	case o := <-done:
		return o.answer, o.err
	case <-timer.C():
		return answer, codes.Errorf(codes.Timeout, "the disk has not answered within %s", s.cfg.ReadTimeout)
	}
}
