package suite

import (
	"fmt"
	"slices"
	"strings"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var txnChecks = []check{
	{name: "BatchIsOneRevision", run: batchIsOneRevision},
	{name: "BatchLastWriteWins", run: batchLastWins},
	{name: "FailureLeavesNothing", run: failureLeavesNothing},
	{name: "OperationsSeeThoseBefore", run: operationsSeeThoseBefore},
	{name: "NetEffects", run: netEffects},
	{name: "Compares", run: compares},
	{name: "BranchesAcrossNamespaces", run: branches},
	{name: "CompareAndSwap", run: compareAndSwap},
	{name: "ReadingChangesNothing", run: readingChangesNothing},
	{name: "FenceHoldsOffLateHolders", run: fence},
}

func batchIsOneRevision(s *subject) {
	feed := s.follow()
	before := s.Engine.Revision()
	r := s.then(putOp("b", "y", "1"), putOp("a", "z", "2"), putOp("a", "x", "3"), deleteOp("a", "none"))
	require.Greater(s, r.Revision, before)
	for _, n := range []name{{"b", "y"}, {"a", "z"}, {"a", "x"}} {
		require.Equal(s, r.Revision, s.get(n.ns, n.key).Mod)
	}
	changes := feed.changesAfter(before)
	require.Len(s, changes, 1)
	require.Equal(s, []string{"put a x 3", "put a z 2", "put b y 1"}, eventTexts(changes[0].Events), "in the order of namespace and key")
}

func batchLastWins(s *subject) {
	feed := s.follow()
	before := s.Engine.Revision()
	r := s.then(putOp("ns", "key", "1"), putOp("ns", "key", "2"), putOp("ns", "other", "x"), putOp("ns", "key", "3"))
	require.Len(s, r.Ops, 4)
	require.Equal(s, "1", string(r.Ops[0].Entry.Value.Data), "each result is its operation's")
	require.Equal(s, "3", s.text("ns", "key"))
	require.Equal(s, int64(1), s.get("ns", "key").Version, "changed once")
	require.Equal(s, []string{"put ns key 3", "put ns other x"}, eventTexts(feed.changesAfter(before)[0].Events))
}

func failureLeavesNothing(s *subject) {
	s.put("ns", "text", "text")
	before := s.Engine.Revision()
	feed := s.follow()
	s.refused(&kv.Txn{Then: []kv.Op{
		putOp("ns", "a", "1"), deleteOp("ns", "text"), dropOp("ns"), putOp("ns", "text", "text"), incrOp("ns", "text", 1),
	}}, codes.WrongType)
	require.Equal(s, "- text", s.texts("ns", "a", "text"))
	require.Equal(s, before, s.get("ns", "text").Mod)
	require.Empty(s, feed.changesAfter(before))
}

func operationsSeeThoseBefore(s *subject) {
	s.must(kv.PutTxn("ns", "n", kv.IntValue(1)))
	r := s.then(getOp("ns", "n"), incrOp("ns", "n", 1), getOp("ns", "n"), incrOp("ns", "n", 1), deleteOp("ns", "n"), getOp("ns", "n"),
		kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: 1, Initial: 10}, getOp("ns", "n"))
	var got []string
	for _, op := range r.Ops {
		text := "-"
		if op.Entry != nil {
			text = string(op.Entry.Value.Data)
		}
		got = append(got, text)
	}
	require.Equal(s, "1 2 2 3 - - 11 11", strings.Join(got, " "))
	require.Equal(s, "11", s.text("ns", "n"))
}

