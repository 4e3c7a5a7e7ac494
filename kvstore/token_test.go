package kvstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kv"
)

func TestTokensApplyOnce(t *testing.T) {
	f, c := &fakeLog{}, clocktest.NewFake(noon)
	b := reopened(t, Config{}, f, c)
	lock := b.must(put("lock", "me")).Revision
	b.must(put("p/1", "1"), put("p/2", "2"))
	make := func() *kv.Txn {
		ops := []kv.Op{put("k", "v"), incr("n", 3), get("lock"), del("absent"), {Kind: kv.OpDeletePrefix, NS: "a", Key: "p/", Limit: 1}, grant(time.Second)}
		ops[0].WantPrev, ops[1].WantPrev = true, true
		return &kv.Txn{Fences: []kv.Fence{{NS: "a", Key: "lock", Token: lock}}, Then: ops, TokenNS: "a", Token: "t"}
	}
	first, err := b.do(make())
	require.NoError(t, err)
	require.False(t, first.Replayed)
	b.must(del("lock"), put("k", "changed"), put("n", "changed")) // nothing of it matters for the answer
	again := func() {
		second, err := b.do(make())
		require.NoError(t, err)
		want := *first
		want.Replayed = true
		want.Ops = append([]kv.OpResult(nil), first.Ops...)
		entry := *first.Ops[0].Entry
		entry.Value = kv.Value{}
		want.Ops[0].Entry = &entry
		require.Equal(t, &want, second)
	}
	again()
	other := make()
	other.Then[1].Delta++
	_, err = b.do(other)
	require.ErrorIs(t, err, codes.TokenReused)
	other.TokenNS = "b"
	other.Fences = nil
	r, err := b.do(other)
	require.ErrorIs(t, err, codes.WrongType, "a token counts in its namespace only: %v", r)
	require.EqualValues(t, 1, b.Stats().Replayed)

	require.NoError(t, b.Store.Close())
	b = reopened(t, Config{}, f, c)
	again()
	require.Equal(t, "changed", b.text("a", "k"))
}

// Two of a token in one group are one as well.
func TestTokensApplyOnceInAGroup(t *testing.T) {
	b := gated(t, Config{})
	first := b.begin(kv.PutTxn("a", "k", kv.IntValue(0)))
	<-b.disk.entered
	make := func() *kv.Txn {
		return &kv.Txn{Then: []kv.Op{incr("n", 1)}, TokenNS: "a", Token: "t"}
	}
	second, third := b.begin(make()), b.begin(make())
	b.disk.gate <- struct{}{}
	<-first
	b.allow()
	x, y := <-second, <-third
	require.NoError(t, x.err)
	require.NoError(t, y.err)
	require.True(t, y.result.Replayed)
	require.Equal(t, x.result.Revision, y.result.Revision)
	require.Equal(t, "1", b.text("a", "n"))
}

// A transaction that changes nothing is remembered, too: it takes a revision, but
// its result says at which it was evaluated.
func TestTokensOfTransactionsThatChangeNothing(t *testing.T) {
	b := onFake(t, Config{})
	b.must(put("k", "1"))
	make := func() *kv.Txn {
		return &kv.Txn{If: []kv.Compare{kv.Absent("a", "k")}, Then: []kv.Op{put("k", "2")}, TokenNS: "a", Token: "t"}
	}
	first, err := b.do(make())
	require.NoError(t, err)
	require.Equal(t, &kv.Result{Revision: 1, Ops: []kv.OpResult{}}, first)
	require.EqualValues(t, 2, b.Revision())
	b.must(del("k"))
	again, err := b.do(make())
	require.NoError(t, err)
	require.Equal(t, &kv.Result{Revision: 1, Ops: []kv.OpResult{}, Replayed: true}, again)
	require.Equal(t, "-", b.text("a", "k"))
}

func TestResultsToRememberAreBounded(t *testing.T) {
	b := onFake(t, Config{})
	b.must(put("large", string(make([]byte, kv.MaxValue))))
	txn := &kv.Txn{TokenNS: "a", Token: "t", Then: []kv.Op{put("k", "1")}}
	for range 9 {
		txn.Then = append(txn.Then, get("large"))
	}
	_, err := b.do(txn)
	require.ErrorIs(t, err, codes.TooLarge)
	require.Equal(t, "-", b.text("a", "k"))
	txn.Token = ""
	_, err = b.do(txn)
	require.NoError(t, err)
}

