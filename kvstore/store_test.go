package kvstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
)

// gated is a store whose disk waits for leave.
func gated(t *testing.T, cfg Config) *bench {
	f := &fakeLog{entered: make(chan struct{}, 1), gate: make(chan struct{})}
	b := reopened(t, cfg, f, clocktest.NewFake(noon))
	t.Cleanup(func() { close(f.gate) }) // runs before Close
	return b
}

func (b *bench) allow() {
	<-b.disk.entered
	b.disk.gate <- struct{}{}
}

func TestNothingIsSeenBeforeItIsDurable(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(&kv.Txn{Then: []kv.Op{put("old", "1"), put("gone", "1"), grant(time.Second)}})
	b.allow()
	id := (<-first).result.Ops[2].Lease.ID

	v := b.View()
	defer v.Close()
	told := make(chan *kv.Batch, 1)
	stop := b.Follow(func(batch *kv.Batch) { told <- batch })
	second := b.begin(&kv.Txn{Then: []kv.Op{put("old", "2"), leased("new", id), del("gone"), {Kind: kv.OpPut, NS: "other", Key: "k", Value: kv.IntValue(1)}, grant(time.Second)}})
	<-b.disk.entered
	unseen := func() {
		require.EqualValues(t, 1, b.Revision())
		require.Equal(t, "1 - 1", b.text("a", "old")+" "+b.text("a", "new")+" "+b.text("a", "gone"))
		now := b.View()
		defer now.Close()
		page, err := now.List(kv.List{NS: "a"})
		require.NoError(t, err)
		require.Len(t, page.Entries, 2)
		page, err = now.List(kv.List{NS: "other", CountOnly: true})
		require.NoError(t, err)
		require.Zero(t, page.Count)
		list, _ := b.Namespaces("", 0)
		require.Equal(t, []kv.Namespace{{Name: "a", Keys: 2, Bytes: 9}}, list)
		l, err := b.Lease(id)
		require.NoError(t, err)
		require.Zero(t, l.Keys)
		_, err = b.KeepAlive(t.Context(), 2)
		require.ErrorIs(t, err, codes.LeaseGone)
		require.EqualValues(t, 2, b.Stats().Keys)
		_, err = b.GetAt(t.Context(), "a", "old", 2)
		require.ErrorIs(t, err, codes.FutureRevision)
		_, err = b.Changes(t.Context(), 2, 1)
		require.ErrorIs(t, err, codes.FutureRevision)
		require.Empty(t, told)
		require.Empty(t, second)
	}
	unseen()
	// What the disk knows already is not told by any other way either.
	b.disk.mu.Lock()
	b.disk.commits = append(b.disk.commits, Commit{Change: kv.Change{Revision: 2, Events: []kv.Event{{Kind: kv.Put, Entry: &kv.Entry{NS: "a", Key: "old", Mod: 2, Version: 2}}}}})
	b.disk.mu.Unlock()
	list, err := b.Changes(t.Context(), 0, 1<<20)
	require.NoError(t, err)
	require.Len(t, list, 1)
	h, err := b.History(t.Context(), "a", "old", 0, 0)
	require.NoError(t, err)
	require.Len(t, h.Entries, 1)
	unseen()

	b.disk.gate <- struct{}{}
	require.NoError(t, (<-second).err)
	require.Equal(t, "2 leased -", b.text("a", "old")+" "+b.text("a", "new")+" "+b.text("a", "gone"))
	require.EqualValues(t, 2, (<-told).Last())
	stop()
	l, err := b.Lease(id)
	require.NoError(t, err)
	require.Equal(t, 1, l.Keys)
	e, err := v.Get("a", "old")
	require.NoError(t, err)
	require.Equal(t, "1", string(e.Value.Data), "the view stays as it was")
}

