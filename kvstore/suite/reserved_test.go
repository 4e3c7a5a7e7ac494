package suite

import (
	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

// What is particular to the namespaces of player storage, and to the transactions that the
// server makes for it.
var reservedChecks = []check{
	{name: "ReservedNamespacesAreTheServersOwn", run: reservedIsTheServers},
	{name: "LeaseOfReservedKeysIsTheServersOwn", run: reservedLease},
	{name: "IncrementOfRemovedBeginsAnew", run: incrementOfRemoved},
	{name: "WhatMustHoldLeavesNoToken", run: mustHold},
	{name: "TokenIsForWhatWasAsked", run: func(s *subject) { tokenOfAsked(s, func() {}) }},
	{name: "TokenIsForWhatWasAskedAfterRestart", run: func(s *subject) { tokenOfAsked(s, s.restart) }},
}

// reserved is a namespace of player storage.
const reserved = "@storage/1_1"

func system(ops ...kv.Op) *kv.Txn { return &kv.Txn{Then: ops, System: true} }

func removedOp(key, text string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: reserved, Key: key, Value: value(kv.Removed, text)}
}

func reservedIsTheServers(s *subject) {
	for _, op := range []kv.Op{putOp(reserved, "key", "1"), deleteOp(reserved, "key"), incrOp(reserved, "key", 1), dropOp(reserved), removedOp("key", "x")} {
		s.refused(&kv.Txn{Then: []kv.Op{op}}, codes.Reserved)
		s.refused(&kv.Txn{If: []kv.Compare{kv.Absent("ns", "key")}, Else: []kv.Op{putOp("ns", "other", "1"), op}}, codes.Reserved)
	}
	s.refused(&kv.Txn{Token: "token", TokenNS: reserved, Then: []kv.Op{putOp("ns", "key", "1")}}, codes.Reserved)

	feed := s.follow()
	s.must(system(putOp(reserved, "key", "1"), removedOp("gone", "\x00\xff"), putOp("ns", "key", "2")))
	require.Equal(s, value(kv.Removed, "\x00\xff"), s.get(reserved, "gone").Value)
	require.Equal(s, "1", string(s.then(getOp(reserved, "key")).Ops[0].Entry.Value.Data), "everybody may read")
	s.must(system(deleteOp(reserved, "key")))
	var told [][]string
	for _, change := range feed.changesAfter(0) {
		told = append(told, eventTexts(change.Events))
	}
	require.Equal(s, [][]string{{"put @storage/1_1 gone \x00\xff", "put @storage/1_1 key 1", "put ns key 2"}, {"delete @storage/1_1 key"}}, told)
}

func reservedLease(s *subject) {
	for _, ns := range []string{"@landing", kv.FlowPrefix + "cl", kv.BenchNamespace} {
		id := s.grant(minute)
		s.must(system(kv.Op{Kind: kv.OpPut, NS: ns, Key: "lock", Value: kv.StringValue("x"), Lease: id}))
		revoke := kv.Op{Kind: kv.OpRevoke, Lease: id}
		s.refused(&kv.Txn{Then: []kv.Op{revoke}}, codes.Reserved)
		require.NotNil(s, s.get(ns, "lock"))
		require.EqualValues(s, 1, s.must(system(revoke)).Ops[0].Count)
		require.Nil(s, s.get(ns, "lock"))
	}
}

func mustHold(s *subject) {
	txn := func() *kv.Txn {
		return &kv.Txn{Must: true, If: []kv.Compare{{NS: "ns", Key: "key", Target: kv.CompareVersion, Relation: kv.Equal, Number: 1}},
			Then: []kv.Op{putOp("ns", "other", "1")}, Else: []kv.Op{putOp("ns", "else", "1")}, Token: "token", TokenNS: "ns"}
	}
	before := s.Engine.Revision()
	s.refused(txn(), codes.Conflict)
	require.Equal(s, before, s.Engine.Revision())
	s.put("ns", "key", "1")
	require.False(s, s.must(txn()).Replayed, "what was refused left no token")
	require.True(s, s.must(txn()).Replayed, "and what was done is not refused")
	require.Equal(s, "1 -", s.texts("ns", "other", "else"))

	many := &kv.Txn{System: true}
	for range kv.MaxOps {
		many.If = append(many.If, kv.Absent("ns", "none"))
	}
	require.True(s, s.must(many).Held)
	s.refused(&kv.Txn{If: many.If}, codes.TooManyOps)
}

func incrementOfRemoved(s *subject) {
	made := s.must(system(removedOp("n", "41"), removedOp("text", "no number"))).Ops[0].Entry
	incr := func(key string) kv.Op {
		return kv.Op{Kind: kv.OpIncr, NS: reserved, Key: key, Delta: 2, Initial: 5, WantPrev: true}
	}
	r := s.must(system(incr("n"), incr("text")))
	for _, op := range r.Ops {
		require.Equal(s, kv.IntValue(7), op.Entry.Value)
		require.Equal(s, kv.Removed, op.Prev.Value.Type)
		require.EqualValues(s, 2, op.Entry.Version, "it is the same key")
	}
	require.Equal(s, made.Create, r.Ops[0].Entry.Create)
	require.Equal(s, kv.IntValue(9), s.must(system(incr("n"))).Ops[0].Entry.Value)
}

func asked(text string, ops ...kv.Op) *kv.Txn {
	return &kv.Txn{Token: "token", TokenNS: reserved, Asked: []byte(text), Then: ops, System: true}
}

// A request that is carried out by other operations the second time is the same request.
func tokenOfAsked(s *subject, between func()) {
	s.must(system(removedOp("old", "was"), putOp(reserved, "gone", "x")))
	put := putOp(reserved, "key", "1")
	put.WantPrev = true
	restored := kv.Op{Kind: kv.OpPut, NS: reserved, Key: "old", Value: kv.BytesValue([]byte("was")), WantPrev: true}
	first := s.must(asked("what", put, restored, incrOp(reserved, "n", 3), getOp("ns", "absent"), deleteOp(reserved, "gone")))
	between()
	for _, ops := range [][]kv.Op{{incrOp(reserved, "n", 3)}, {}, {getOp("other", "key"), getOp("other", "key"), put}} {
		again := s.must(asked("what", ops...))
		requireReplay(s, first, again)
		require.Equal(s, "1 was 3", s.texts(reserved, "key", "old", "n"))
		require.Equal(s, kv.IntValue(3), again.Ops[2].Entry.Value)
		require.Equal(s, value(kv.Removed, "was"), again.Ops[1].Prev.Value)
		require.Empty(s, again.Ops[0].Entry.Value.Data, "as of any put")
	}
	otherwise := asked("what", put)
	otherwise.If = []kv.Compare{kv.Absent(reserved, "never")}
	requireReplay(s, first, s.must(otherwise))
	s.refused(asked("else", put), codes.TokenReused)
	s.refused(asked("", put, restored, incrOp(reserved, "n", 3), getOp("ns", "absent"), deleteOp(reserved, "gone")), codes.TokenReused)
}
