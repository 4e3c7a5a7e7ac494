package kvtest

import (
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/kvstore"
)

// A moment long after 1970 and not a whole second.
var start = time.Date(2018, 10, 15, 9, 49, 12, 345_000_000, time.UTC)

func openMemory(_ testing.TB, opts Options) Instance {
	fake := clock.NewFake(start)
	cfg := MemoryConfig{Clock: fake, Disk: &MemoryDisk{}, LogBytes: opts.LogBytes, HistoryVersions: opts.HistoryVersions}
	m := NewMemory(cfg)
	reopen := func() kvstore.Engine {
		m = NewMemory(cfg)
		return m
	}
	return Instance{
		Engine:  m,
		Clock:   fake,
		Restart: func() kvstore.Engine { _ = m.Close(); return reopen() },
		Kill:    func() kvstore.Engine { m.Kill(); return reopen() },
		SetFull: func(full bool) { m.SetFull(full) },
	}
}

func TestSuiteOnMemory(t *testing.T) { Run(t, openMemory) }
