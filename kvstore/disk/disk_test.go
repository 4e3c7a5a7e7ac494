package disk

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore"
)

func TestRestartBringsEverythingBack(t *testing.T) {
	s := newStore(t, nil)
	s.put(op{"a", "x", "1"}, op{"b", "x", "2"})
	s.put(op{"a", "x", "3"})
	c := s.commit(s.clock.Now(), op{"a", "y", "4"})
	c.Token = &kvstore.Token{NS: "a", Name: "t", Digest: [16]byte{1, 2}, Revision: s.rev, Time: 5, Result: []byte("result")}
	c.Leases = []kvstore.LeaseChange{{ID: 7, TTL: 1500e6}, {ID: 8, TTL: 2000e6, Owner: &access.Identity{Name: "token:a", Groups: []string{"g"}}}}
	s.tokens = append(s.tokens, c.Token)
	for _, l := range c.Leases {
		s.lease(l)
	}
	require.NoError(t, s.disk.Append([]kvstore.Commit{c}))
	s.reopen()
	s.put(op{"b", "x", ""})
	end := s.commit(s.clock.Now())
	end.Leases = []kvstore.LeaseChange{{ID: 7, Ended: true}}
	s.lease(end.Leases[0])
	require.NoError(t, s.disk.Append([]kvstore.Commit{end}))
	s.reopen()
	s.tables()
	s.reopen()
}

// Tokens can be dropped one by one, wherever they are by then.
func TestTokensAreDroppedOneByOne(t *testing.T) {
	s := newStore(t, nil)
	add := func(n int) {
		for range n {
			c := s.commit(s.clock.Now(), op{"ns", "key", "v"})
			c.Token = &kvstore.Token{NS: "ns", Name: fmt.Sprint(s.rev), Who: "token:a", Revision: s.rev, Time: s.clock.Now().UnixMilli(), Result: []byte("r")}
			s.tokens = append(s.tokens, c.Token)
			require.NoError(t, s.disk.Append([]kvstore.Commit{c}))
		}
	}
	add(3)
	s.tables()
	add(3)
	s.disk.DropTokens(0, []kv.Revision{2, 5, 5})
	s.disk.DropTokens(1, nil)
	s.tables()
	s.tokens = []*kvstore.Token{s.tokens[2], s.tokens[3], s.tokens[5]}
	s.reopen()
}

// Setting the time of day makes nothing that is kept for a while older or younger.
func TestSettingTheClockDropsNothing(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		s := newStore(t, func(c *Config) { c.LogAge, c.HistoryAge, c.TokenAge = time.Hour, time.Hour, time.Hour })
		add := func() {
			c := s.commit(s.clock.Now(), op{"ns", "key", "v"})
			c.Token = &kvstore.Token{NS: "ns", Name: fmt.Sprint(s.rev), Revision: s.rev, Time: s.clock.Now().UnixMilli(), Result: []byte("r")}
			require.NoError(t, s.disk.Append([]kvstore.Commit{c}))
			s.tables()
		}
		add()
		s.clock.Step(step)
		s.clock.Advance(59 * time.Minute)
		add()
		require.Equal(t, 2, s.rows(tokenKind), step)
		log, history := s.disk.Floors()
		require.Zero(t, log, step)
		require.Zero(t, history, step)
		s.clock.Step(-2 * step)
		s.clock.Advance(2 * time.Minute)
		add()
		require.Equal(t, 2, s.rows(tokenKind), step)
		log, _ = s.disk.Floors()
		require.Equal(t, kv.Revision(1), log, step)
	}
}

// Changes of documents are durable when they are acknowledged, even if those of keys need not be.
func TestDocumentsAreDurableWhenTheyAreAcknowledged(t *testing.T) {
	s := newStore(t, func(c *Config) { c.AckBeforeDisk = true })
	s.put(op{"ns", "before", "1"})
	s.put(op{kv.ConfigNamespace, "doc/a.json", "1"})
	lost := s.cfg.FS.(*vfs.MemFS).CrashClone(vfs.CrashCloneCfg{})
	s.put(op{"ns", "after", "1"})
	require.NoError(t, s.disk.Close())
	cfg := s.cfg
	cfg.FS = lost
	loaded, d, err := load(cfg)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	require.Len(t, loaded.current, 2)
	require.Equal(t, "1", string(loaded.current[name{kv.ConfigNamespace, "doc/a.json"}].Value.Data))
}

func TestChangesComeFromMemoryAndLogAlike(t *testing.T) {
	s := newStore(t, func(c *Config) { c.RingBytes = 1000 })
	for i := range 100 {
		s.put(op{"ns", fmt.Sprint("k", i%7), fmt.Sprint("v", i)}, op{"ns", "hot", fmt.Sprint(i)})
		if i == 60 {
			s.tables()
		}
	}
	for _, where := range []string{"mixed", "log"} {
		for after := range s.rev {
			for _, size := range []int{1, 200, 1 << 20} {
				s.checkChanges(after, size)
			}
		}
		if where == "mixed" {
			s.reopen()
		}
	}
	changes, err := s.disk.Changes(s.rev, 1)
	require.NoError(t, err)
	require.Empty(t, changes)
	_, err = s.disk.Changes(s.rev+1, 1)
	require.Equal(t, codes.FutureRevision, codes.Of(err))
}