func TestAGroupIsEverythingThatQueued(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(kv.PutTxn("a", "k", kv.IntValue(0)))
	<-b.disk.entered
	order := make(chan int, 100)
	for i := range 100 {
		require.NoError(t, b.Commit(&kv.Txn{Then: []kv.Op{incr("k", 1)}}, func(r *kv.Result, err error) {
			require.NoError(t, err)
			require.EqualValues(t, i+2, r.Revision)
			require.GreaterOrEqual(t, b.Revision(), r.Revision)
			order <- i
		}))
	}
	b.disk.gate <- struct{}{}
	<-first
	b.allow()
	for i := range 100 {
		require.Equal(t, i, <-order)
	}
	require.Equal(t, "100", b.text("a", "k"))
	require.EqualValues(t, 2, b.Stats().Groups)
	require.EqualValues(t, 101, b.Stats().Commits)
}

func TestTheQueueIsBounded(t *testing.T) {
	b := gated(t, Config{MaxQueue: 3, Queues: memory.NewPool(queueShares * 2000)})
	var waiting []<-chan outcome
	waiting = append(waiting, b.begin(kv.PutTxn("a", "k", kv.IntValue(0))))
	<-b.disk.entered
	waiting = append(waiting, b.begin(kv.PutTxn("a", "k", kv.IntValue(1))))
	large := kv.PutTxn("a", "k", kv.BytesValue(make([]byte, 2000)))
	none := func(*kv.Result, error) { t.Error("done was called") }
	err := b.Commit(large, none)
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "2000")
	waiting = append(waiting, b.begin(kv.PutTxn("a", "k", kv.IntValue(2))))
	err = b.Commit(kv.PutTxn("a", "k", kv.IntValue(3)), none)
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "3")
	require.EqualValues(t, 2, b.Stats().Busy)
	require.EqualValues(t, 3, b.Stats().Queue)
	require.ErrorIs(t, b.Commit(kv.PutTxn("a", "", kv.IntValue(3)), none), codes.BadKey)
	b.disk.gate <- struct{}{}
	b.allow()
	for _, w := range waiting {
		require.NoError(t, (<-w).err)
	}
	require.Zero(t, b.Stats().Queue)
	again := b.begin(large)
	b.allow()
	require.NoError(t, (<-again).err, "alone, a transaction may be larger than the queue")
}

func TestAdministratorsFindRoomInAFullQueue(t *testing.T) {
	b := gated(t, Config{MaxQueue: 8, Queues: memory.NewPool(queueShares * 8000)})
	put := func(groups ...string) *kv.Txn {
		txn := kv.PutTxn("a", "k", kv.BytesValue(make([]byte, 500)))
		txn.Actor = &access.Actor{Identity: &access.Identity{Name: "token:a", Groups: groups}}
		return txn
	}
	waiting := []<-chan outcome{b.begin(put())}
	<-b.disk.entered
	for range 7 {
		waiting = append(waiting, b.begin(put()))
	}
	none := func(*kv.Result, error) { t.Error("done was called") }
	require.ErrorIs(t, b.Commit(put("others"), none), codes.Busy)
	waiting = append(waiting, b.begin(put(access.Administrators)))
	require.ErrorIs(t, b.Commit(put(access.Administrators), none), codes.Busy, "there is an end to that, too")
	b.disk.gate <- struct{}{}
	b.allow()
	for _, w := range waiting {
		require.NoError(t, (<-w).err)
	}
	require.EqualValues(t, 1, b.Stats().Reserved)
}

// A change of very many documents is one transaction, which is larger than the queue: it neither waits
// for the queue to be empty, nor keeps others out.
func TestALargeTransactionOfTheServersOwnHasRoomBesideOthers(t *testing.T) {
	b := gated(t, Config{MaxQueue: 100, Queues: memory.NewPool(queueShares * 8000)})
	put := func(size int) *kv.Txn { return kv.PutTxn("a", "k", kv.BytesValue(make([]byte, size))) }
	waiting := []<-chan outcome{b.begin(put(1000))}
	<-b.disk.entered
	large := put(100_000)
	large.System = true
	waiting = append(waiting, b.begin(large), b.begin(put(1000)))
	b.disk.gate <- struct{}{}
	b.allow()
	for _, w := range waiting {
		require.NoError(t, (<-w).err)
	}
	require.Zero(t, b.cfg.Queues.Held())
}

