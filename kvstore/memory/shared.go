package memory

import (
	"context"
	"slices"
	"sort"

	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
)

// Shared is a list that several stores share. Make it with NewShared.
type Shared struct {
	list log

	// guarded by the list's mu
	ends    []int // of the groups in the list
	members []*member
	forgot  map[string]forgotten // by the name of the store
}

// NewShared makes an empty list. Of the settings those of a log count.
func NewShared(cfg Config) *Shared {
	return &Shared{list: log{keepBytes: cfg.LogBytes, keepVersions: cfg.HistoryVersions, identity: identity()}, forgot: map[string]forgotten{}}
}

// Log is the list for the store of that Name in its kvstore.Config. Closing the store leaves the list to
// the others, and to the next store of that name, which goes on without what this one forgot.
func (s *Shared) Log(name string) kvstore.SharedLog {
	return &member{log: &s.list, shared: s, name: name, arrived: make(chan struct{}, 1)}
}

// member is the list as one store has it.
type member struct {
	*log
	shared  *Shared
	name    string
	arrived chan struct{}
}

// Load implements kvstore.Log.
func (m *member) Load(_ context.Context, load kvstore.Loader) (kv.Revision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared.members = append(m.shared.members, m)
	return m.loadLocked(load, m.shared.forgot[m.name]), nil
}

// Append implements kvstore.SharedLog.
func (m *member) Append(group []kvstore.Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if group[0].Revision != m.newestLocked()+1 {
		return kvstore.ErrOvertaken
	}
	m.appendLocked(group)
	s := m.shared
	s.ends = append(s.ends, len(m.commits))
	for _, other := range s.members {
		if other != m {
			clock.Nudge(other.arrived)
		}
	}
	return nil
}

// Arrived implements kvstore.SharedLog.
func (m *member) Arrived() <-chan struct{} { return m.arrived }

// Came implements kvstore.SharedLog.
func (m *member) Came(after kv.Revision) (groups [][]kvstore.Commit, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := sort.Search(len(m.commits), func(i int) bool { return m.commits[i].Revision > after })
	first := sort.SearchInts(m.shared.ends, from+1)
	for _, end := range m.shared.ends[first:] {
		group := slices.Clone(m.commits[from:end])
		for i := range group {
			group[i] = commitCopied(group[i])
		}
		groups, from = append(groups, group), end
	}
	return groups, nil
}

// Forget implements kvstore.Log: what one store forgets the others have.
func (m *member) Forget(entries []*kv.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared
	if s.forgot[m.name] == nil {
		s.forgot[m.name] = forgotten{}
	}
	s.forgot[m.name].add(entries)
}

// Close implements kvstore.Log.
func (m *member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.shared
	s.members = slices.DeleteFunc(s.members, func(other *member) bool { return other == m })
	return nil
}