func netEffects(s *subject) {
	old := s.put("ns", "key", "1")
	feed := s.follow()
	before := s.Engine.Revision()
	anew := s.then(deleteOp("ns", "key"), putOp("ns", "key", "2"), putOp("ns", "key", "3")).Ops[2].Entry
	require.Equal(s, anew.Mod, anew.Create, "deleted and written: made anew")
	require.Equal(s, int64(1), anew.Version)
	s.then(putOp("ns", "short", "1"), deleteOp("ns", "short"), putOp("ns", "end", "1"))
	s.then(putOp("ns", "key", "4"), deleteOp("ns", "key"))
	changes := feed.changesAfter(before)
	require.Len(s, changes, 3)
	require.Equal(s, []string{"put ns key 3"}, eventTexts(changes[0].Events))
	require.Equal(s, old, changes[0].Events[0].Prev)
	require.Equal(s, []string{"put ns end 1"}, eventTexts(changes[1].Events), "made and deleted: no event")
	require.Equal(s, []string{"delete ns key"}, eventTexts(changes[2].Events))
	tomb := changes[2].Events[0].Entry
	require.True(s, tomb.Deleted())
	require.Equal(s, changes[2].Revision, tomb.Mod)
	require.Equal(s, s.now(), tomb.Updated)
	require.Equal(s, anew, changes[2].Events[0].Prev)
}

func compares(s *subject) {
	first := s.must(kv.PutTxn("ns", "int", kv.IntValue(9)))
	e := s.must(kv.PutTxn("ns", "int", kv.IntValue(10))).Ops[0].Entry
	s.put("ns", "text", "m")
	s.must(kv.PutTxn("ns", "nan", value(kv.Double, "nan")))
	s.must(kv.PutTxn("ns", "double", value(kv.Double, "2.50")))
	number := func(key string, target kv.Target, n int64) kv.Compare {
		return kv.Compare{NS: "ns", Key: key, Target: target, Number: n}
	}
	against := func(key string, v kv.Value) kv.Compare {
		return kv.Compare{NS: "ns", Key: key, Target: kv.CompareValue, Value: v}
	}
	const equal, unequal, less, greater = "=", "!=", "<", ">"
	cases := []struct {
		compare kv.Compare
		hold    []string
	}{
		{number("int", kv.CompareVersion, 2), []string{equal}},
		{number("int", kv.CompareVersion, 3), []string{unequal, less}},
		{number("int", kv.CompareCreate, int64(first.Revision)), []string{equal}},
		{number("int", kv.CompareMod, int64(first.Revision)), []string{unequal, greater}},
		{number("int", kv.CompareMod, int64(e.Mod)), []string{equal}},
		{number("none", kv.CompareMod, 0), []string{equal}},
		{number("none", kv.CompareCreate, 1), []string{unequal, less}},
		{number("none", kv.CompareVersion, -1), []string{unequal, greater}},
		{against("int", kv.IntValue(10)), []string{equal}},
		{against("int", kv.IntValue(9)), []string{unequal, greater}},
		{against("int", kv.IntValue(100)), []string{unequal, less}},
		{against("int", kv.StringValue("10")), []string{unequal}},
		{against("int", value(0, "10")), []string{equal}},
		{against("text", kv.StringValue("a")), []string{unequal, greater}},
		{against("text", kv.StringValue("mm")), []string{unequal, less}},
		{against("none", kv.StringValue("")), []string{unequal}},
		{against("none", value(0, "")), []string{unequal}},
		{against("double", value(kv.Double, "10")), []string{unequal, less}},
		{against("double", value(kv.Double, "2.50")), []string{equal}},
		{against("nan", value(kv.Double, "1")), []string{unequal}},
		{against("nan", value(kv.Double, "nan")), []string{equal}},
	}
	relations := map[string]kv.Relation{equal: kv.Equal, unequal: kv.NotEqual, less: kv.Less, greater: kv.Greater}
	for _, c := range cases {
		for text, relation := range relations {
			c.compare.Relation = relation
			r := s.must(&kv.Txn{If: []kv.Compare{c.compare}})
			require.Equal(s, slices.Contains(c.hold, text), r.Held, "%s %v %s %d %s", c.compare.Key, c.compare.Target, text, c.compare.Number, c.compare.Value.Data)
		}
	}
}

