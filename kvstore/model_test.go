package kvstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// Whatever is committed, in whatever groups, with whatever Views open: reads agree
// with the events, Views never change, and nothing is kept that no one needs.
func TestStateFollowsFromEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, rapid.IntRange(2, 4).Draw(t, "slice"))
		t.Repeat(map[string]func(*rapid.T){
			"group": m.group,
			"view":  m.openView,
			"close": m.closeView,
			"wait": func(t *rapid.T) {
				m.clock.Advance(time.Duration(rapid.IntRange(0, 300).Draw(t, "ms")) * time.Millisecond)
			},
			"": m.check,
		})
		for len(m.views) > 0 {
			m.closeView(t)
		}
		m.store.committer.tend()
		m.checkNothingKept(t)
		m.checkReload(t)
	})
}

type model struct {
	store *Store
	disk  *fakeLog
	clock *clocktest.Fake
	state map[string]*kv.Entry // by "ns/key", as the events tell
	rev   kv.Revision
	views []modelView
}

type modelView struct {
	kv.View
	state map[string]*kv.Entry
}

func newModel(t *rapid.T, slice int) *model {
	m := &model{disk: &fakeLog{}, clock: clocktest.NewFake(noon), state: map[string]*kv.Entry{}}
	cfg := Config{Clock: m.clock, MaxKeys: 12}
	s, err := load(context.Background(), cfg.withDefaults(), m.disk)
	require.NoError(t, err)
	s.index.slice = slice
	m.store = s
	m.heed(t)
	return m
}

// heed follows the store.
func (m *model) heed(t *rapid.T) {
	m.store.Follow(func(b *kv.Batch) {
		for i := range b.Changes {
			m.follow(t, &b.Changes[i])
		}
	})
}

// follow checks the change against what is known and takes it in.
func (m *model) follow(t *rapid.T, c *kv.Change) {
	require.Equal(t, m.rev+1, c.Revision)
	m.rev = c.Revision
	last := ""
	for _, event := range c.Events {
		e := event.Entry
		name := e.NS + "/" + e.Key
		require.Greater(t, name, last)
		last = name
		old := m.state[name]
		require.Same(t, old, event.Prev, "%s at %d", name, c.Revision)
		require.Equal(t, c.Revision, e.Mod)
		if event.Kind != kv.Put {
			require.NotNil(t, old)
			require.True(t, e.Deleted())
			delete(m.state, name)
			continue
		}
		require.False(t, e.Deleted())
		if old != nil && e.Create == old.Create {
			require.Equal(t, old.Version+1, e.Version)
		} else {
			require.Equal(t, c.Revision, e.Create)
			require.EqualValues(t, 1, e.Version)
		}
		m.state[name] = e
	}
}

func (m *model) group(t *rapid.T) {
	var list []queued
	answered := 0
	for range rapid.IntRange(1, 6).Draw(t, "transactions") {
		txn := &kv.Txn{}
		for range rapid.IntRange(1, 5).Draw(t, "operations") {
			txn.Then = append(txn.Then, m.op(t))
		}
		if txn.Check() != nil { // two leases
			continue
		}
		list = append(list, queued{txn: txn, done: func(*kv.Result, error) { answered++ }})
	}
	require.True(t, m.store.committer.commit(list))
	m.store.committer.tend()
	require.Equal(t, len(list), answered)
	require.Equal(t, m.rev, m.store.Revision())
}

func (m *model) op(t *rapid.T) kv.Op {
	op := kv.Op{
		NS:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "ns"),
		Key:  rapid.SampledFrom([]string{"k", "ka", "kab", "kb", "l"}).Draw(t, "key"),
		Kind: rapid.SampledFrom([]kv.OpKind{kv.OpPut, kv.OpPut, kv.OpPut, kv.OpDelete, kv.OpDelete, kv.OpDeletePrefix, kv.OpIncr, kv.OpGrant, kv.OpRevoke}).Draw(t, "kind"),
	}
	leases := append([]kv.LeaseID{0, 0, 0, 77}, slices.Sorted(maps.Keys(m.store.leases.byID.of))...)
	switch op.Kind {
	case kv.OpPut:
		op.Value = kv.IntValue(rapid.Int64Range(0, 3).Draw(t, "value"))
		if rapid.IntRange(0, 9).Draw(t, "text") == 0 {
			op.Value = kv.StringValue("x") // so that increments fail
		}
		op.TTL = time.Duration(rapid.SampledFrom([]int{0, 0, 1, 200}).Draw(t, "ttl")) * time.Millisecond
		if op.TTL == 0 && rapid.IntRange(0, 9).Draw(t, "past") == 0 {
			op.Expires = 1
		}
		op.Lease = rapid.SampledFrom(leases).Draw(t, "lease")
	case kv.OpIncr:
		op.Delta = 1
	case kv.OpGrant:
		op.TTL = 250 * time.Millisecond
	case kv.OpRevoke:
		op.Lease = rapid.SampledFrom(leases).Draw(t, "lease")
	}
	return op
}

func (m *model) openView(*rapid.T) {
	if len(m.views) < 4 {
		m.views = append(m.views, modelView{m.store.View(), maps.Clone(m.state)})
	}
}

