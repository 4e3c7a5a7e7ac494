package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/kvstore/disk"
)

// exactKit is an Exact on a real store.
type exactKit struct {
	*Exact
	t testing.TB
}

func startExact(t testing.TB, wrap func(kv.Store) kv.Store) *exactKit {
	t.Helper()
	engine, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(t.TempDir(), "state"), ReserveBytes: 1}})
	require.NoError(t, err)
	store := kv.Store(engine)
	if wrap != nil {
		store = wrap(store)
	}
	h := NewExact(Config{
		Store: store, Pool: memory.NewPool(512 << 10), Keep: 256 << 10, Piece: 16 << 10, Holders: 4, Readers: 4,
		Cut: Cut{Alone: true, Max: 4000, Cost: func(e *kv.Event) int { return memory.VersionCost + e.Entry.Size() }},
	})
	t.Cleanup(func() {
		h.Close()
		require.NoError(t, engine.Close())
	})
	return &exactKit{h, t}
}

func (h *exactKit) commit(ops ...kv.Op) kv.Revision {
	h.t.Helper()
	type outcome struct {
		result *kv.Result
		err    error
	}
	done := make(chan outcome, 1)
	require.NoError(h.t, h.source.Store.(kv.Store).Commit(&kv.Txn{Then: ops}, func(r *kv.Result, err error) { done <- outcome{r, err} }))
	o := <-done
	require.NoError(h.t, o.err)
	return o.result.Revision
}

func put(ns, key, value string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: ns, Key: key, Value: kv.StringValue(value)}
}

// mirror is a receiver: what it knows of the store, and in which order it was told.
type mirror struct {
	*Follower
	filter kv.Filter
	t      testing.TB
	known  map[string]string // "ns/key" = value
	told   []string
	resync int
	synced bool
	last   kv.Revision
	key    string // told last of that revision
	rests  bool   // after each notice, as at the end of a turn
}

func (h *exactKit) mirror(filter kv.Filter, from kv.Revision, state bool) *mirror {
	h.t.Helper()
	s, err := h.Follow(Request{Filter: filter, From: from, State: state, Spare: Overwritten})
	require.NoError(h.t, err)
	h.t.Cleanup(s.Stop)
	return &mirror{Follower: s, filter: filter, t: h.t, known: map[string]string{}, last: from}
}

// until takes what there is until the mirror stands at a revision.
func (m *mirror) until(revision kv.Revision) *mirror {
	m.t.Helper()
	for {
		n, ok, far, err := m.Take()
		require.NoError(m.t, err)
		if far {
			require.NoError(m.t, m.ReadBack(context.Background()))
			continue
		}
		if ok {
			m.apply(n)
			if m.rests {
				m.Rest()
			}
			continue
		}
		if m.At() >= revision {
			return m
		}
		<-m.arrival(revision)
	}
}

// arrival waits for the next change that matches, or for it to have come as far.
func (m *mirror) arrival(revision kv.Revision) <-chan struct{} {
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		for {
			select {
			case <-m.wake:
				return
			default:
			}
			if kv.Revision(m.exact.told.Load()) >= revision {
				return
			}
			runtime.Gosched()
		}
	}()
	return ready
}

func (m *mirror) apply(n kv.Notice) {
	switch n.Kind {
	case kv.Resync:
		m.resync++
		clear(m.known)
		m.last, m.key = 0, ""
	case kv.Synced:
		m.synced = true
	}
	for _, e := range n.Events {
		require.True(m.t, m.filter.Match(e.Entry.NS, e.Entry.Key))
		key := e.Entry.NS + "/" + e.Entry.Key
		if n.Kind == kv.Changed {
			if e.Entry.Mod != m.last || m.key == "" {
				require.Greater(m.t, e.Entry.Mod, m.last, "nothing is told twice")
			} else {
				require.Greater(m.t, key, m.key, "nothing is told twice")
			}
			require.Equal(m.t, n.Revision, e.Entry.Mod, "one revision at a time")
			m.last, m.key = e.Entry.Mod, key
		}
		delete(m.known, key)
		if e.Kind == kv.Put {
			m.known[key] = string(e.Entry.Value.Data)
		}
		m.told = append(m.told, key+"="+string(e.Entry.Value.Data))
	}
	if n.Kind == kv.Changed && !n.More {
		m.key = "" // the revision is complete
	}
}