func branches(s *subject) {
	s.put("a", "x", "1")
	s.put("b", "x", "2")
	txn := func(second string) *kv.Txn {
		return &kv.Txn{
			If: []kv.Compare{
				{NS: "a", Key: "x", Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue("1")},
				{NS: "b", Key: "x", Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue(second)},
			},
			Then: []kv.Op{putOp("a", "then", "x"), putOp("c", "then", "x")},
			Else: []kv.Op{getOp("b", "x"), putOp("b", "else", "x"), deleteOp("b", "x")},
		}
	}
	r := s.must(txn("3"))
	require.False(s, r.Held)
	require.Len(s, r.Ops, 3)
	require.Equal(s, "2", string(r.Ops[0].Entry.Value.Data))
	require.Equal(s, "- - x -", s.text("a", "then")+" "+s.text("c", "then")+" "+s.text("b", "else")+" "+s.text("b", "x"))
	s.put("b", "x", "2")
	r = s.must(txn("2"))
	require.True(s, r.Held)
	require.Len(s, r.Ops, 2)
	require.Equal(s, r.Revision, s.get("a", "then").Mod)
	require.Equal(s, r.Revision, s.get("c", "then").Mod)
}

// compareAndSwap lets many clients try the same swap: exactly one succeeds.
func compareAndSwap(s *subject) {
	for round := range 5 {
		key := fmt.Sprint("key", round)
		answers := make([]<-chan outcome, 8)
		for i := range answers {
			answers[i] = s.start(&kv.Txn{If: []kv.Compare{kv.Absent("ns", key)}, Then: []kv.Op{putOp("ns", key, fmt.Sprint(i))}, Else: []kv.Op{getOp("ns", key)}})
		}
		held := ""
		for i, answer := range answers {
			o := soon(s, answer, "a compare-and-swap")
			require.NoError(s, o.err)
			if o.result.Held {
				require.Empty(s, held, "only one can be first")
				held = fmt.Sprint(i)
			}
		}
		require.Equal(s, held, s.text("ns", key))
	}
}

func readingChangesNothing(s *subject) {
	s.put("ns", "key", "1")
	before := s.Engine.Revision()
	r := s.must(&kv.Txn{If: []kv.Compare{kv.Absent("ns", "key")}, Then: []kv.Op{putOp("ns", "key", "2")}, Else: []kv.Op{getOp("ns", "key"), getOp("ns", "none")}})
	require.Equal(s, before, r.Revision)
	require.Equal(s, s.get("ns", "key"), r.Ops[0].Entry)
	require.Nil(s, r.Ops[1].Entry)
	require.Equal(s, before, s.must(&kv.Txn{}).Revision, "a transaction of nothing is allowed")
	require.Equal(s, before, s.Engine.Revision())
}

func fence(s *subject) {
	lock := s.put("locks", "lock", "me")
	guarded := func(text string, token kv.Revision) *kv.Txn {
		return &kv.Txn{Fences: []kv.Fence{{NS: "locks", Key: "lock", Token: token}}, Then: []kv.Op{putOp("ns", "key", text)}}
	}
	s.must(guarded("1", lock.Create))
	s.put("locks", "lock", "me again")
	s.must(guarded("2", lock.Create))
	s.refused(guarded("3", lock.Create+1), codes.FenceLost)
	s.refused(guarded("3", lock.Create-1), codes.FenceLost)
	s.then(deleteOp("locks", "lock"))
	s.refused(guarded("3", lock.Create), codes.FenceLost)
	next := s.put("locks", "lock", "other")
	s.refused(guarded("3", lock.Create), codes.FenceLost)
	require.Equal(s, "2", s.text("ns", "key"))
	s.must(guarded("4", next.Create))

	handed := s.then(deleteOp("locks", "lock"), putOp("locks", "lock", "third")).Ops[1].Entry
	s.refused(guarded("5", next.Create), codes.FenceLost)
	s.must(guarded("6", handed.Create))
	s.refused(&kv.Txn{
		Fences: []kv.Fence{{NS: "locks", Key: "lock", Token: handed.Create}, {NS: "locks", Key: "second", Token: 1}},
		Then:   []kv.Op{putOp("ns", "key", "7")},
	}, codes.FenceLost)
	require.Equal(s, "6", s.text("ns", "key"))
}
