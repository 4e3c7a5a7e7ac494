package disk

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.UnixMilli(1_700_000_000_000)

// store is a Disk with the plain map that it must agree with.
type store struct {
	t     testing.TB
	cfg   Config
	clock *clocktest.Fake
	disk  *Disk
	*model
}

// model is what was appended, in full.
type model struct {
	rev     kv.Revision
	current map[name]*kv.Entry
	past    map[name][]*kv.Entry // every version ever, oldest first, deletions included
	changes []kv.Change
	leases  map[kv.LeaseID]kvstore.LeaseChange
	tokens  []*kvstore.Token
}

func newModel() *model {
	return &model{current: map[name]*kv.Entry{}, past: map[name][]*kv.Entry{}, leases: map[kv.LeaseID]kvstore.LeaseChange{}}
}

func testConfig(fs vfs.FS, now clock.Clock) Config {
	return Config{Dir: "data", FS: fs, Clock: now, Log: zerolog.Nop()}
}

func newStore(t testing.TB, adjust func(*Config)) *store {
	fake := clocktest.NewFake(start)
	s := &store{t: t, cfg: testConfig(vfs.NewCrashableMem(), fake), clock: fake, model: newModel()}
	if adjust != nil {
		adjust(&s.cfg)
	}
	s.open()
	t.Cleanup(func() {
		if s.disk != nil {
			_ = s.disk.Close()
		}
	})
	return s
}

// open opens the store and compares what it loads with the model.
func (s *store) open() {
	s.t.Helper()
	loaded, d, err := load(s.cfg)
	require.NoError(s.t, err)
	s.disk = d
	loaded.equal(s.t, s.model)
}

func (s *store) reopen() {
	s.t.Helper()
	require.NoError(s.t, s.disk.Close())
	s.open()
}

// load opens a store into a model, as an engine would.
func load(cfg Config) (*model, *Disk, error) {
	m := newModel()
	d, rev, err := OpenLog(cfg, kvstore.Loader{
		Entry: func(e *kv.Entry) { m.current[name{e.NS, e.Key}] = e },
		Lease: m.lease,
		Token: func(t *kvstore.Token) { m.tokens = append(m.tokens, t) },
		Commit: func(c *kvstore.Commit) {
			m.apply(c)
			m.rev = c.Revision
		},
	})
	m.rev = max(m.rev, rev)
	return m, d, err
}

func (m *model) lease(l kvstore.LeaseChange) {
	m.leases[l.ID] = l
	if l.Ended {
		delete(m.leases, l.ID)
	}
}

func (m *model) apply(c *kvstore.Commit) {
	for i := range c.Events {
		e := c.Events[i].Entry
		id := name{e.NS, e.Key}
		m.past[id] = append(m.past[id], e)
		if e.Deleted() {
			delete(m.current, id)
			continue
		}
		m.current[id] = e
	}
	for _, l := range c.Leases {
		m.lease(l)
	}
	if c.Token != nil {
		m.tokens = append(m.tokens, c.Token)
	}
}

// equal compares what a restart must bring back.
func (m *model) equal(t require.TestingT, want *model) {
	require.Equal(t, want.rev, m.rev)
	require.Equal(t, plain(want.current), plain(m.current))
	require.Equal(t, want.leases, m.leases)
	require.Equal(t, len(want.tokens), len(m.tokens))
	for i := range want.tokens {
		require.Equal(t, *want.tokens[i], *m.tokens[i])
	}
}

// plain makes entries comparable: an empty value may be nil or not.
func plain(entries map[name]*kv.Entry) map[name]string {
	texts := make(map[name]string, len(entries))
	for id, e := range entries {
		texts[id] = text(e)
	}
	return texts
}

func text(e *kv.Entry) string {
	if e == nil {
		return "absent"
	}
	return fmt.Sprintf("%s/%s=%s(%s) create %d mod %d version %d updated %d expires %d lease %d lock %t",
		e.NS, e.Key, e.Value.Data, e.Value.Type, e.Create, e.Mod, e.Version, e.Updated, e.Expires, e.Lease, e.Lock())
}

// op is a write of a test; an empty value deletes.
type op struct{ ns, key, value string }

// commit makes the transaction that does the operations, and applies it to m.
func (m *model) commit(now time.Time, ops ...op) kvstore.Commit {
	m.rev++
	c := kvstore.Commit{Change: kv.Change{Revision: m.rev, Time: now.UnixMilli()}}
	for _, o := range ops {
		old := m.current[name{o.ns, o.key}]
		e := &kv.Entry{NS: o.ns, Key: o.key, Create: m.rev, Mod: m.rev, Version: 1, Updated: c.Time}
		kind := kv.Put
		if old != nil {
			e.Create, e.Version = old.Create, old.Version+1
		}
		if o.value == "" {
			if old == nil {
				continue
			}
			kind, e.Version, e.Create = kv.Delete, 0, 0
		} else {
			e.Value = kv.StringValue(o.value)
		}
		c.Events = append(c.Events, kv.Event{Kind: kind, Entry: e, Prev: old})
	}
	m.apply(&c)
	m.changes = append(m.changes, c.Change)
	return c
}

// put appends one group of one transaction.
func (s *store) put(ops ...op) kv.Revision {
	s.t.Helper()
	require.NoError(s.t, s.disk.Append([]kvstore.Commit{s.commit(s.clock.Now(), ops...)}))
	return s.rev
}

// tables makes tables of everything, as the keeper would sooner or later.
func (s *store) tables() {
	s.t.Helper()
	s.stopped(func() { require.NoError(s.t, s.disk.keeper.materialise()) })
}

// stopped calls fn while the keeper does not run, and then starts it again.
func (s *store) stopped(fn func()) {
	k := s.disk.keeper
	k.end()
	fn()
	k.stop = make(chan struct{})
	k.begin()
}