// checkChanges holds an answer against the model, from the definition.
func (s *store) checkChanges(after kv.Revision, maxBytes int) {
	s.t.Helper()
	changes, err := s.disk.Changes(after, maxBytes)
	require.NoError(s.t, err)
	require.NotEmpty(s.t, changes)
	floor, _ := s.disk.Floors() // versions made after it are still somewhere
	size := 0
	for i, c := range changes {
		require.True(s.t, i == 0 || size < maxBytes, "more than was asked for")
		want := s.changes[int(after)+i]
		require.Equal(s.t, want.Revision, c.Revision)
		require.Equal(s.t, want.Time, c.Time)
		require.Len(s.t, c.Events, len(want.Events))
		for j := range c.Events {
			require.Equal(s.t, want.Events[j].Kind, c.Events[j].Kind)
			require.Equal(s.t, text(want.Events[j].Entry), text(c.Events[j].Entry))
			if prev := want.Events[j].Prev; c.Events[j].Prev != nil || prev != nil && prev.Mod > floor {
				require.Equal(s.t, text(prev), text(c.Events[j].Prev))
			}
			size += max(leastBytes, want.Events[j].Entry.Size())
		}
	}
	last := changes[len(changes)-1].Revision
	require.True(s.t, size >= maxBytes || last == s.rev, "less than was asked for")
}

// A watch that resumed behind a drop of many small keys read a group of the log for each.
func TestADropIsReadBackWithoutReadingAGroupForEachKey(t *testing.T) {
	const groups, keys = 20, 30
	s := newStore(t, func(c *Config) { c.RingBytes = 1 })
	var drop []op
	for i := range groups {
		var puts []op
		for k := range keys {
			puts = append(puts, op{"ns", fmt.Sprint("k", k, "/", i), "v"})
			drop = append(drop, op{"ns", fmt.Sprint("k", k, "/", i), ""})
		}
		s.put(puts...)
	}
	slices.SortFunc(drop, func(a, b op) int { return strings.Compare(a.key, b.key) })
	after := s.rev
	s.put(drop...)
	s.checkChanges(after, 1)

	snap := s.disk.db.NewSnapshot()
	defer snap.Close()
	p := &previous{d: s.disk, snap: snap, seen: map[name]*kv.Entry{}}
	g, err := p.groupOf(s.rev)
	require.NoError(t, err)
	require.NoError(t, p.fill(&g.commits[0].Change, g.prevs))
	require.Equal(t, groups, p.reads)
	for _, e := range g.commits[0].Change.Events {
		require.Equal(t, e.Entry.Key, e.Prev.Key)
	}
}

func TestPastVersions(t *testing.T) {
	s := newStore(t, nil)
	for i := range 50 {
		s.put(op{"ns", "k", fmt.Sprint(i)}, op{"ns", fmt.Sprint("k", i%5), "x"})
		if i%9 == 5 {
			s.put(op{"ns", "k", ""})
		}
		if i%13 == 7 {
			s.tables()
		}
	}
	for rev := range s.rev + 1 {
		for _, key := range []string{"k", "k0", "k3", "none"} {
			s.checkAt(key, rev)
		}
	}
	_, err := s.disk.GetAt("ns", "k", s.rev+1)
	require.Equal(t, codes.FutureRevision, codes.Of(err))
	s.checkHistory("k")
	s.checkHistory("k2")
}

func (m *model) at(id name, rev kv.Revision) *kv.Entry {
	var found *kv.Entry
	for _, e := range m.past[id] {
		if e.Mod <= rev {
			found = e
		}
	}
	if found != nil && found.Deleted() {
		return nil
	}
	return found
}

func (s *store) checkAt(key string, rev kv.Revision) {
	s.t.Helper()
	e, err := s.disk.GetAt("ns", key, rev)
	require.NoError(s.t, err)
	require.Equal(s.t, text(s.at(name{"ns", key}, rev)), text(e), "%s at %d", key, rev)
}

func (s *store) checkHistory(key string) {
	s.t.Helper()
	past := s.past[name{"ns", key}]
	var before kv.Revision
	for i := len(past); i > 0; {
		page, err := s.disk.Versions("ns", key, before, 4)
		require.NoError(s.t, err)
		require.Zero(s.t, page.Floor)
		require.NotEmpty(s.t, page.Entries)
		for _, e := range page.Entries {
			i--
			require.Equal(s.t, text(past[i]), text(e))
		}
		require.Equal(s.t, i > 0, page.More)
		before = past[i].Mod
	}
}
