package suite

import (
	"fmt"
	"math"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var writeChecks = []check{
	{name: "DeleteTellsWhetherItDid", run: deleteTells},
	{name: "DeletePrefixStopsAtItsLimit", run: deletePrefixStops},
	{name: "DeletePrefixStaysInItsNamespace", run: deletePrefixStays},
	{name: "DropNamespace", run: dropNamespace},
	{name: "DropNeedsTheName", run: dropNeedsTheName},
	{name: "IncrementCounts", run: incrementCounts},
	{name: "IncrementKeepsTimeAndLease", run: incrementKeeps},
	{name: "ConcurrentIncrementsAllCount", run: incrementsAllCount},
	{name: "PrevIsTheEntryBefore", run: prevIsBefore},
	{name: "OrderOfCommitIsKept", run: orderOfCommit},
	{name: "CommitEachIsCommitOfEach", run: commitEach},
	{name: "WhatIsToBeSealedIsNotKeptAsItIs", run: toBeSealed},
}

func deleteTells(s *subject) {
	s.put("ns", "key", "1")
	r := s.then(deleteOp("ns", "key"))
	require.Equal(s, int64(1), r.Ops[0].Count)
	require.Equal(s, r.Revision, s.Engine.Revision())
	again := s.then(deleteOp("ns", "key"))
	require.Equal(s, int64(0), again.Ops[0].Count)
	require.Equal(s, r.Revision, again.Revision, "nothing was changed")
	require.Equal(s, r.Revision, s.Engine.Revision())
}

func deletePrefixStops(s *subject) {
	for i := range 10 {
		s.put("ns", fmt.Sprintf("p/%d", i), "x")
	}
	s.put("ns", "o", "x")
	s.put("ns", "q", "x")
	r := s.then(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: "p/", Limit: 4})
	require.Equal(s, kv.OpResult{Count: 4, More: true}, r.Ops[0])
	require.Equal(s, "- x", s.texts("ns", "p/3", "p/4"), "in the order of keys")
	r = s.then(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: "p/", Limit: 6})
	require.Equal(s, kv.OpResult{Count: 6}, r.Ops[0])
	r = s.then(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: "p/"})
	require.Equal(s, kv.OpResult{}, r.Ops[0])
	require.Equal(s, "x x", s.texts("ns", "o", "q"))

	r = s.then(putOp("ns", "p/new", "x"), deleteOp("ns", "o"), dropOp("ns"))
	require.Equal(s, int64(2), r.Ops[2].Count, "sees the operations before it")
	require.Equal(s, "- - -", s.texts("ns", "o", "q", "p/new"))
}

func deletePrefixStays(s *subject) {
	for _, ns := range []string{"a", "ab", "a/b", "b"} {
		s.put(ns, "b/key", ns)
		s.put(ns, "key", ns)
	}
	s.then(kv.Op{Kind: kv.OpDeletePrefix, NS: "a", Key: "b"})
	require.Equal(s, "- a", s.texts("a", "b/key", "key"))
	for _, ns := range []string{"ab", "a/b", "b"} {
		require.Equal(s, ns+" "+ns, s.texts(ns, "b/key", "key"))
	}
}

func dropNamespace(s *subject) {
	s.put("a", "x", "1")
	s.put("a", "y", "1")
	s.put("b", "x", "1")
	r := s.then(dropOp("a"))
	require.Equal(s, int64(2), r.Ops[0].Count)
	list, _ := s.Engine.Namespaces("", 0)
	require.Equal(s, []kv.Namespace{{Name: "b", Keys: 1, Bytes: 2}}, list)
}

