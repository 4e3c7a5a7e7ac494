package kv_test

import (
	"strings"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

func put(key string) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: "ns", Key: key, Value: kv.StringValue("x")}
}

func many(op kv.Op, n int) []kv.Op {
	ops := make([]kv.Op, n)
	for i := range ops {
		ops[i] = op
	}
	return ops
}

func TestTransactionsThatAreAllowed(t *testing.T) {
	low, high := int64(-1), int64(1)
	for what, txn := range map[string]kv.Txn{
		"nothing":         {},
		"as many as fit":  {Then: many(put("key"), kv.MaxOps), Else: many(put("key"), kv.MaxOps)},
		"conditions":      {Fences: make([]kv.Fence, 0), If: []kv.Compare{kv.Absent("ns", "key"), {NS: "ns", Key: "key", Target: kv.CompareValue, Relation: kv.Less, Value: value(0, "any text \xff")}}},
		"a token":         {Token: "t", TokenNS: "ns"},
		"an increment":    {Then: []kv.Op{{Kind: kv.OpIncr, NS: "ns", Key: "key", Min: &low, Max: &high, TTL: time.Millisecond}}},
		"a prefix":        {Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "ns", Key: "k"}, {Kind: kv.OpDeletePrefix, NS: "ns", Key: "k", Confirm: "ns"}}},
		"a whole space":   {Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "ns", Confirm: "ns"}}},
		"the longest TTL": {Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), TTL: kv.MaxTTL}}},
		"a moment":        {Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), Expires: 1}}},
		"leases":          {Then: []kv.Op{{Kind: kv.OpGrant, TTL: kv.MinLease}, {Kind: kv.OpRevoke, Lease: 1}}, Else: []kv.Op{{Kind: kv.OpGrant, TTL: kv.MaxLease}}},
		"eight MiB":       {Then: many(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "k", Value: value(kv.Bytes, strings.Repeat("x", kv.MaxValue-1))}, 8)},
	} {
		require.NoError(t, txn.Check(), what)
	}
}

