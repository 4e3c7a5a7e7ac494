package kvtest

import (
	"maps"
	"slices"
	"time"

	"confcenter/internal/clock"
	"confcenter/kvstore"
	"confcenter/kvstore/replica"
)

// A moment long after 1970 and not a whole second.
var start = time.Date(2018, 10, 15, 9, 49, 12, 345_000_000, time.UTC)

// machine is what a Memory runs on, when it is to be killed and opened again.
type machine struct {
	clock *clock.Fake
	log   *memoryLog
	store *Memory

	keeping *keepingLog                             // the log, if it keeps leases, else nil
	lose    func([]replica.Commit) []replica.Commit // what a kill leaves; nil: everything
}

func newMachine(opts Options) *machine {
	return &machine{clock: clock.NewFake(start), log: &memoryLog{keepBytes: opts.LogBytes, keepVersions: opts.HistoryVersions, identity: identity()}}
}

func (m *machine) instance() Instance {
	return Instance{
		Engine: m.open(), Clock: m.clock, Restart: m.restart, Kill: m.kill,
		SetFull: func(full bool) { m.store.SetFull(full) },
	}
}

func (m *machine) open() kvstore.Engine {
	m.store = openOn(m.log, m.keeping, m.clock, nil)
	return m.store
}

func (m *machine) restart() kvstore.Engine {
	_ = m.store.Close()
	return m.open()
}

// kill takes nothing more from the store that runs, and goes on with a copy of what
// it has taken.
func (m *machine) kill() kvstore.Engine {
	old := m.log
	old.mu.Lock()
	old.pulled = true
	m.log = &memoryLog{keepBytes: old.keepBytes, keepVersions: old.keepVersions, identity: old.identity, commits: slices.Clone(old.commits), first: old.first, bytes: old.bytes, forgotten: maps.Clone(old.forgotten)}
	if m.keeping != nil {
		m.keeping = m.keeping.on(m.log)
	}
	old.mu.Unlock()
	_ = m.store.Close()
	if m.lose != nil {
		m.log.commits = m.lose(m.log.commits)
	}
	return m.open()
}