func TestAdministratorsFindRoomInAQueueThatIsFullOfBytes(t *testing.T) {
	b := gated(t, Config{MaxQueue: 100, Queues: memory.NewPool(queueShares * 8000)})
	put := func(size int, groups ...string) *kv.Txn {
		txn := kv.PutTxn("a", "k", kv.BytesValue(make([]byte, size)))
		txn.Actor = &access.Actor{Identity: &access.Identity{Name: "token:a", Groups: groups}}
		return txn
	}
	waiting := []<-chan outcome{b.begin(put(7500))}
	<-b.disk.entered
	none := func(*kv.Result, error) { t.Error("done was called") }
	require.ErrorContains(t, b.Commit(put(600, "others"), none), "bytes of transactions are waiting")
	require.ErrorIs(t, b.Commit(put(1600, access.Administrators), none), codes.Busy, "more than an eighth")
	require.Zero(t, b.Stats().Reserved)
	waiting = append(waiting, b.begin(put(600, access.Administrators)))
	require.EqualValues(t, 1, b.Stats().Reserved)
	b.disk.gate <- struct{}{}
	b.allow()
	for _, w := range waiting {
		require.NoError(t, (<-w).err)
	}
}

func TestGroupsAreBounded(t *testing.T) {
	b := gated(t, Config{GroupSize: 4, GroupBytes: 10_000})
	first := b.begin(kv.PutTxn("a", "k", kv.IntValue(0)))
	<-b.disk.entered
	var waiting []<-chan outcome
	for range 4 {
		waiting = append(waiting, b.begin(kv.PutTxn("a", "k", kv.IntValue(1))))
	}
	for range 3 {
		waiting = append(waiting, b.begin(kv.PutTxn("a", "k", kv.BytesValue(make([]byte, 6000)))))
	}
	b.disk.gate <- struct{}{}
	<-first
	for range 3 { // all that count allows, all that bytes allow, the rest
		b.allow()
	}
	for _, w := range waiting {
		require.NoError(t, (<-w).err)
	}
	require.EqualValues(t, 4, b.Stats().Groups)
}

func TestAFailedWriteEndsWriting(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(kv.PutTxn("a", "k", kv.StringValue("kept")))
	b.allow()
	<-first
	b.disk.set(errors.New("no such sector"), nil, nil)
	failing := b.begin(kv.PutTxn("a", "k", kv.StringValue("lost?")))
	<-b.disk.entered
	queued := b.begin(kv.PutTxn("a", "k", kv.IntValue(1)))
	b.disk.gate <- struct{}{}
	require.ErrorIs(t, (<-failing).err, codes.Timeout, "nobody knows")
	require.ErrorIs(t, (<-queued).err, codes.Storage)
	require.ErrorIs(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(1)), nil), codes.Storage)
	require.Equal(t, "kept", b.text("a", "k"))
	require.EqualValues(t, 1, b.Revision())
	require.NoError(t, b.Store.Close())
}

// Why a transaction was refused may lie in one before it that never took effect.
func TestAFailedWriteTakesRefusalsBack(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}})
	<-b.disk.entered
	text := b.begin(&kv.Txn{Then: []kv.Op{put("n", "text")}})
	refused := b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}})
	b.disk.gate <- struct{}{}
	<-first
	<-b.disk.entered
	b.disk.set(errors.New("no such sector"), nil, nil)
	b.disk.gate <- struct{}{}
	require.ErrorIs(t, (<-text).err, codes.Timeout)
	err := (<-refused).err
	require.ErrorIs(t, err, codes.Storage)
	require.NotErrorIs(t, err, codes.WrongType)
}

