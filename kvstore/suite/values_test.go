package suite

import (
	"fmt"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var valueChecks = []check{
	{name: "ValuesComeBackAsWritten", run: valuesComeBack},
	{name: "NamesMayHaveAnyText", run: namesMayHaveAnyText},
	{name: "BadInputIsRefusedByItsCode", run: badInputIsRefused},
	{name: "EntriesTellTheirStory", run: entriesTellTheirStory},
	{name: "UpTo128OperationsFit", run: func(s *subject) { operationsFit(s, 128) }},
	{name: "LargeTransactionsFit", run: largeFits},
	{name: "AllOperationsFit", run: func(s *subject) { operationsFit(s, kv.MaxOps) }},
}

func value(t kv.Type, text string) kv.Value { return kv.Value{Type: t, Data: []byte(text)} }

func valuesComeBack(s *subject) {
	values := []kv.Value{
		value(kv.String, ""), value(kv.String, "grüße, 世界"), value(kv.String, "line\nline\x00end"),
		value(kv.Int, "0"), value(kv.Int, "-9223372036854775808"), value(kv.Int, "9223372036854775807"), value(kv.Int, "+07"),
		value(kv.Double, "1.500000"), value(kv.Double, "-1e-300"), value(kv.Double, "nan"), value(kv.Double, "-nan"), value(kv.Double, "inf"),
		value(kv.Double, "-INF"), value(kv.Double, "0x1.8p+1"),
		value(kv.Bool, "true"), value(kv.Bool, "false"),
		value(kv.Bytes, ""), value(kv.Bytes, "\x00\xff\xfe{}"),
		value(kv.JSON, ` {"a" : [1.0, 1e2], "a":null} `), value(kv.JSON, `12345678901234567890`),
		value(kv.String, strings.Repeat("x", kv.MaxValue)),
	}
	same := func(what string, want kv.Value, got *kv.Entry) {
		require.NotNil(s, got, what)
		require.Equal(s, want.Type, got.Value.Type, what)
		require.True(s, string(want.Data) == string(got.Value.Data), "%s: %.40q is not %.40q", what, got.Value.Data, want.Data)
	}
	for _, v := range values {
		given := kv.Value{Type: v.Type, Data: append([]byte(nil), v.Data...)}
		r := s.must(kv.PutTxn("values", "key", given))
		same("the result", v, r.Ops[0].Entry)
		same("a get", v, s.get("values", "key"))
		same("a get in a transaction", v, s.then(getOp("values", "key")).Ops[0].Entry)
		past, err := s.Engine.GetAt(s.Context(), "values", "key", r.Revision)
		require.NoError(s, err)
		same("a get at the revision", v, past)
		changes, err := s.Engine.Changes(s.Context(), r.Revision-1, 1<<30)
		require.NoError(s, err)
		same("the change", v, changes[len(changes)-1].Events[0].Entry)
	}
}

func namesMayHaveAnyText(s *subject) {
	names := []string{"a", "a.b", "a/b", "/", "//", " ", "#", "a*?[", `"\`, "grüße", "世界", "é", "e\u0301", "%00", "..", strings.Repeat("n", kv.MaxNamespace)}
	for _, ns := range names {
		for _, key := range append(names, strings.Repeat("k", kv.MaxKey)) {
			s.put(ns, key, ns+"|"+key)
		}
	}
	for _, ns := range names {
		for _, key := range names {
			require.Equal(s, ns+"|"+key, s.text(ns, key))
		}
	}
	list, more := s.Engine.Namespaces("", 0)
	require.False(s, more)
	require.Len(s, list, len(names))
}

func badInputIsRefused(s *subject) {
	s.put("ns", "text", "text")
	long := strings.Repeat("x", kv.MaxValue+1)
	one, two := int64(1), int64(2)
	cases := map[string]struct {
		op   kv.Op
		code codes.Code
	}{
		"no type":              {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(0, "x")}, codes.BadType},
		"unknown type":         {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(99, "x")}, codes.BadType},
		"an int that is none":  {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.Int, "1.5")}, codes.BadValue},
		"an int out of range":  {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.Int, "9223372036854775808")}, codes.BadValue},
		"a bool that is none":  {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.Bool, "yes")}, codes.BadValue},
		"no JSON":              {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.JSON, "{")}, codes.BadValue},
		"no UTF-8":             {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.String, "\xff")}, codes.BadValue},
		"too large":            {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.Bytes, long)}, codes.TooLarge},
		"empty key":            {putOp("ns", "", "x"), codes.BadKey},
		"empty namespace":      {putOp("", "k", "x"), codes.BadKey},
		"control character":    {putOp("ns", "a\x00b", "x"), codes.BadKey},
		"key too long":         {putOp("ns", strings.Repeat("k", kv.MaxKey+1), "x"), codes.NameTooLong},
		"namespace too long":   {putOp(strings.Repeat("n", kv.MaxNamespace+1), "k", "x"), codes.NameTooLong},
		"negative TTL":         {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: kv.IntValue(1), TTL: -time.Second}, codes.BadTTL},
		"TTL too long":         {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: kv.IntValue(1), TTL: kv.MaxTTL + time.Millisecond}, codes.BadTTL},
		"lease too short":      {kv.Op{Kind: kv.OpGrant, TTL: kv.MinLease - 1}, codes.BadTTL},
		"lease too long":       {kv.Op{Kind: kv.OpGrant, TTL: kv.MaxLease + 1}, codes.BadTTL},
		"no operation":         {kv.Op{Kind: 99, NS: "ns", Key: "k"}, codes.BadOp},
		"bounds crossed":       {kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "k", Min: &two, Max: &one}, codes.BadRequest},
		"increment of a text":  {incrOp("ns", "text", 1), codes.WrongType},
		"an unknown lease":     {kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: kv.IntValue(1), Lease: 12345}, codes.LeaseGone},
		"a lease to be ended":  {kv.Op{Kind: kv.OpRevoke, Lease: 12345}, codes.LeaseGone},
		"out of bounds":        {kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "k", Delta: 1, Initial: 1, Max: &one}, codes.OutOfBounds},
		"a negative limit":     {kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Limit: -1}, codes.BadRequest},
		"overflow":             {kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "k", Delta: 1, Initial: 1<<63 - 1}, codes.Overflow},
		"overflow to the left": {kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "k", Delta: -2, Initial: -1 << 63}, codes.Overflow},
	}
	for name, c := range cases {
		s.Log(name)
		s.refused(&kv.Txn{Then: []kv.Op{c.op}}, c.code)
		s.refused(&kv.Txn{Then: []kv.Op{putOp("ns", "other", "x"), c.op}}, c.code)
	}
	s.refused(&kv.Txn{Then: make([]kv.Op, kv.MaxOps+1)}, codes.TooManyOps)
	s.refused(&kv.Txn{If: make([]kv.Compare, kv.MaxCompares+1)}, codes.TooManyOps)
	s.refused(&kv.Txn{Token: strings.Repeat("t", kv.MaxToken+1), TokenNS: "ns"}, codes.NameTooLong)
	require.Equal(s, "text - -", s.texts("ns", "text", "k", "other"))
}

// entriesTellTheirStory follows one key through its life.
func entriesTellTheirStory(s *subject) {
	s.Clock.Advance(1500 * time.Millisecond)
	first := s.put("ns", "key", "1")
	require.Equal(s, kv.Entry{NS: "ns", Key: "key", Value: kv.StringValue("1"), Create: first.Mod, Mod: first.Mod, Version: 1, Updated: s.now()}, *first)
	s.Clock.Advance(time.Second)
	second := s.put("ns", "key", "1")
	require.Greater(s, second.Mod, first.Mod, "the same value again is a change")
	require.Equal(s, kv.Entry{NS: "ns", Key: "key", Value: kv.StringValue("1"), Create: first.Mod, Mod: second.Mod, Version: 2, Updated: s.now()}, *second)
	require.Equal(s, second, s.get("ns", "key"))

	s.Clock.Advance(time.Second)
	s.then(deleteOp("ns", "key"))
	require.Nil(s, s.get("ns", "key"))
	third := s.put("ns", "key", "2")
	require.Equal(s, third.Mod, third.Create, "made anew")
	require.Equal(s, int64(1), third.Version)
	require.False(s, third.Deleted())
	require.Equal(s, 4, third.Size())
}

func operationsFit(s *subject, n int) {
	ops := make([]kv.Op, n)
	for i := range ops {
		ops[i] = incrOp("ns", "key", 1)
		if i%2 == 1 {
			ops[i] = putOp("ns", "key"+strings.Repeat("x", i%1000), "x")
		}
	}
	r := s.then(ops...)
	require.Len(s, r.Ops, n)
	require.Equal(s, int64(1), s.get("ns", "key").Version)
}

func largeFits(s *subject) {
	txn := &kv.Txn{}
	const parts, overhead = 16, 64
	for i := range parts {
		txn.Then = append(txn.Then, putOp("ns", fmt.Sprint(i), strings.Repeat("x", kv.MaxTxnBytes/parts-overhead)))
	}
	r := s.must(txn)
	require.Equal(s, r.Revision, s.get("ns", "0").Mod)
	require.Equal(s, r.Revision, s.get("ns", fmt.Sprint(parts-1)).Mod)
}
