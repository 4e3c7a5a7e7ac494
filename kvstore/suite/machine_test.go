package suite

import (
	"testing"
	"time"

	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
)

// A moment long after 1970 and not a whole second.
var start = time.Date(2018, 10, 15, 9, 49, 12, 345_000_000, time.UTC)

// machine is what an engine in memory runs on.
type machine struct {
	clock *clocktest.Fake
	store *memory.Store
	lose  func([]kvstore.Commit) []kvstore.Commit // what a kill leaves; nil: everything
}

func newMachine(opts options) *machine {
	now := clocktest.NewFake(start)
	return &machine{clock: now, store: memory.New(memory.Config{Clock: now, LogBytes: opts.LogBytes, HistoryVersions: opts.HistoryVersions})}
}

func (m *machine) instance() instance {
	return instance{
		Engine: m.store, Clock: m.clock, Restart: m.restart, Kill: m.kill,
		SetFull: func(full bool) { m.store.SetFull(full) },
	}
}

func (m *machine) restart() kvstore.Engine {
	_ = m.store.Close()
	m.store = m.store.Clone()
	return m.store
}

func (m *machine) kill() kvstore.Engine {
	m.store = m.store.Kill(m.lose)
	return m.store
}

func openMemory(_ testing.TB, opts options) instance { return newMachine(opts).instance() }