func TestFailedTransactionsLeaveNothing(t *testing.T) {
	b := onFake(t, Config{})
	id := b.must(grant(time.Second), put("k", "1"), put("text", "x")).Ops[0].Lease.ID
	for _, ops := range [][]kv.Op{
		{put("new", "1"), incr("text", 1)},
		{del("k"), incr("text", 1)},
		{leased("k", id), incr("text", 1)},
		{until(put("k", "2"), time.Second), incr("text", 1)},
		{{Kind: kv.OpRevoke, Lease: id}, leased("k", id)},
		{grant(time.Second), incr("text", 1)},
		{{Kind: kv.OpDeletePrefix, NS: "a", Confirm: "a"}, leased("k", 77)},
		{{Kind: kv.OpPut, NS: "new", Key: "k", Value: kv.IntValue(1)}, incr("text", 1)},
	} {
		_, err := b.do(&kv.Txn{Then: ops, Token: "t", TokenNS: "a"})
		require.Error(t, err)
	}
	require.EqualValues(t, 1, b.Revision())
	stats := b.Stats()
	require.EqualValues(t, 2, stats.Keys)
	require.EqualValues(t, 1, stats.Leases)
	require.EqualValues(t, 0, stats.Tokens)
	require.EqualValues(t, 8, stats.Failed)
	require.Len(t, b.index.spaces.of, 1)
	b.clock.Advance(time.Second)
	b.must(put("k", "2"))
	require.Equal(t, "2", b.text("a", "k"), "the key was not given to the lease, nor a time")
}