func dropNeedsTheName(s *subject) {
	s.put("a", "x", "1")
	hasty, wrong, narrow := dropOp("a"), dropOp("a"), dropOp("a")
	hasty.Confirm, wrong.Confirm = "", "b"
	narrow.Key, narrow.Confirm = "x", "b"
	for _, op := range []kv.Op{hasty, wrong, narrow} {
		s.refused(&kv.Txn{Then: []kv.Op{op}}, codes.Unconfirmed)
		s.refused(&kv.Txn{Then: []kv.Op{putOp("a", "x", "2"), op}}, codes.Unconfirmed)
		s.refused(&kv.Txn{Then: []kv.Op{putOp("a", "x", "2")}, Else: []kv.Op{op}}, codes.Unconfirmed)
		s.refused(&kv.Txn{Then: []kv.Op{op}, Token: "drop", TokenNS: "a"}, codes.Unconfirmed)
	}
	require.Equal(s, "1", s.text("a", "x"))
	first := s.must(&kv.Txn{Then: []kv.Op{dropOp("a")}, Token: "drop", TokenNS: "a"})
	require.Equal(s, int64(1), first.Ops[0].Count)
	s.put("a", "x", "3")
	s.refused(&kv.Txn{Then: []kv.Op{hasty}, Token: "drop", TokenNS: "a"}, codes.Unconfirmed)
	require.True(s, s.must(&kv.Txn{Then: []kv.Op{dropOp("a")}, Token: "drop", TokenNS: "a"}).Replayed)
	require.Equal(s, "3", s.text("a", "x"))
}

func incrementCounts(s *subject) {
	r := s.then(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: 5, Initial: 100})
	require.Equal(s, kv.IntValue(105), r.Ops[0].Entry.Value)
	r = s.then(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: -200, Initial: 7})
	require.Equal(s, kv.IntValue(-95), r.Ops[0].Entry.Value)
	require.Equal(s, int64(2), r.Ops[0].Entry.Version)
	r = s.then(incrOp("ns", "n", 0))
	require.Equal(s, int64(3), r.Ops[0].Entry.Version, "adding nothing is a write")

	low, high := int64(-95), int64(-90)
	bounded := func(delta int64) kv.Op {
		return kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: delta, Min: &low, Max: &high}
	}
	s.refused(&kv.Txn{Then: []kv.Op{bounded(6)}}, codes.OutOfBounds)
	s.refused(&kv.Txn{Then: []kv.Op{bounded(-1)}}, codes.OutOfBounds)
	require.Equal(s, kv.IntValue(-90), s.then(bounded(5)).Ops[0].Entry.Value)
	require.Equal(s, kv.IntValue(-95), s.then(bounded(-5)).Ops[0].Entry.Value)

	s.must(kv.PutTxn("ns", "most", kv.IntValue(math.MaxInt64)))
	s.refused(&kv.Txn{Then: []kv.Op{incrOp("ns", "most", 1)}}, codes.Overflow)
	s.must(kv.PutTxn("ns", "least", kv.IntValue(math.MinInt64)))
	s.refused(&kv.Txn{Then: []kv.Op{incrOp("ns", "least", -1)}}, codes.Overflow)
	require.Equal(s, kv.IntValue(-1), s.then(incrOp("ns", "most", math.MinInt64)).Ops[0].Entry.Value)
	s.must(kv.PutTxn("ns", "double", kv.DoubleValue(1)))
	s.refused(&kv.Txn{Then: []kv.Op{incrOp("ns", "double", 1)}}, codes.WrongType)
}

func incrementKeeps(s *subject) {
	lease := s.grant(time.Minute)
	expires := s.now() + 10_000
	s.then(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "n", Value: kv.IntValue(1), Expires: expires, Lease: lease})
	e := s.then(incrOp("ns", "n", 1)).Ops[0].Entry
	require.Equal(s, expires, e.Expires)
	require.Equal(s, lease, e.Lease)

	other := s.grant(time.Minute)
	e = s.then(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: 1, TTL: 5 * time.Second, Lease: other}).Ops[0].Entry
	require.Equal(s, s.now()+5000, e.Expires)
	require.Equal(s, other, e.Lease)
	require.Equal(s, kv.IntValue(3), e.Value)
	require.Equal(s, 0, s.lease(lease).Keys)
	require.Equal(s, 1, s.lease(other).Keys)
}