func TestFiltersOfFollowers(t *testing.T) {
	h := startExact(t, nil)
	h.commit(put("a", "old", "0"))
	all, ns := h.mirror(kv.Filter{}, 0, false), h.mirror(kv.Filter{NS: "a"}, 0, false)
	prefix, exact := h.mirror(kv.Filter{NS: "a", Text: "k."}, 0, false), h.mirror(kv.Filter{NS: "a", Text: "k.2", Exact: true}, 0, false)
	state := h.mirror(kv.Filter{NS: "a"}, 0, true)
	h.commit(put("a", "k.1", "1"), put("a", "k.2", "2"), put("a", "k.20", "3"), put("a", "z", "4"), put("b", "k.2", "5"))
	last := h.commit(kv.Op{Kind: kv.OpDelete, NS: "a", Key: "k.2"})
	require.Equal(t, []string{"a/k.1=1", "a/k.2=2", "a/k.20=3", "a/z=4", "b/k.2=5", "a/k.2="}, all.until(last).told)
	require.Equal(t, []string{"a/k.1=1", "a/k.2=2", "a/k.20=3", "a/z=4", "a/k.2="}, ns.until(last).told)
	require.Equal(t, []string{"a/k.1=1", "a/k.2=2", "a/k.20=3", "a/k.2="}, prefix.until(last).told)
	require.Equal(t, []string{"a/k.2=2", "a/k.2="}, exact.until(last).told)
	require.Equal(t, map[string]string{"a/old": "0", "a/k.1": "1", "a/k.20": "3", "a/z": "4"}, state.until(last).known)
	require.True(t, state.synced)
	_, err := h.Follow(Request{Filter: kv.Filter{Text: "x"}})
	require.Error(t, err)
	_, err = h.Follow(Request{From: last + 1000})
	require.ErrorIs(t, err, codes.FutureRevision)
}

func TestFollowersGoOnWhereTheyWere(t *testing.T) {
	h := startExact(t, nil)
	first := h.commit(put("a", "k", "1"))
	h.commit(put("a", "k", "2"), put("a", "l", "3"))
	h.commit(put("b", "k", "4"))
	last := h.commit(put("a", "m", "5"))
	require.Equal(t, []string{"a/k=2", "a/l=3", "a/m=5"}, h.mirror(kv.Filter{NS: "a"}, first, false).until(last).told)
	require.Empty(t, h.mirror(kv.Filter{NS: "a"}, last, false).until(last).told)
}

// A follower that nothing matches still knows how far it is, so that it need not read
// everything back when it is asked to go on from there.
func TestPositionGoesOnWithoutEvents(t *testing.T) {
	h := startExact(t, nil)
	m := h.mirror(kv.Filter{NS: "quiet"}, 0, false)
	last := h.commit(put("busy", "k", "1"))
	require.Empty(t, m.until(last).told)
	require.Equal(t, last, m.At())
}

// compacting is a store that has forgotten its log.
type compacting struct {
	kv.Store
	once sync.Once
}

func (c *compacting) Changes(ctx context.Context, after kv.Revision, maxBytes int) (changes []kv.Change, err error) {
	c.once.Do(func() { err = codes.Errorf(codes.Compacted, "gone") })
	if err != nil {
		return nil, err
	}
	return c.Store.Changes(ctx, after, maxBytes)
}

func TestStateAfterWhatIsNoLongerKept(t *testing.T) {
	h := startExact(t, func(s kv.Store) kv.Store { return &compacting{Store: s} })
	first := h.commit(put("a", "k", "1"), put("b", "k", "1"))
	last := h.commit(put("a", "k", "2"))
	m := h.mirror(kv.Filter{}, first, false).until(last)
	require.Equal(t, 1, m.resync)
	require.True(t, m.synced)
	require.Equal(t, map[string]string{"a/k": "2", "b/k": "1"}, m.known)
}

