package kvtest

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
)

// Revision implements kv.Store.
func (m *Memory) Revision() kv.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.revision
}

// Get implements kv.Store.
func (m *Memory) Get(ns, key []byte) (*kv.Entry, kv.Revision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.get(ns, key), m.state.revision
}

// GetEach implements kv.Store.
func (m *Memory) GetEach(reads []kv.Read) kv.Revision {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range reads {
		reads[i].Entry = m.state.get(reads[i].NS, reads[i].Key)
	}
	return m.state.revision
}

func (s *state) get(ns, key []byte) *kv.Entry {
	sp := s.spaces[string(ns)]
	if sp == nil {
		return nil
	}
	return newest(sp.versions[string(key)])
}

// Namespaces implements kv.Store.
func (m *Memory) Namespaces(after string, limit int) (list []kv.Namespace, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ns := range slices.Sorted(maps.Keys(m.state.spaces)) {
		sp := m.state.spaces[ns]
		if ns <= after || sp.live == 0 {
			continue
		}
		if limit > 0 && len(list) == limit {
			return list, true
		}
		list = append(list, kv.Namespace{Name: ns, Keys: sp.live, Bytes: sp.bytes})
	}
	return list, false
}

// GetAt implements kv.Store.
func (m *Memory) GetAt(_ context.Context, ns, key string, rev kv.Revision) (*kv.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkRevisionLocked(rev); err != nil {
		return nil, err
	}
	sp := m.state.spaces[ns]
	if sp == nil {
		return nil, nil
	}
	return sp.at(key, rev)
}

func (m *Memory) checkRevisionLocked(rev kv.Revision) error {
	switch {
	case m.closed:
		return errClosed()
	case rev > m.state.revision:
		return codes.Errorf(codes.FutureRevision, "revision %d is in the future: the newest is %d", rev, m.state.revision)
	}
	return nil
}

func (s *space) at(key string, rev kv.Revision) (*kv.Entry, error) {
	versions := s.versions[key]
	i := sort.Search(len(versions), func(i int) bool { return versions[i].Mod > rev })
	if i == 0 && s.cut[key] > rev {
		return nil, codes.Errorf(codes.Compacted, "versions of key %q before revision %d are no longer kept", key, s.cut[key])
	}
	return newest(versions[:i]), nil
}

// History implements kv.Store.
func (m *Memory) History(_ context.Context, ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return kv.Versions{}, errClosed()
	}
	if limit <= 0 || limit > kv.MaxHistory {
		limit = kv.MaxHistory
	}
	sp := m.state.spaces[ns]
	if sp == nil {
		return kv.Versions{}, nil
	}
	list := kv.Versions{Floor: sp.cut[key]}
	for _, e := range slices.Backward(sp.versions[key]) {
		if before > 0 && e.Mod >= before {
			continue
		}
		if len(list.Entries) == limit {
			list.More = true
			break
		}
		list.Entries = append(list.Entries, e)
	}
	return list, nil
}

// Changes implements kv.Store.
func (m *Memory) Changes(_ context.Context, after kv.Revision, maxBytes int) ([]kv.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkRevisionLocked(after); err != nil {
		return nil, err
	}
	if after < m.state.logFloor {
		return nil, codes.Errorf(codes.Compacted, "changes after revision %d are no longer kept: those after %d are", after, m.state.logFloor)
	}
	changes := m.state.changes
	from := sort.Search(len(changes), func(i int) bool { return changes[i].Revision > after })
	size := 0
	for i := from; i < len(changes); i++ {
		for j := range changes[i].Events {
			size += changes[i].Events[j].Entry.Size()
		}
		if size >= maxBytes {
			return slices.Clone(changes[from : i+1]), nil
		}
	}
	return slices.Clone(changes[from:]), nil
}

// View implements kv.Store.
func (m *Memory) View() kv.View {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Views++
	v := &memoryView{memory: m, revision: m.state.revision, spaces: make(map[string]viewSpace, len(m.state.spaces))}
	for ns, sp := range m.state.spaces {
		v.spaces[ns] = viewSpace{keys: slices.Clone(sp.keys), entries: make(map[string]*kv.Entry, sp.live)}
		for key, versions := range sp.versions {
			if e := newest(versions); e != nil {
				v.spaces[ns].entries[key] = e
			}
		}
	}
	return v
}

// memoryView is a copy of everything: slow to make, impossible to get wrong.
type memoryView struct {
	memory   *Memory
	revision kv.Revision
	spaces   map[string]viewSpace
}

type viewSpace struct {
	keys    []string // sorted; also of keys that are deleted
	entries map[string]*kv.Entry
}

func (v *memoryView) Revision() kv.Revision { return v.revision }

func (v *memoryView) Get(ns, key string) (*kv.Entry, error) { return v.spaces[ns].entries[key], nil }

func (v *memoryView) Close() {
	v.memory.mu.Lock()
	defer v.memory.mu.Unlock()
	v.memory.stats.Views--
}

func (v *memoryView) List(l kv.List) (kv.Page, error) {
	limit, maxBytes := l.Limit, l.MaxBytes
	if limit <= 0 || limit > kv.MaxList {
		limit = kv.MaxList
	}
	if maxBytes <= 0 {
		maxBytes = kv.MaxPage
	}
	page := kv.Page{Revision: v.revision}
	size := 0
	sp := v.spaces[l.NS]
	for _, key := range sp.keys {
		e := sp.entries[key]
		if e == nil || !strings.HasPrefix(key, l.Prefix) {
			continue
		}
		if l.CountOnly {
			page.Count++
			continue
		}
		if l.After != "" && key <= l.After {
			continue
		}
		if len(page.Entries) == limit || size >= maxBytes {
			page.More = true
			break
		}
		size += e.Size()
		page.Entries = append(page.Entries, e)
		page.Count++
	}
	return page, nil
}