// A put's value is not stored with its result, so it counts for nothing there.
func TestWhateverIsAllowedMayHaveAToken(t *testing.T) {
	b := onFake(t, Config{})
	txn := &kv.Txn{TokenNS: "a", Token: "t"}
	for i := range 8 {
		txn.Then = append(txn.Then, put(fmt.Sprint(i), string(make([]byte, kv.MaxValue-1))))
	}
	_, err := b.do(txn)
	require.NoError(t, err)
}

// Results that read long values are not all kept just because they are few.
func TestTheBytesOfTokensAreBounded(t *testing.T) {
	f, c, cfg := &fakeLog{}, clocktest.NewFake(noon), Config{Tokens: memory.NewPool(1750)}
	b := reopened(t, cfg, f, c)
	b.must(put("long", string(make([]byte, 300))), put("longer", string(make([]byte, 2000))))
	do := func(token, key string) bool {
		r, err := b.do(&kv.Txn{Then: []kv.Op{get(key)}, TokenNS: "a", Token: token})
		require.NoError(t, err)
		return r.Replayed
	}
	for i := range 4 {
		require.False(t, do(fmt.Sprint(i), "long"))
	}
	require.EqualValues(t, 3, b.Stats().Tokens)
	require.True(t, do("1", "long"))
	require.False(t, do("0", "long"), "forgotten, as the oldest")
	b.settled()
	require.EqualValues(t, 3, f.dropped, "of the second token")
	require.False(t, do("5", "longer"))
	require.EqualValues(t, 1, b.Stats().Tokens)
	require.True(t, do("5", "longer"), "the newest is always kept")

	require.NoError(t, b.Store.Close())
	b = reopened(t, cfg, f, c)
	require.EqualValues(t, 1, b.Stats().Tokens)
	require.True(t, do("5", "longer"))
	require.False(t, do("6", "long"))
	require.EqualValues(t, 1, b.Stats().Tokens)
	c.Advance(time.Hour + time.Millisecond)
	b.settled()
	require.Zero(t, b.Stats().Tokens)
	require.Zero(t, b.tokens.bytes)
}

// asking makes a transaction that reads a key, with a token of who, and reports whether the
// token was known.
func (b *bench) asking(who, token, key string) bool {
	b.Helper()
	txn := &kv.Txn{Then: []kv.Op{get(key)}, TokenNS: "a", Token: token}
	if who != "" {
		txn.Actor = &access.Actor{Identity: &access.Identity{Name: who}}
	}
	r, err := b.do(txn)
	require.NoError(b, err)
	return r.Replayed
}

// Who asks for much loses tokens of their own only: others are promised that theirs are kept.
func TestNobodyHasTheTokensOfOthersForgotten(t *testing.T) {
	f, c, cfg := &fakeLog{}, clocktest.NewFake(noon), Config{Tokens: memory.NewPool(20_000)}
	b := reopened(t, cfg, f, c)
	b.must(put("long", string(make([]byte, 3000))), put("short", "1"))
	require.False(t, b.asking("token:a", "first", "short"))
	require.False(t, b.asking("token:victim", "t", "short"))
	require.False(t, b.asking("", "t of nobody", "short"))
	for i := range 40 {
		require.False(t, b.asking("token:a", fmt.Sprint("a", i), "long"))
	}
	check := func() {
		t.Helper()
		require.True(t, b.asking("token:victim", "t", "short"))
		require.True(t, b.asking("", "t of nobody", "short"))
		require.True(t, b.asking("token:a", "a39", "long"))
		require.LessOrEqual(t, b.tokens.bytes, int64(20_000))
	}
	check()
	b.settled()
	require.EqualValues(t, 2, f.dropped, "the first one was the oldest of all")
	require.Len(t, f.droppedToo, 35)
	require.NotContains(t, f.droppedToo, kv.Revision(3))
	require.NoError(t, b.Store.Close())

	b = reopened(t, cfg, f, c) // which has loaded all of them again
	check()
	for i := range 40 {
		require.False(t, b.asking("token:b", fmt.Sprint("b", i), "long"))
	}
	check()
	for i := range 200 {
		require.False(t, b.asking("token:c", fmt.Sprint("c", i), "short"))
	}
	check()
	c.Advance(time.Hour + time.Millisecond)
	b.settled()
	require.Zero(t, b.Stats().Tokens)
	require.Zero(t, b.tokens.bytes)
	require.Zero(t, b.tokens.queued)
	require.Empty(t, b.tokens.holders)
}

