package kvtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kvstore/replica"
)

// MemoryConfig sets up a Memory. The zero value works.
type MemoryConfig struct {
	Clock clock.Clock // nil: the machine's
	// Store is what its entries may take; nil: as a replica has it.
	Store *memory.Pool
	// LogBytes is how much of the change log is kept, in bytes of entries, rounded
	// up to whole changes; 0: all.
	LogBytes int64
	// HistoryVersions is how many versions of each key are kept; 0: all.
	HistoryVersions int
	// KeepsLeases has the log keep the leases, instead of the replica, and add what ends them
	// between the replica's transactions: like one that several machines share. Times to live are
	// whole seconds then.
	KeepsLeases bool
}

// Memory is an engine for tests: a replica, like every engine, over a log that is a list in
// memory. Make it with NewMemory.
type Memory struct {
	*replica.Store
	log     *memoryLog
	keeping *keepingLog // the log, if it keeps leases, else nil
	clock   clock.Clock
}

// NewMemory opens an empty engine. Close ends it.
func NewMemory(cfg MemoryConfig) *Memory {
	log := &memoryLog{keepBytes: cfg.LogBytes, keepVersions: cfg.HistoryVersions, identity: identity()}
	if cfg.KeepsLeases {
		return openOn(log, newKeepingLog(log, cmp.Or(cfg.Clock, clock.Real())), cfg.Clock, cfg.Store)
	}
	return openOn(log, nil, cfg.Clock, cfg.Store)
}

func identity() string {
	var random [16]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// openOn opens an engine on a list, which keeping, unless it is nil, keeps leases with.
func openOn(list *memoryLog, keeping *keepingLog, c clock.Clock, store *memory.Pool) *Memory {
	var log replica.Log = list
	if keeping != nil {
		log = keeping
	}
	// A list does not hang, however far a test turns its clock in the middle of a write.
	s, err := replica.Open(context.Background(), replica.Config{Clock: c, Store: store, WriteTimeout: 10_000 * time.Hour}, log)
	if err != nil {
		panic(err) // a list can always be read
	}
	return &Memory{s, list, keeping, c}
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
	keeping := m.keeping
	if keeping != nil {
		keeping = keeping.on(log)
	}
	return openOn(log, keeping, m.clock, nil)
}

// SetFull switches on or off that writes that need space fail with codes.Storage, as if the disk
// were full.
func (m *Memory) SetFull(full bool) {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	m.log.full = full
}