func TestTransactionsThatAreNot(t *testing.T) {
	one, two := int64(1), int64(2)
	op := func(ops ...kv.Op) kv.Txn { return kv.Txn{Then: ops} }
	cases := map[string]struct {
		txn  kv.Txn
		code codes.Code
		says string
	}{
		"too many operations":      {kv.Txn{Then: many(put("key"), kv.MaxOps+1)}, codes.TooManyOps, "4096"},
		"too many else":            {kv.Txn{Else: many(put("key"), kv.MaxOps+1)}, codes.TooManyOps, "4097"},
		"too many conditions":      {kv.Txn{If: make([]kv.Compare, 200), Fences: make([]kv.Fence, 57)}, codes.TooManyOps, "256"},
		"too many bytes":           {kv.Txn{Then: many(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: value(kv.Bytes, strings.Repeat("x", kv.MaxValue))}, 8)}, codes.TooLarge, "8388608"},
		"a token too long":         {kv.Txn{Token: strings.Repeat("t", kv.MaxToken+1), TokenNS: "ns"}, codes.NameTooLong, "token"},
		"a token of no namespace":  {kv.Txn{Token: "t"}, codes.BadKey, "namespace"},
		"a fence without key":      {kv.Txn{Fences: []kv.Fence{{NS: "ns"}}}, codes.BadKey, "key"},
		"a compare of nothing":     {kv.Txn{If: []kv.Compare{{NS: "ns", Key: "k", Relation: kv.Equal}}}, codes.BadRequest, "target"},
		"a compare without sense":  {kv.Txn{If: []kv.Compare{{NS: "ns", Key: "k", Target: kv.CompareMod, Relation: 9}}}, codes.BadRequest, "relation"},
		"a compare of a bad int":   {kv.Txn{If: []kv.Compare{{NS: "ns", Key: "k", Target: kv.CompareValue, Relation: kv.Equal, Value: value(kv.Int, "x")}}}, codes.BadValue, "int"},
		"a compare too large":      {kv.Txn{If: []kv.Compare{{NS: "ns", Key: "k", Target: kv.CompareValue, Relation: kv.Equal, Value: value(0, strings.Repeat("x", kv.MaxValue+1))}}}, codes.TooLarge, "1048576"},
		"the second of two":        {op(put("a"), put("")), codes.BadKey, "operation 1"},
		"no kind":                  {op(kv.Op{NS: "ns", Key: "key"}), codes.BadOp, "operation"},
		"no namespace":             {op(kv.Op{Kind: kv.OpGet, Key: "key"}), codes.BadKey, "namespace"},
		"a bad value":              {op(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key"}), codes.BadType, "type"},
		"a negative TTL":           {op(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), TTL: -1}), codes.BadTTL, "ttl"},
		"a TTL too short":          {op(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), TTL: time.Microsecond}), codes.BadTTL, "millisecond"},
		"a TTL too long":           {op(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "key", TTL: kv.MaxTTL + 1}), codes.BadTTL, "limit"},
		"a negative moment":        {op(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "key", Expires: -1}), codes.BadTTL, "expires"},
		"two times":                {op(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), TTL: time.Second, Expires: 5}), codes.BadTTL, "exclude"},
		"a lease too short":        {op(kv.Op{Kind: kv.OpGrant, TTL: kv.MinLease - 1}), codes.BadTTL, "lease"},
		"a lease too long":         {op(kv.Op{Kind: kv.OpGrant, TTL: kv.MaxLease + 1}), codes.BadTTL, "lease"},
		"two leases":               {op(kv.Op{Kind: kv.OpGrant, TTL: kv.MinLease}, kv.Op{Kind: kv.OpGrant, TTL: kv.MinLease}), codes.TooManyOps, "second lease"},
		"bounds that cross":        {op(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "key", Min: &two, Max: &one}), codes.BadRequest, "min 2"},
		"a negative limit":         {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Limit: -1}), codes.BadRequest, "limit"},
		"a drop in haste":          {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns"}), codes.Unconfirmed, `all keys of namespace "ns" must be confirmed: give the name`},
		"a drop of little":         {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Limit: 1}), codes.Unconfirmed, "all keys"},
		"a drop of another":        {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Confirm: "NS"}), codes.Unconfirmed, `confirm is "NS", but the keys to delete are in namespace "ns"`},
		"a drop if all else fails": {kv.Txn{If: []kv.Compare{kv.Absent("ns", "k")}, Then: []kv.Op{put("k")}, Else: []kv.Op{put("k"), {Kind: kv.OpDeletePrefix, NS: "ns"}}}, codes.Unconfirmed, "operation 1: "},
		"a prefix of another":      {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: "k", Confirm: "other"}), codes.Unconfirmed, "other"},
		"a prefix too long":        {op(kv.Op{Kind: kv.OpDeletePrefix, NS: "ns", Key: strings.Repeat("k", kv.MaxKey+1)}), codes.NameTooLong, "prefix"},
	}
	for what, c := range cases {
		err := c.txn.Check()
		require.Equal(t, c.code, codes.Of(err), "%s: %v", what, err)
		require.Contains(t, err.Error(), c.says, what)
	}
}

func TestMadeTransactions(t *testing.T) {
	txn := kv.PutTxn("ns", "key", kv.IntValue(1))
	require.NoError(t, txn.Check())
	require.Equal(t, []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1)}}, txn.Then)
	require.True(t, txn.Then[0].Writes())
	require.False(t, (&kv.Op{Kind: kv.OpGet}).Writes())
	absent := kv.Absent("ns", "key")
	require.NoError(t, (&kv.Txn{If: []kv.Compare{absent}}).Check())
}