func (m *model) closeView(t *rapid.T) {
	if len(m.views) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.views)-1).Draw(t, "view")
	m.views[i].Close()
	m.views = slices.Delete(m.views, i, i+1)
}

func (m *model) check(t *rapid.T) {
	now := modelView{m.store.View(), m.state}
	defer now.Close()
	for _, v := range append(slices.Clone(m.views), now) {
		m.checkView(t, v)
	}
	for _, ns := range []string{"a", "b", "c"} {
		for _, key := range []string{"k", "ka", "kab", "kb", "l", "absent"} {
			e, rev := m.store.Get([]byte(ns), []byte(key))
			require.Equal(t, m.rev, rev)
			require.Same(t, m.state[ns+"/"+key], e)
		}
	}
	m.checkBooks(t)
}

func (m *model) checkView(t *rapid.T, v modelView) {
	found := map[string]*kv.Entry{}
	for _, ns := range []string{"a", "b", "c"} {
		l := kv.List{NS: ns, Limit: 2}
		for more := true; more; {
			page, err := v.List(l)
			require.NoError(t, err)
			for _, e := range page.Entries {
				found[ns+"/"+e.Key] = e
				require.Greater(t, e.Key, l.After)
				l.After = e.Key
			}
			require.EqualValues(t, len(page.Entries), page.Count)
			more = page.More
		}
		for _, prefix := range []string{"", "k", "ka"} {
			page, err := v.List(kv.List{NS: ns, Prefix: prefix, CountOnly: true})
			require.NoError(t, err)
			counted := 0
			for name := range v.state {
				if rest := ns + "/" + prefix; len(name) >= len(rest) && name[:len(rest)] == rest {
					counted++
				}
			}
			require.EqualValues(t, counted, page.Count, "%s/%s", ns, prefix)
		}
	}
	require.Equal(t, v.state, found)
	for name, e := range v.state {
		got, err := v.Get(e.NS, e.Key)
		require.NoError(t, err)
		require.Same(t, e, got, name)
	}
}

// checkBooks compares all that is counted and planned with the state.
func (m *model) checkBooks(t *rapid.T) {
	want := map[string]*kv.Namespace{}
	var total usage
	timed, leased := 0, map[kv.LeaseID]int{}
	for _, e := range m.state {
		if want[e.NS] == nil {
			want[e.NS] = &kv.Namespace{Name: e.NS}
			total.cost += memory.OwnerCost + bytesCost(len(e.NS))
		}
		want[e.NS].Keys++
		want[e.NS].Bytes += int64(e.Size())
		total.add(usage{keys: 1, bytes: int64(e.Size()), cost: costOf(e), leased: oneIf(e.Lease)})
		if e.Expires != 0 {
			timed++
		}
		if e.Lease != 0 {
			leased[e.Lease]++
		}
	}
	var list []kv.Namespace
	for _, name := range slices.Sorted(maps.Keys(want)) {
		list = append(list, *want[name])
	}
	got, more := m.store.Namespaces("", 0)
	require.False(t, more)
	require.Equal(t, list, got)
	stats := m.store.Stats()
	require.Equal(t, total, usage{stats.Keys, stats.Bytes, total.cost, total.leased})
	require.EqualValues(t, len(list), stats.Namespaces)
	require.Equal(t, total, m.store.index.total)

	counters := m.store.committer.group.counters
	total.cost += int64((len(counters.leases.byID.of) + len(leased)) * memory.LeaseCost)
	require.Equal(t, total, counters.total())
	require.Equal(t, total.cost, counters.held.told)
	x := &counters.expiry
	require.Equal(t, timed, len(x.moments.heap)+len(x.lives.heap))
	for i, p := range x.moments.heap {
		require.Equal(t, i, p.pos)
		require.Equal(t, end{p.at, 0}, end{p.slot.entry.Expires, p.slot.entry.Ends})
	}
	for i, p := range x.lives.heap {
		require.Equal(t, i, p.pos)
		require.Equal(t, p.at, p.slot.entry.Ends)
	}
	for id, l := range m.store.leases.byID.of {
		require.Len(t, l.keys.of, leased[id])
		require.Equal(t, leased[id], l.count)
		require.True(t, l.seen)
		require.False(t, l.noted || l.ending)
		delete(leased, id)
	}
	require.Empty(t, leased, "keys of leases that are gone")
}

func (m *model) checkNothingKept(t *rapid.T) {
	x := m.store.index
	require.Empty(t, x.kept)
	require.Zero(t, x.keptBytes)
	slots := 0
	for _, sp := range x.spaces.of {
		require.NotEmpty(t, sp.keys.of)
		require.Equal(t, len(sp.keys.of), sp.tree.Len())
		for key, s := range sp.keys.of {
			require.Equal(t, key, s.entry.Key)
			require.Nil(t, s.older)
			require.Nil(t, s.next)
			slots++
		}
	}
	require.Len(t, m.state, slots)
	require.Equal(t, len(x.spaces.of), x.names.Len())
}

// checkReload opens what was written again.
func (m *model) checkReload(t *rapid.T) {
	again, err := load(context.Background(), m.store.cfg, m.disk)
	require.NoError(t, err)
	m.store = again
	m.check(t)
	for _, l := range again.leases.byID.of {
		require.Equal(t, l.ttl, l.deadline-again.leases.now(), fmt.Sprint(l.id))
	}
}