// Nor by number.
func TestNobodyHasTheTokensOfOthersForgottenByManySmallOnes(t *testing.T) {
	b := onFake(t, Config{MaxTokens: 10})
	require.False(t, b.asking("token:victim", "t", "none"))
	for i := range 30 {
		require.False(t, b.asking("token:a", fmt.Sprint(i), "none"))
	}
	require.True(t, b.asking("token:victim", "t", "none"))
	require.True(t, b.asking("token:a", "21", "none"))
	require.EqualValues(t, 10, b.Stats().Tokens)
}

// One result must not be as large as all others together may be.
func TestResultsOfSomebodyKnownTakeHalfOfTheRoomAtMost(t *testing.T) {
	b := onFake(t, Config{Tokens: memory.NewPool(20_000)})
	b.must(put("huge", string(make([]byte, 10_001))))
	require.False(t, b.asking("", "t", "huge"))
	txn := &kv.Txn{Actor: &access.Actor{Identity: &access.Identity{Name: "token:a"}}, Then: []kv.Op{get("huge"), put("k", "1")}, TokenNS: "a", Token: "t2"}
	_, err := b.do(txn)
	require.ErrorIs(t, err, codes.TooLarge)
	require.ErrorContains(t, err, "the limit is 10000; ask for less, or without a token")
	require.Equal(t, "-", b.text("a", "k"))
}

func drawEntry(t *rapid.T, op *kv.Op, value bool) *kv.Entry {
	e := &kv.Entry{NS: op.NS, Key: op.Key}
	e.Create = kv.Revision(rapid.Int64Range(1, 1<<40).Draw(t, "create"))
	e.Mod, e.Version, e.Updated = e.Create+7, 3, 1<<41
	e.Expires = rapid.SampledFrom([]int64{0, 1 << 41}).Draw(t, "expires")
	e.Lease = kv.LeaseID(rapid.SampledFrom([]int64{0, 9}).Draw(t, "lease"))
	if value {
		e.Value = kv.Value{Type: kv.Bytes, Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data")}
	}
	return e
}

func TestResultsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		txn, repeated := &kv.Txn{}, &kv.Txn{}
		if rapid.Bool().Draw(t, "asked") {
			txn.Asked, repeated.Asked = []byte("x"), []byte("x")
		} else {
			repeated = txn
		}
		r := &kv.Result{Revision: kv.Revision(rapid.Int64Range(0, 1<<62).Draw(t, "revision")), Held: rapid.Bool().Draw(t, "held"), Ops: []kv.OpResult{}, Replayed: true}
		ops := &txn.Else
		if r.Held {
			ops = &txn.Then
		}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			op := kv.Op{NS: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "ns"), Key: "k", Kind: rapid.SampledFrom([]kv.OpKind{kv.OpPut, kv.OpIncr, kv.OpGet}).Draw(t, "kind")}
			*ops = append(*ops, op)
			one := kv.OpResult{Count: rapid.Int64Range(0, 9).Draw(t, "count"), More: rapid.Bool().Draw(t, "more")}
			if rapid.Bool().Draw(t, "entry") {
				one.Entry = drawEntry(t, &op, op.Kind != kv.OpPut)
			}
			if rapid.Bool().Draw(t, "prev") {
				one.Prev = drawEntry(t, &op, true)
			}
			if rapid.Bool().Draw(t, "granted") {
				one.Lease = kv.Lease{ID: 4, TTL: time.Second, Left: time.Second}
			}
			r.Ops = append(r.Ops, one)
		}
		own := rapid.SampledFrom([]kv.Revision{r.Revision, 4, 1 << 50}).Draw(t, "own")
		stored := appendResult(nil, txn, r, own)
		got, err := parseResult(stored, repeated, own)
		require.NoError(t, err)
		require.Equal(t, r, got)
		for n := range stored {
			_, err := parseResult(stored[:n], repeated, own)
			require.Error(t, err)
		}
	})
}