func incrementsAllCount(s *subject) {
	const clients, each = 8, 50
	answers := make(chan (<-chan outcome), clients*each)
	for range clients {
		go func() {
			for range each {
				answers <- s.start(&kv.Txn{Then: []kv.Op{incrOp("ns", "n", 1)}})
			}
		}()
	}
	seen := map[string]bool{}
	for range clients * each {
		o := soon(s, soon(s, answers, "a commit"), "an increment")
		require.NoError(s, o.err)
		text := string(o.result.Ops[0].Entry.Value.Data)
		require.False(s, seen[text], "%s twice", text)
		seen[text] = true
	}
	require.Equal(s, fmt.Sprint(clients*each), s.text("ns", "n"))
}

func prevIsBefore(s *subject) {
	want := func(op kv.Op) kv.Op { op.WantPrev = true; return op }
	require.Nil(s, s.then(want(putOp("ns", "key", "1"))).Ops[0].Prev)
	before := s.get("ns", "key")
	r := s.then(putOp("ns", "key", "2"), want(putOp("ns", "key", "3")), want(deleteOp("ns", "key")), want(incrOp("ns", "key", 1)))
	for i, op := range r.Ops {
		if i == 0 {
			require.Nil(s, op.Prev, "not wanted")
			continue
		}
		require.Equal(s, before, op.Prev, "before the transaction, not before the operation")
	}
	require.Equal(s, "1", s.text("ns", "key"))
}

func orderOfCommit(s *subject) {
	const n = 200
	answers := make([]<-chan outcome, n)
	for i := range answers {
		answers[i] = s.start(&kv.Txn{Then: []kv.Op{putOp("ns", "key", fmt.Sprint(i)), putOp("ns", fmt.Sprint(i), "x")}})
	}
	last := kv.Revision(0)
	for _, answer := range answers {
		o := soon(s, answer, "a put")
		require.NoError(s, o.err)
		require.Greater(s, o.result.Revision, last)
		last = o.result.Revision
	}
	require.Equal(s, fmt.Sprint(n-1), s.text("ns", "key"))
	require.Equal(s, last, s.Engine.Revision())
}

// givenBack is a caller.
type givenBack chan []*kv.Write

func (c givenBack) Committed(writes []*kv.Write) { c <- writes }

func commitEach(s *subject) {
	const n = 100
	writes := make([]*kv.Write, n)
	for i := range writes {
		writes[i] = &kv.Write{Txn: &kv.Txn{Then: []kv.Op{incrOp("ns", "n", 1)}}, For: i}
	}
	writes[30].Txn = &kv.Txn{Then: []kv.Op{putOp("ns", "text", "x"), incrOp("ns", "text", 1)}}
	back := make(givenBack, n)
	taken, err := s.Engine.CommitEach(back, writes)
	require.NoError(s, err)
	require.Equal(s, n, taken)
	count := 0
	for i := 0; i < n; {
		for _, w := range soon(s, back, "what was handed over") {
			require.Equal(s, i, w.For, "in the order in which they were handed over")
			if i++; i == 31 {
				require.Equal(s, codes.WrongType, codes.Of(w.Err))
				continue
			}
			count++
			require.NoError(s, w.Err)
			require.True(s, w.Result.Held)
			require.Equal(s, fmt.Sprint(count), string(w.Result.Ops[0].Entry.Value.Data))
			require.GreaterOrEqual(s, s.Engine.Revision(), w.Result.Revision, "what was answered is visible")
		}
	}
	require.Equal(s, "99 -", s.texts("ns", "n", "text"))
	writes[1].Txn = &kv.Txn{Then: []kv.Op{putOp("ns", "", "x")}}
	taken, err = s.Engine.CommitEach(back, writes[:2])
	require.Equal(s, codes.BadKey, codes.Of(err))
	require.Equal(s, 1, taken)
	require.Len(s, soon(s, back, "the one that was taken"), 1)
}

func toBeSealed(s *subject) {
	put := putOp("ns", "key", "hunter2")
	put.Seal = true
	_, err := s.commit(&kv.Txn{Then: []kv.Op{putOp("ns", "other", "1"), put}})
	require.Equal(s, codes.NotImplemented, codes.Of(err))
	require.NotContains(s, err.Error(), "hunter2")
	require.Equal(s, "- -", s.texts("ns", "key", "other"))
}
