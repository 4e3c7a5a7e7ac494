package suite

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
)

// sharer is one of several stores on one list.
type sharer struct {
	*kvstore.Store
	txns []*kv.Txn

	mu      sync.Mutex
	told    []kv.Change   // guarded by mu
	reached chan struct{} // has something when more was told
}

// Whatever stores that share a list commit at the same time, in the end all have the same, which is what
// a plain map has that did what the list says.
func TestStoresThatShareAListAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const once = 3 // transactions that all ask for
		list, now := memory.NewShared(memory.Config{}), clocktest.NewFake(start)
		all := make([]*sharer, rapid.IntRange(2, 3).Draw(t, "stores"))
		increments := int64(once)
		for i := range all {
			name := fmt.Sprint("store", i)
			s, err := kvstore.Open(context.Background(), kvstore.Config{Name: name, Clock: now}, list.Log(name))
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			all[i] = &sharer{Store: s, reached: make(chan struct{}, 1)}
			s.Follow(all[i].follow)
			r := &comparison{t: t, model: newModel()}
			for range rapid.IntRange(1, 10).Draw(t, "transactions") {
				all[i].txns = append(all[i].txns, r.draw(), &kv.Txn{Then: []kv.Op{incrOp("counts", "k", 1)}})
				increments++
			}
			for n := range once {
				all[i].txns = append(all[i].txns, &kv.Txn{TokenNS: "counts", Token: fmt.Sprint("once", n), Then: []kv.Op{incrOp("counts", "k", 1)}})
			}
		}
		var running sync.WaitGroup
		for _, s := range all {
			running.Go(s.run)
		}
		running.Wait()
		newest := kv.Revision(0)
		for _, s := range all {
			newest = max(newest, s.Revision())
		}
		for _, s := range all {
			s.await(newest)
		}
		compareSharers(t, all)
		e, _ := all[0].Get([]byte("counts"), []byte("k"))
		n, err := e.Value.Int()
		require.NoError(t, err)
		require.Equal(t, increments, n)
	})
}

// run commits everything, several transactions at a time.
func (s *sharer) run() {
	var waiting sync.WaitGroup
	for _, txn := range s.txns {
		waiting.Add(1)
		if s.Commit(txn, func(*kv.Result, error) { waiting.Done() }) != nil {
			waiting.Done()
		}
	}
	waiting.Wait()
}

func (s *sharer) follow(b *kv.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, b.Changes...)
	select {
	case s.reached <- struct{}{}:
	default:
	}
}

func (s *sharer) changes() []kv.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}

// await waits until the store has told its followers of a revision.
func (s *sharer) await(rev kv.Revision) {
	for kv.Revision(len(s.changes())) < rev {
		<-s.reached
	}
}

func compareSharers(t *rapid.T, all []*sharer) {
	stats := all[0].Stats()
	for _, s := range all {
		logged, err := s.Changes(context.Background(), 0, 1<<30)
		require.NoError(t, err)
		plain := map[name]string{}
		leases := map[kv.LeaseID]bool{}
		told := s.changes()
		require.Len(t, told, len(logged))
		for i, c := range logged {
			require.EqualValues(t, i+1, c.Revision)
			require.Equal(t, c.Revision, told[i].Revision, "each once, in order")
			require.Equal(t, eventTexts(c.Events), eventTexts(told[i].Events))
			for _, e := range c.Events {
				n := name{e.Entry.NS, e.Entry.Key}
				if delete(plain, n); e.Kind == kv.Put {
					plain[n] = entryText(e.Entry)
					leases[e.Entry.Lease] = true
				}
			}
		}
		have := map[name]string{}
		view := s.View()
		for _, ns := range []string{"a", "a/b", "b", "counts"} {
			page, err := view.List(kv.List{NS: ns})
			require.NoError(t, err)
			for _, e := range page.Entries {
				have[name{ns, e.Key}] = entryText(e)
			}
		}
		view.Close()
		require.Equal(t, plain, have)
		for id := range leases {
			mine, err := all[0].Lease(id)
			theirs, known := s.Lease(id)
			require.Equal(t, err == nil, known == nil)
			require.Equal(t, mine, theirs)
		}
		now := s.Stats()
		require.Equal(t, []any{stats.Revision, stats.Keys, stats.Bytes, stats.Leases, stats.Tokens, stats.Commits, stats.Groups},
			[]any{now.Revision, now.Keys, now.Bytes, now.Leases, now.Tokens, now.Commits, now.Groups})
	}
}