// What stores have remembered so far is still understood.
func TestResultsWithAbsoluteRevisionsAreRead(t *testing.T) {
	txn := &kv.Txn{Then: []kv.Op{incr("n", 1), grant(time.Second)}}
	stored := []byte{absoluteResultFormat, 1, 5, hasEntry | hasEntryValue, 3, 5, 2, 9, 0, 0, byte(kv.Int), 1, '7', hasLease, 5, 0}
	got, err := parseResult(stored, txn, 5)
	require.NoError(t, err)
	require.Equal(t, &kv.Result{Revision: 5, Held: true, Replayed: true, Ops: []kv.OpResult{
		{Entry: &kv.Entry{NS: "a", Key: "n", Value: kv.IntValue(7), Create: 3, Mod: 5, Version: 2, Updated: 9}},
		{Lease: kv.Lease{ID: 5}},
	}}, got)
}

// The log may give a transaction another revision than it was evaluated with.
func TestResultsFollowTheRevisionOfTheirTransaction(t *testing.T) {
	txn := &kv.Txn{Then: []kv.Op{put("k", "v"), grant(time.Second)}}
	r := &kv.Result{Revision: 7, Held: true, Ops: []kv.OpResult{{Entry: &kv.Entry{Create: 3, Mod: 7, Version: 2}}, {Lease: kv.Lease{ID: 7}}}}
	got, err := parseResult(appendResult(nil, txn, r, 7), txn, 11)
	require.NoError(t, err)
	require.EqualValues(t, 11, got.Revision)
	require.EqualValues(t, 3, got.Ops[0].Entry.Create)
	require.EqualValues(t, 11, got.Ops[0].Entry.Mod)
	require.EqualValues(t, 11, got.Ops[1].Lease.ID)
}

func FuzzResult(f *testing.F) {
	txn := &kv.Txn{Then: []kv.Op{put("k", "v"), incr("n", 1)}, Else: []kv.Op{get("k")}}
	f.Add([]byte{resultFormat, 1, 5, hasEntry, 1, 2, 3, 4, 5, 6, hasCount, 1})
	f.Add([]byte{absoluteResultFormat, 1, 5, hasEntry, 1, 2, 3, 4, 5, 6, hasCount, 1})
	f.Add([]byte{resultFormat, 0, 5, hasEntry | hasEntryValue, 1, 2, 3, 4, 5, 6, 1, 2, 'o', 'k'})
	f.Add([]byte{askedResultFormat, 1, 5, 1, hasEntry | hasEntryValue, 1, 'a', 1, 'k', 1, 2, 3, 4, 5, 6, 1, 2, 'o', 'k'})
	f.Fuzz(func(t *testing.T, stored []byte) {
		r, err := parseResult(stored, txn, 6)
		if err != nil || len(stored) > 0 && stored[0] == askedResultFormat {
			return // of another transaction
		}
		again, err := parseResult(appendResult(nil, txn, r, 6), txn, 6)
		if err == nil && r.Ops[0].Lease.ID == 0 { // a put's value, a lease without a name: never written
			require.Equal(t, r.Revision, again.Revision)
			require.Len(t, again.Ops, len(r.Ops))
		}
	})
}

