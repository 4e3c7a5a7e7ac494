package suite

import (
	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var tokenChecks = []check{
	{name: "TokenIsAppliedOnce", run: tokenOnce},
	{name: "TokenOfAnotherRequestIsRefused", run: tokenOfAnother},
	{name: "TokenOfAFailureIsFree", run: tokenOfFailure},
	{name: "TokenComesBeforeConditions", run: tokenBeforeConditions},
	{name: "TokenWhileTheFirstIsUnderWay", run: tokenUnderWay},
	{name: "TokenAfterRestart", run: func(s *subject) { tokenAfter(s, s.restart) }},
	{name: "TokenAfterKill", run: func(s *subject) { tokenAfter(s, s.kill) }},
}

func tokened(token string, ops ...kv.Op) *kv.Txn {
	return &kv.Txn{Token: token, TokenNS: "ns", Then: ops}
}

// requireReplay compares two results except for the parts that a replay omits.
func requireReplay(s *subject, first, again *kv.Result) {
	s.Helper()
	require.False(s, first.Replayed)
	require.True(s, again.Replayed)
	require.Equal(s, first.Revision, again.Revision)
	require.Equal(s, first.Held, again.Held)
	require.Len(s, again.Ops, len(first.Ops))
	for i, want := range first.Ops {
		got := again.Ops[i]
		require.Equal(s, want.Count, got.Count)
		require.Equal(s, want.More, got.More)
		require.Equal(s, want.Lease, got.Lease)
		require.Equal(s, said(want.Prev), said(got.Prev))
		require.Equal(s, want.Entry == nil, got.Entry == nil)
		if want.Entry != nil {
			expected, entry := *said(want.Entry), *said(got.Entry)
			if len(entry.Value.Data) == 0 { // missing, as that of a put may be
				expected.Value, entry.Value = kv.Value{}, kv.Value{}
			}
			require.Equal(s, expected, entry)
		}
	}
}

// said is what callers are told of an entry, which is all that is remembered: neither that it is a
// lock nor anything of the server's own clock.
func said(e *kv.Entry) *kv.Entry {
	if e == nil {
		return nil
	}
	told := *e
	told.SetLock(false)
	told.Ends = 0
	return &told
}

func everything(s *subject) []kv.Op {
	ops := []kv.Op{
		incrOp("ns", "n", 1), getOp("ns", "n"), {Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.StringValue("x"), WantPrev: true}, deleteOp("ns", "gone"),
		{Kind: kv.OpDeletePrefix, NS: "ns", Key: "p/", Limit: 1},
	}
	return append(ops, kv.Op{Kind: kv.OpGrant, TTL: minute})
}

func prepareEverything(s *subject) {
	s.then(putOp("ns", "key", "before"), putOp("ns", "gone", "x"), putOp("ns", "p/1", "x"), putOp("ns", "p/2", "x"))
}

func tokenOnce(s *subject) {
	prepareEverything(s)
	first := s.must(tokened("token", everything(s)...))
	s.put("ns", "key", "later")
	before := s.Engine.Revision()
	for range 3 {
		requireReplay(s, first, s.must(tokened("token", everything(s)...)))
	}
	require.Equal(s, before, s.Engine.Revision())
	require.Equal(s, "1 later x", s.texts("ns", "n", "key", "p/2"))

	asked := tokened("token", everything(s)...)
	asked.Actor = &access.Actor{Name: "somebody else"}
	requireReplay(s, first, s.must(asked))

	elsewhere := s.must(&kv.Txn{Token: "token", TokenNS: "other", Then: []kv.Op{incrOp("ns", "n", 1)}})
	require.False(s, elsewhere.Replayed, "another namespace's token is another token")
	s.must(tokened("token2", incrOp("ns", "n", 1)))
	require.Equal(s, "3", s.text("ns", "n"))

	nothing := s.must(tokened("reads", getOp("ns", "n")))
	s.must(kv.PutTxn("ns", "n", kv.IntValue(100)))
	again := s.must(tokened("reads", getOp("ns", "n")))
	require.True(s, again.Replayed)
	require.Equal(s, nothing.Ops[0].Entry, again.Ops[0].Entry, "the first answer, also to a question")
}

func tokenOfAnother(s *subject) {
	s.must(tokened("token", putOp("ns", "key", "1")))
	s.refused(tokened("token", putOp("ns", "key", "2")), codes.TokenReused)
	s.refused(tokened("token", putOp("ns", "key2", "1")), codes.TokenReused)
	s.refused(tokened("token", putOp("ns", "key", "1"), deleteOp("ns", "key")), codes.TokenReused)
	s.refused(tokened("token", kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.StringValue("1"), TTL: minute}), codes.TokenReused)
	s.refused(tokened("token", kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: value(kv.Bytes, "1")}), codes.TokenReused)
	s.refused(&kv.Txn{Token: "token", TokenNS: "ns", If: []kv.Compare{kv.Absent("ns", "x")}, Then: []kv.Op{putOp("ns", "key", "1")}}, codes.TokenReused)
	s.refused(&kv.Txn{Token: "token", TokenNS: "ns", Else: []kv.Op{putOp("ns", "key", "1")}}, codes.TokenReused)
	require.Equal(s, "1 -", s.texts("ns", "key", "key2"))
	require.True(s, s.must(tokened("token", putOp("ns", "key", "1"))).Replayed)
}

