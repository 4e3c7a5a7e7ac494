// Package memory is the state store's engine without a disk: a kvstore.Store, like every engine, over a
// log that is a list. It is for tests, and for the server of clienttest. Shared is a list for several stores.
package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"slices"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kvstore"
)

// Config sets up a Store. The zero value works.
type Config struct {
	Clock clock.Clock // nil: the machine's
	// Store is what its entries may take; nil: as kvstore has it.
	Store *memory.Pool
	// LogBytes is how much of the change log is kept, in bytes of entries, rounded
	// up to whole changes; 0: all.
	LogBytes int64
	// HistoryVersions is how many versions of each key are kept; 0: all.
	HistoryVersions int
}

// Store is an engine in memory. Make it with New.
type Store struct {
	*kvstore.Store
	cfg Config
	log *log
}

// New opens an empty store. Close ends it.
func New(cfg Config) *Store {
	return open(cfg, &log{keepBytes: cfg.LogBytes, keepVersions: cfg.HistoryVersions, identity: identity()})
}

func identity() string {
	var random [16]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

func open(cfg Config, list *log) *Store {
	// A list does not hang, however far a test turns its clock in the middle of a write.
	s, err := kvstore.Open(context.Background(), kvstore.Config{Clock: cfg.Clock, Store: cfg.Store, WriteTimeout: 10_000 * time.Hour}, list)
	if err != nil {
		panic(err) // a list can always be read
	}
	return &Store{s, cfg, list}
}

// ForTest opens an empty store that is closed when the test has ended.
func ForTest(t testing.TB) *Store {
	s := New(Config{})
	t.Cleanup(func() { s.Close() })
	return s
}

// Clone opens another store, with what this one has acknowledged: what is left of it if the
// process ends now. Close ends it.
func (s *Store) Clone() *Store {
	cfg := s.cfg
	cfg.Store = nil
	return open(cfg, s.log.copied(false, nil))
}

// Kill ends the store like a crash, and opens another with what it has acknowledged, less what
// lose, unless it is nil, takes away. Close ends it.
func (s *Store) Kill(lose func([]kvstore.Commit) []kvstore.Commit) *Store {
	rest := s.log.copied(true, lose)
	_ = s.Close()
	return open(s.cfg, rest)
}

// SetFull switches on or off that writes that need space fail with codes.Storage, as if the disk
// were full.
func (s *Store) SetFull(full bool) {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.full = full
}

// copied is another list with the same commits. pull: this one takes no more.
func (l *log) copied(pull bool, lose func([]kvstore.Commit) []kvstore.Commit) *log {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pulled = l.pulled || pull
	other := &log{keepBytes: l.keepBytes, keepVersions: l.keepVersions, identity: l.identity, first: l.first, bytes: l.bytes}
	other.commits, other.forgotten = slices.Clone(l.commits), maps.Clone(l.forgotten)
	if lose != nil {
		other.commits = lose(other.commits)
	}
	return other
}