// Whatever is written while followers fall behind in every way there is, all of them
// know the same in the end, and were told nothing twice.
func TestFollowersConverge(t *testing.T) {
	h := startExact(t, nil)
	filters := []kv.Filter{{}, {NS: "n0"}, {NS: "n1"}, {NS: "n0", Text: "k1"}, {NS: "n1", Text: "k2", Exact: true}}
	var mirrors []*mirror
	for i, filter := range filters {
		mirrors = append(mirrors, h.mirror(filter, 0, i%2 == 0), h.mirror(filter, 0, true))
	}
	for i, m := range mirrors {
		m.rests = i%3 == 0
	}
	random := rand.New(rand.NewPCG(1, 2))
	var last kv.Revision
	for round := range 600 {
		var ops []kv.Op
		for range 1 + random.IntN(4) {
			op := put("n"+strconv.Itoa(random.IntN(3)), "k"+strconv.Itoa(random.IntN(30)), fmt.Sprint(round))
			if random.IntN(4) == 0 {
				op.Kind = kv.OpDelete
			}
			ops = append(ops, op)
		}
		last = h.commit(ops...)
		switch random.IntN(12) {
		case 0:
			h.recent.Pass(last) // as if it had missed something: all followers read back
		case 1:
			require.NoError(t, mirrors[random.IntN(len(mirrors))].cursor.Fetch(t.Context()))
		case 2:
			mirrors[random.IntN(len(mirrors))].until(last)
		}
	}
	for i, m := range mirrors {
		m.until(last)
		want := map[string]string{}
		for _, ns := range []string{"n0", "n1", "n2"} {
			view := h.source.Store.View()
			page, err := view.List(kv.List{NS: ns})
			require.NoError(t, err)
			view.Close()
			for _, e := range page.Entries {
				if m.filter.Match(ns, e.Key) {
					want[ns+"/"+e.Key] = string(e.Value.Data)
				}
			}
		}
		require.Equal(t, want, m.known, "mirror %d of %+v", i, m.filter)
		require.Zero(t, m.resync)
	}
}

// Followers that read while others write, some slower than it can wait for, miss
// nothing: every key is written once, so nothing makes up for what was left out.
func TestFollowersMissNothingUnderLoad(t *testing.T) {
	h := startExact(t, nil)
	const writers, writes = 4, 200
	value := strings.Repeat("v", 4<<10)
	filters := []kv.Filter{{}, {NS: "n0"}, {NS: "n1"}, {NS: "n2", Text: "k1"}, {NS: "quiet"}, {NS: "n3", Text: "k1-199", Exact: true}}
	var mirrors []*mirror
	for i := range 3 * len(filters) {
		mirrors = append(mirrors, h.mirror(filters[i/3], 0, i%3 == 2))
	}
	for i, m := range mirrors {
		m.rests = i%2 == 0
	}
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range writes {
				h.commit(put("n"+strconv.Itoa(i%4), fmt.Sprintf("k%d-%d", w, i), value), put("n9", "busy", strconv.Itoa(i)))
			}
		})
	}
	all := make(chan kv.Revision)
	for i, m := range mirrors {
		reading.Go(func() {
			for range 20 * (i % 3) { // these begin to read late
				runtime.Gosched()
			}
			m.until(h.Revision())
			m.until(<-all)
		})
	}
	writing.Wait()
	last := h.commit(put("n3", "last", "v"))
	for range mirrors {
		all <- last
	}
	reading.Wait()
	for i, m := range mirrors {
		want := map[string]string{}
		for w := range writers {
			for i := range writes {
				if ns, key := "n"+strconv.Itoa(i%4), fmt.Sprintf("k%d-%d", w, i); m.filter.Match(ns, key) {
					want[ns+"/"+key] = value
				}
			}
		}
		delete(m.known, "n9/busy")
		delete(m.known, "n3/last")
		require.Equal(t, len(want), len(m.known), "mirror %d of %+v", i, m.filter) // Len would print them
		require.Zero(t, m.resync)
	}
	t.Logf("%d fell behind", h.Behind())
}

// A follower that has gone is told nothing, and nothing is noted where there is none.
func TestClosedFollowersLeaveNothing(t *testing.T) {
	h := startExact(t, nil)
	s, err := h.Follow(Request{Filter: kv.Filter{NS: "a"}, State: true})
	require.NoError(t, err)
	_, err = s.Next(t.Context()) // its view is open
	require.NoError(t, err)
	s.Stop()
	require.Zero(t, h.topics.Len())
	require.Zero(t, h.Open())
	h.commit(put("a", "k", "1"))
	require.Empty(t, h.recent.Since(0, 1<<30).Changes)
}