func tokenOfFailure(s *subject) {
	s.put("ns", "key", "text")
	s.refused(tokened("token", incrOp("ns", "key", 1)), codes.WrongType)
	s.must(kv.PutTxn("ns", "key", kv.IntValue(1)))
	require.False(s, s.must(tokened("token", incrOp("ns", "key", 1))).Replayed)
	require.True(s, s.must(tokened("token", incrOp("ns", "key", 1))).Replayed)
	require.Equal(s, "2", s.text("ns", "key"))
}

func tokenBeforeConditions(s *subject) {
	lock := s.put("ns", "lock", "me")
	txn := func() *kv.Txn {
		return &kv.Txn{
			Token: "token", TokenNS: "ns", Fences: []kv.Fence{{NS: "ns", Key: "lock", Token: lock.Create}},
			If: []kv.Compare{kv.Absent("ns", "key")}, Then: []kv.Op{putOp("ns", "key", "1")}, Else: []kv.Op{putOp("ns", "key", "2")},
		}
	}
	first := s.must(txn())
	s.then(deleteOp("ns", "lock"))
	requireReplay(s, first, s.must(txn()))
	require.Equal(s, "1", s.text("ns", "key"))
}

// tokenUnderWay repeats a request before it is answered.
func tokenUnderWay(s *subject) {
	answers := make([]<-chan outcome, 20)
	for i := range answers {
		answers[i] = s.start(tokened("token", incrOp("ns", "n", 1)))
	}
	first := soon(s, answers[0], "the first")
	require.NoError(s, first.err)
	for _, answer := range answers[1:] {
		o := soon(s, answer, "a repetition")
		require.NoError(s, o.err)
		requireReplay(s, first.result, o.result)
	}
	require.Equal(s, "1", s.text("ns", "n"))
}

func tokenAfter(s *subject, again func()) {
	prepareEverything(s)
	first := s.must(tokened("token", everything(s)...))
	nothing := s.must(tokened("nothing", deleteOp("ns", "none"), getOp("ns", "key")))
	again()
	requireReplay(s, first, s.must(tokened("token", everything(s)...)))
	requireReplay(s, nothing, s.must(tokened("nothing", deleteOp("ns", "none"), getOp("ns", "key"))))
	s.refused(tokened("token", putOp("ns", "key", "2")), codes.TokenReused)
	require.Equal(s, "1 x x", s.texts("ns", "n", "key", "p/2"))
	again()
	requireReplay(s, first, s.must(tokened("token", everything(s)...)))
}