func TestLimitsOfWhatIsKept(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		const limit = 900
		pool := memory.NewPool(limit)
		b := onFake(t, Config{Store: pool})
		b.must(put("k", string(make([]byte, 90))))
		require.Greater(t, pool.Held(), int64(memory.EntryCost+memory.OwnerCost))
		refused := func(op kv.Op) {
			t.Helper()
			_, err := b.do(&kv.Txn{Then: []kv.Op{op}})
			require.ErrorIs(t, err, codes.Quota)
			require.ErrorContains(t, err, "900")
		}
		refused(put("l", string(make([]byte, 20))))
		refused(put("k", string(make([]byte, 200))))
		refused(grant(time.Second))
		b.must(put("k", string(make([]byte, 99))))
		b.must(put("k", "short"))
		stats := b.Stats()
		require.EqualValues(t, 3, stats.Refused)
		require.EqualValues(t, len("kshort"), stats.Bytes, "users see the bytes of keys and values")
		require.Equal(t, pool.Held(), stats.Memory)
		require.EqualValues(t, limit, stats.MemoryLimit)
		b.must(del("k"))
		require.Zero(t, pool.Held())
		require.NoError(t, b.Close())
	})
	t.Run("for the counters of player storage there is more", func(t *testing.T) {
		const limit = 40_000
		b := onFake(t, Config{Store: memory.NewPool(limit), MaxKeys: 9})
		for i := range 9 {
			_, err := b.do(&kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpPut, NS: "@storage/1_1", Key: "player:1:" + strconv.Itoa(i), Value: kv.BytesValue(make([]byte, 5000))}}})
			require.True(t, err == nil || codes.Of(err) == codes.Quota, err)
		}
		more := func(op kv.Op) error {
			_, err := b.do(&kv.Txn{System: true, Then: []kv.Op{op}})
			return err
		}
		field := kv.Op{Kind: kv.OpPut, NS: "@storage/1_1", Key: "player:1:0", Value: kv.BytesValue(make([]byte, 15_000))}
		require.ErrorIs(t, more(field), codes.Quota)
		require.NoError(t, more(kv.Op{Kind: kv.OpPut, NS: "@landing", Key: "cursor/0", Value: kv.BytesValue(make([]byte, 200))}))
		b.disk.set(nil, codes.Errorf(codes.Quota, "full"), nil)
		require.ErrorIs(t, more(field), codes.Quota)
		require.NoError(t, more(kv.Op{Kind: kv.OpPut, NS: "@landing", Key: "cursor/0", Value: kv.IntValue(2)}), "of the disk as well")
		b.disk.set(nil, nil, nil)
		require.ErrorIs(t, more(kv.Op{Kind: kv.OpPut, NS: "@landing", Key: "filter/000", Value: kv.BytesValue(make([]byte, limit))}), codes.Quota, "but not without end")
	})
	t.Run("memory of what is there already", func(t *testing.T) {
		b := onFake(t, Config{})
		b.must(put("k", "1"), put("l", "1"))
		require.NoError(t, b.Close())
		b = reopened(t, Config{Store: memory.NewPool(1)}, b.disk, b.clock)
		require.Equal(t, "1", b.text("a", "k"))
		_, err := b.do(&kv.Txn{Then: []kv.Op{put("m", "1")}})
		require.ErrorIs(t, err, codes.Quota)
		b.must(put("l", "2"))
		b.must(del("l"))
	})
	t.Run("keys", func(t *testing.T) {
		b := onFake(t, Config{MaxKeys: 2})
		b.must(put("k", "1"), put("l", "1"))
		_, err := b.do(&kv.Txn{Then: []kv.Op{put("m", "1")}})
		require.ErrorIs(t, err, codes.Quota)
		b.must(del("k"), put("m", "1"))
		b.must(put("l", "2"))
	})
	t.Run("leases", func(t *testing.T) {
		b := onFake(t, Config{MaxLeases: 1, MaxLeaseKeys: 2})
		id := b.must(grant(time.Second)).Ops[0].Lease.ID
		_, err := b.do(&kv.Txn{Then: []kv.Op{grant(time.Second)}})
		require.ErrorIs(t, err, codes.Limit)
		require.ErrorContains(t, err, "1 leases")
		b.must(leased("k", id), leased("l", id), leased("k", id))
		_, err = b.do(&kv.Txn{Then: []kv.Op{leased("m", id)}})
		require.ErrorIs(t, err, codes.Limit)
		b.must(kv.Op{Kind: kv.OpRevoke, Lease: id})
		b.must(grant(time.Second))
	})
	t.Run("tokens", func(t *testing.T) {
		b := onFake(t, Config{MaxTokens: 3, TokenAge: time.Minute})
		do := func(token int) bool {
			r, err := b.do(&kv.Txn{Then: []kv.Op{incr("n", 1)}, TokenNS: "a", Token: fmt.Sprint(token)})
			require.NoError(t, err)
			return r.Replayed
		}
		for i := range 4 {
			require.False(t, do(i))
		}
		require.True(t, do(1))
		require.False(t, do(0), "forgotten, as the oldest")
		b.settled()
		require.EqualValues(t, 2, b.disk.dropped)
		require.EqualValues(t, 3, b.Stats().Tokens)
		b.clock.Advance(time.Minute)
		require.True(t, do(0))
		b.clock.Advance(time.Millisecond)
		require.False(t, do(0))
		require.EqualValues(t, 1, b.Stats().Tokens)
	})
}

