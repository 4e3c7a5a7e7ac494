package kvtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/kvstore/replica"
)

// MemoryConfig sets up a Memory. The zero value works.
type MemoryConfig struct {
	Clock clock.Clock // nil: the machine's
	// LogBytes is how much of the change log is kept, in bytes of entries, rounded
	// up to whole changes; 0: all.
	LogBytes int64
	// HistoryVersions is how many versions of each key are kept; 0: all.
	HistoryVersions int
}

// Memory is an engine for tests: a replica, like every engine, over a log that is a list in
// memory. Make it with NewMemory.
type Memory struct {
	*replica.Store
	log   *memoryLog
	clock clock.Clock
}

// NewMemory opens an empty engine. Close ends it.
func NewMemory(cfg MemoryConfig) *Memory {
	log := &memoryLog{keepBytes: cfg.LogBytes, keepVersions: cfg.HistoryVersions, identity: identity()}
	return &Memory{openOn(log, cfg.Clock), log, cfg.Clock}
}

func identity() string {
	var random [16]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

func openOn(log replica.Log, c clock.Clock) *replica.Store {
	// A list does not hang, however far a test turns its clock in the middle of a write.
	s, err := replica.Open(context.Background(), replica.Config{Clock: c, WriteTimeout: 10_000 * time.Hour}, log)
	if err != nil {
		panic(err) // a list can always be read
	}
	return s
}

// ForTest opens an empty engine that is closed when the test has ended.
func ForTest(t testing.TB) *Memory {
	m := NewMemory(MemoryConfig{})
	t.Cleanup(func() { m.Close() })
	return m
}

// Clone opens another engine, with what this one has acknowledged: what is left of it if the
// process ends now. Close ends it.
func (m *Memory) Clone() *Memory {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	log := &memoryLog{keepBytes: m.log.keepBytes, keepVersions: m.log.keepVersions, identity: m.log.identity, first: m.log.first, bytes: m.log.bytes}
	log.commits, log.forgotten = slices.Clone(m.log.commits), maps.Clone(m.log.forgotten)
	return &Memory{openOn(log, m.clock), log, m.clock}
}

// SetFull switches on or off that writes that need space fail with codes.Storage, as if the disk
// were full.
func (m *Memory) SetFull(full bool) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.log.full = full
}