func TestDigestsTellTransactionsApart(t *testing.T) {
	one, two := int64(1), int64(2)
	base := func() *kv.Txn {
		return &kv.Txn{
			Fences: []kv.Fence{{NS: "a", Key: "l", Token: 1}},
			If:     []kv.Compare{{NS: "a", Key: "k", Target: kv.CompareValue, Relation: kv.Equal, Value: kv.IntValue(1)}},
			Then:   []kv.Op{{Kind: kv.OpIncr, NS: "a", Key: "k", Delta: 1, Min: &one}},
			Else:   []kv.Op{put("k", "v")},
		}
	}
	seen := map[[16]byte]int{}
	for i, change := range []func(*kv.Txn){
		func(*kv.Txn) {},
		func(x *kv.Txn) { x.Fences[0].NS = "b" },
		func(x *kv.Txn) { x.Fences[0].Key = "b" },
		func(x *kv.Txn) { x.Fences[0].Token++ },
		func(x *kv.Txn) { x.Fences = nil },
		func(x *kv.Txn) { x.If = nil },
		func(x *kv.Txn) { x.If[0].NS, x.If[0].Key = "ak", "" },
		func(x *kv.Txn) { x.If[0].Target = kv.CompareMod },
		func(x *kv.Txn) { x.If[0].Relation = kv.Less },
		func(x *kv.Txn) { x.If[0].Number = 5 },
		func(x *kv.Txn) { x.If[0].Value.Type = kv.String },
		func(x *kv.Txn) { x.If[0].Value = kv.IntValue(2) },
		func(x *kv.Txn) { x.Then, x.Else = x.Else, x.Then },
		func(x *kv.Txn) { x.Then[0].Kind = kv.OpPut },
		func(x *kv.Txn) { x.Then[0].NS = "b" },
		func(x *kv.Txn) { x.Then[0].Key = "b" },
		func(x *kv.Txn) { x.Then[0].Delta = 2 },
		func(x *kv.Txn) { x.Then[0].Initial = 2 },
		func(x *kv.Txn) { x.Then[0].Min, x.Then[0].Max = nil, &one },
		func(x *kv.Txn) { x.Then[0].Min = &two },
		func(x *kv.Txn) { x.Then[0].TTL = 1 },
		func(x *kv.Txn) { x.Then[0].Expires = 1 },
		func(x *kv.Txn) { x.Then[0].Lease = 1 },
		func(x *kv.Txn) { x.Then[0].Limit = 1 },
		func(x *kv.Txn) { x.Then[0].WantPrev = true },
		func(x *kv.Txn) { x.Else[0].Value = kv.JSONValue([]byte("v")) },
		func(x *kv.Txn) { x.Else = append(x.Else, x.Else[0]) },
		func(x *kv.Txn) { x.Asked = []byte("x") },
		func(x *kv.Txn) { x.Asked = []byte("xx") },
	} {
		txn := base()
		change(txn)
		sum := digestOf(txn)
		require.Equal(t, sum, digestOf(txn))
		require.NotContains(t, seen, sum, "%d and %d", i, seen[sum])
		seen[sum] = i
	}
	// Stored digests must be the same for ever.
	require.Equal(t, "02f2a718804914b8413a1d833221c0d9", fmt.Sprintf("%x", digestOf(base())))
	askedOnly, asked := &kv.Txn{Asked: []byte("x")}, base()
	asked.Asked = askedOnly.Asked
	require.Equal(t, "e179166fac68be614072b8ad74ac293e", fmt.Sprintf("%x", digestOf(asked)))
	require.Equal(t, digestOf(askedOnly), digestOf(asked), "nothing else counts")
	// What confirms a request is not part of it.
	confirmed := base()
	confirmed.Then[0].Confirm = "a"
	require.Equal(t, digestOf(base()), digestOf(confirmed))
}

// A token is forgotten when its time is over, not when the time of day is set.
func TestSettingTheClockForgetsNoToken(t *testing.T) {
	for _, step := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		b := onFake(t, Config{TokenAge: time.Hour})
		write := func() bool {
			r, err := b.do(&kv.Txn{TokenNS: "ns", Token: "t", Then: []kv.Op{{Kind: kv.OpIncr, NS: "ns", Key: "n", Delta: 1}}})
			require.NoError(t, err)
			return r.Replayed
		}
		require.False(t, write())
		b.clock.Step(step)
		require.True(t, write(), "%s", step)
		b.clock.Advance(time.Hour - time.Millisecond)
		require.True(t, write(), "%s", step)
		b.clock.Advance(2 * time.Millisecond)
		require.False(t, write(), "%s", step)
	}
}