// Money moves between keys while others look: they never see any in two places.
func TestNobodySeesHalfAGroup(t *testing.T) {
	b := onFake(t, Config{})
	b.index.slice = 2 // so that groups are put in place in several steps
	const accounts = 20
	var ops []kv.Op
	for i := range accounts {
		ops = append(ops, incr(fmt.Sprintf("%02d", i), 100))
	}
	b.must(ops...)
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := kv.Revision(0); ; {
				select {
				case <-ended:
					return
				default:
				}
				v := b.View()
				page, err := v.List(kv.List{NS: "a"})
				sum := int64(0)
				for _, e := range page.Entries {
					n, _ := e.Value.Int()
					sum += n
				}
				if err != nil || sum != accounts*100 || v.Revision() < last {
					t.Errorf("%v: %d at %d after %d", err, sum, v.Revision(), last)
				}
				last = v.Revision()
				v.Close()
			}
		})
	}
	var all sync.WaitGroup
	for i := range 2000 {
		all.Add(1)
		from, to := fmt.Sprintf("%02d", i%accounts), fmt.Sprintf("%02d", i*7%accounts)
		require.NoError(t, b.Commit(&kv.Txn{Then: []kv.Op{incr(from, -1), incr(to, 1)}}, func(*kv.Result, error) { all.Done() }))
	}
	all.Wait()
	close(ended)
	readers.Wait()
	b.settled()
	require.Zero(t, b.index.keptBytes)
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	f := &fakeLog{}
	b := reopened(t, Config{}, f, clocktest.NewFake(noon))
	var answers []<-chan outcome
	for range 100 {
		answers = append(answers, b.begin(&kv.Txn{Then: []kv.Op{incr("n", 1)}}))
	}
	require.NoError(t, b.Store.Close())
	require.NoError(t, b.Store.Close(), "again")
	for _, a := range answers {
		require.NoError(t, (<-a).err)
	}
	require.Equal(t, 1, f.closed)
	require.ErrorIs(t, b.Commit(kv.PutTxn("a", "k", kv.IntValue(1)), nil), codes.Closed)
	for _, err := range []error{
		second(b.Changes(t.Context(), 0, 1)), second(b.GetAt(t.Context(), "a", "n", 1)), second(b.History(t.Context(), "a", "n", 0, 0)), second(b.Lease(1)), second(b.KeepAlive(t.Context(), 1)),
	} {
		require.ErrorIs(t, err, codes.Closed)
	}
	require.EqualValues(t, 100, b.Stats().Revision)

	again := reopened(t, Config{}, f, clocktest.NewFake(noon))
	require.Equal(t, "100", again.text("a", "n"))
}

func second[T any](_ T, err error) error { return err }

func TestReadsRefuseWhatIsNotThere(t *testing.T) {
	b := onFake(t, Config{})
	b.must(put("k", "1"))
	for _, c := range []struct {
		code codes.Code
		err  error
	}{
		{codes.FutureRevision, second(b.GetAt(t.Context(), "a", "k", 2))},
		{codes.BadRequest, second(b.GetAt(t.Context(), "a", "k", -1))},
		{codes.BadKey, second(b.GetAt(t.Context(), "", "k", 1))},
		{codes.BadKey, second(b.GetAt(t.Context(), "a", "", 1))},
		{codes.BadRequest, second(b.History(t.Context(), "a", "k", -1, 0))},
		{codes.BadRequest, second(b.History(t.Context(), "a", "k", 0, -1))},
		{codes.BadKey, second(b.History(t.Context(), "a", "", 0, 0))},
		{codes.FutureRevision, second(b.Changes(t.Context(), 2, 0))},
		{codes.BadRequest, second(b.Changes(t.Context(), -1, 0))},
		{codes.BadKey, second(b.View().List(kv.List{}))},
		{codes.BadRequest, second(b.View().List(kv.List{NS: "a", Limit: -1}))},
		{codes.NameTooLong, second(b.View().List(kv.List{NS: "a", Prefix: string(make([]byte, 2000))}))},
	} {
		require.Equal(t, c.code, codes.Of(c.err), "%v", c.err)
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	b := onFake(t, Config{})
	b.must(put("k", "1"))
	ns, key := []byte("a"), []byte("k")
	require.Zero(t, testing.AllocsPerRun(100, func() { b.Get(ns, key) }))
}

// An older program keeps archived entries like any others, and its tables are read at the next start.
func TestArchivedEntriesThatAreLoadedStayOut(t *testing.T) {
	cfg := Config{Clock: clock.Real()}
	s, err := load(t.Context(), cfg.withDefaults(), &nowhere{load: func(l Loader) {
		l.Entry(&kv.Entry{NS: kv.ConfigNamespace + "/a", Key: "key", Create: 1, Mod: 1, Version: 1})
		l.Entry(&kv.Entry{NS: "ns", Key: "key", Create: 1, Mod: 1, Version: 1})
	}})
	require.NoError(t, err)
	require.EqualValues(t, 1, s.Stats().Keys)
}