// Lists of kinds are made from the table, so that a new one is missing nowhere.
func TestOpKinds(t *testing.T) {
	kinds := kv.OpKinds()
	require.Equal(t, kv.OpGet, kinds[0])
	var sets []string
	for _, kind := range kinds {
		back, known := kv.ParseOp(kind.String())
		require.True(t, known, "kind %d has no name", kind)
		require.Equal(t, kind, back)
		require.NotEqual(t, codes.BadOp, codes.Of((&kv.Txn{Then: []kv.Op{{Kind: kind}}}).Check()), "Check does not know %s", kind)
		require.NotEmpty(t, kind.Doc(), kind)
		require.NotZero(t, kind.Members(), kind)
		require.False(t, kind.Follows() && !(&kv.Op{Kind: kind}).Writes(), kind)
		if kind.Sets() {
			sets = append(sets, kind.String())
		}
	}
	require.Subset(t, sets, []string{"put", "incr"})
	require.NotContains(t, sets, "get")
	none := kinds[len(kinds)-1] + 1
	require.Equal(t, "unknown unknown", none.String()+" "+kv.OpKind(0).String())
	require.False(t, none.Sets() || none.HasEntry() || none.Follows())
	_, known := kv.ParseOp("")
	require.False(t, known)
}

// Whatever a transaction would do to the namespaces of player storage, only one of the
// server's own may.
func TestReservedNamespacesAreTheServersOwn(t *testing.T) {
	for ns, want := range map[string]bool{
		"@landing": true, "@storage/": true, "@storage/1_1": true,
		"@landing/": false, "@landings": false, "@storage": false, "@storages/": false, "storage/1": false, " @landing": false, "ns": false,
	} {
		require.Equal(t, want, kv.Reserved(ns), ns)
	}
	for ns, want := range map[string]string{
		"@landing": "player storage", "@storage/1_1": "player storage", "@flow/cl": "the flow layout", "@bench": "the bench", "@access": "access control",
		"@flow": "the flow layout", "@flow/": "the flow layout", "@flow/a/b": "the flow layout", "@flow/.index": "the flow layout", "@bench/": "the bench",
		"@bench/x": "the bench", "@storage": "player storage", "@landing/x": "player storage", "@access/x": "access control", "@review/x": "the reviews", "@audit/x": "the audit",
		"flow/cl": "", "@flows": "", "@flow.x": "", "@benches/x": "", "@": "", "@/flow": "", "": "", "ns": "",
	} {
		require.Equal(t, want, kv.Guarded(ns), ns)
	}
	writes := map[string]kv.Txn{
		"put":                 *kv.PutTxn("@storage/t", "k", kv.IntValue(1)),
		"put of removed":      *kv.PutTxn("@storage/t", "k", value(kv.Removed, "\xff")),
		"put with ttl":        {Then: []kv.Op{{Kind: kv.OpPut, NS: "@landing", Key: "k", Value: kv.IntValue(1), TTL: time.Hour}}},
		"delete":              {Then: []kv.Op{{Kind: kv.OpDelete, NS: "@storage/t", Key: "k"}}},
		"delete prefix":       {Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "@storage/t", Key: "k"}}},
		"delete all":          {Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: "@landing", Confirm: "@landing"}}},
		"increment":           {Then: []kv.Op{{Kind: kv.OpIncr, NS: "@storage/t", Key: "k"}}},
		"else":                {Else: []kv.Op{{Kind: kv.OpIncr, NS: "@storage/t", Key: "k"}}},
		"behind another":      {Then: []kv.Op{put("key"), {Kind: kv.OpDelete, NS: "@landing", Key: "k"}}},
		"nothing but a token": {Token: "t", TokenNS: "@landing"},
	}
	for what, txn := range writes {
		err := txn.Check()
		require.Equal(t, codes.Reserved, codes.Of(err), what)
		require.ErrorContains(t, err, "belongs to player storage", what)
		txn.System = true
		require.NoError(t, txn.Check(), what)
	}
	reads := kv.Txn{If: []kv.Compare{kv.Absent("@landing", "k")}, Fences: []kv.Fence{{NS: "@landing", Key: "k", Token: 1}}, Then: []kv.Op{{Kind: kv.OpGet, NS: "@storage/t", Key: "k"}}}
	require.NoError(t, reads.Check(), "reading is for everybody")

	for _, ns := range []string{"ns", "@storage"} {
		removed := kv.PutTxn(ns, "k", value(kv.Removed, "x"))
		require.Equal(t, codes.BadType, codes.Of(removed.Check()))
		removed.System = true
		require.Equal(t, codes.BadType, codes.Of(removed.Check()), "not even the server")
	}
}
