package protocol_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
	"confcenter/protocol"
)

// What follows draws what the store can hold and be asked, for round trips.

// parsed is a body of the state store's, taken apart.
func parsed(t require.TestingT, body []byte) *protocol.Request {
	var r protocol.Request
	require.NoError(t, r.ParseTailed(body), "%q", body)
	return &r
}

func drawName(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.StringMatching(`[a-c]`), rapid.StringMatching(`[a-z0-9ä."\\/# 😀]{1,12}`)).Draw(t, label)
}

func drawRevision(t *rapid.T, label string) kv.Revision {
	return kv.Revision(rapid.Int64Min(1).Draw(t, label))
}

func drawValue(t *rapid.T) kv.Value {
	switch rapid.IntRange(1, 6).Draw(t, "type") {
	case 1:
		return kv.StringValue(rapid.String().Draw(t, "string"))
	case 2:
		return kv.IntValue(rapid.Int64().Draw(t, "int"))
	case 3:
		return kv.DoubleValue(rapid.Float64().Draw(t, "double"))
	case 4:
		return kv.BoolValue(rapid.Bool().Draw(t, "bool"))
	case 5:
		return kv.BytesValue(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
	}
	return kv.JSONValue([]byte(rapid.SampledFrom([]string{`null`, `"a"`, `1.50`, `[1, {"a" : [] }]`, `{"value":"}"}`}).Draw(t, "json")))
}

// drawEntry draws one that has a value and the name given.
func drawEntry(t *rapid.T, ns, key string) *kv.Entry {
	return &kv.Entry{
		NS: ns, Key: key, Value: drawValue(t), Create: drawRevision(t, "create"), Mod: drawRevision(t, "mod"),
		Version: rapid.Int64Min(1).Draw(t, "version"), Updated: rapid.Int64().Draw(t, "updated"),
		Expires: rapid.Int64Min(0).Draw(t, "expires"), Lease: kv.LeaseID(rapid.Int64Min(0).Draw(t, "lease")),
	}
}

// maybeEntry is nil now and then.
func maybeEntry(t *rapid.T, ns, key string) *kv.Entry {
	if rapid.Bool().Draw(t, "absent") {
		return nil
	}
	return drawEntry(t, ns, key)
}

func drawTombstone(t *rapid.T, ns, key string) *kv.Entry {
	return &kv.Entry{NS: ns, Key: key, Mod: drawRevision(t, "mod"), Updated: rapid.Int64().Draw(t, "updated")}
}

// drawOp draws one of any kind, by its members.
func drawOp(t *rapid.T) kv.Op {
	op := kv.Op{Kind: rapid.SampledFrom(kv.OpKinds()).Draw(t, "kind")}
	has := op.Kind.Members()
	if has&kv.MemberKey != 0 {
		op.NS, op.Key = drawName(t, "ns"), drawName(t, "key")
	}
	if has&kv.MemberPrefix != 0 {
		op.NS, op.Key = drawName(t, "ns"), rapid.SampledFrom([]string{"", "a", "\xe2\x82"}).Draw(t, "prefix")
		op.Limit = rapid.IntRange(0, 100).Draw(t, "limit")
		if op.Key == "" || rapid.Bool().Draw(t, "confirmed") {
			op.Confirm = op.NS
		}
	}
	if has&kv.MemberValue != 0 {
		op.Value = drawValue(t)
	}
	if has&kv.MemberSeal != 0 {
		op.Seal = rapid.IntRange(0, 3).Draw(t, "sealed") == 0
	}
	if has&kv.MemberBy != 0 {
		op.Delta, op.Initial = rapid.Int64().Draw(t, "by"), rapid.Int64().Draw(t, "initial")
		if rapid.Bool().Draw(t, "bounded") {
			low, high := rapid.Int64Max(0).Draw(t, "min"), rapid.Int64Min(0).Draw(t, "max")
			op.Min, op.Max = &low, &high
		}
	}
	if has&kv.MemberEnds != 0 {
		switch rapid.IntRange(0, 2).Draw(t, "ends") {
		case 1:
			op.TTL = time.Duration(rapid.Int64Range(1, kv.MaxTTL.Milliseconds()).Draw(t, "ttl")) * time.Millisecond
		case 2:
			op.Expires = rapid.Int64Min(1).Draw(t, "expires")
		}
		op.Lease = kv.LeaseID(rapid.Int64Min(0).Draw(t, "lease"))
	}
	if has&kv.MemberTTL != 0 {
		op.TTL = time.Duration(rapid.Int64Range(100, 86_400_000).Draw(t, "ttl")) * time.Millisecond
	}
	if has&kv.MemberLease != 0 {
		op.Lease = kv.LeaseID(rapid.Int64().Draw(t, "lease"))
	}
	op.WantPrev = has&kv.MemberPrev != 0 && rapid.Bool().Draw(t, "prev")
	return op
}

func drawCompare(t *rapid.T) kv.Compare {
	c := kv.Compare{
		NS: drawName(t, "ns"), Key: drawName(t, "key"), Target: kv.Target(rapid.IntRange(int(kv.CompareValue), int(kv.CompareMod)).Draw(t, "target")),
		Relation: kv.Relation(rapid.IntRange(int(kv.Equal), int(kv.Greater)).Draw(t, "relation")),
	}
	switch {
	case c.Target != kv.CompareValue:
		c.Number = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "number")
	case rapid.Bool().Draw(t, "untyped"):
		c.Value = kv.Value{Data: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "text")}
	default:
		c.Value = drawValue(t)
	}
	return c
}

// some draws up to three, nil for none.
func some[T any](t *rapid.T, label string, draw func(*rapid.T) T) []T {
	var list []T
	for range rapid.IntRange(0, 3).Draw(t, label) {
		list = append(list, draw(t))
	}
	return list
}

// oneGrant leaves the operations up to the second grant, which is one too many.
func oneGrant(ops []kv.Op) []kv.Op {
	grants := 0
	for i := range ops {
		if ops[i].Kind == kv.OpGrant {
			grants++
		}
		if grants > 1 {
			return ops[:i:i]
		}
	}
	return ops
}

// drawTxn draws a transaction that the store would take, often of a form that has
// a command of its own.
func drawTxn(t *rapid.T) *kv.Txn {
	var txn *kv.Txn
	switch op := drawOp(t); rapid.IntRange(0, 2).Draw(t, "form") {
	case 0:
		txn = &kv.Txn{Then: []kv.Op{op}}
	case 1:
		for op.Kind != kv.OpPut && op.Kind != kv.OpDelete {
			op = drawOp(t)
		}
		txn = protocol.GuardedTxn(drawCompare(t), op)
	default:
		txn = &kv.Txn{If: some(t, "if", drawCompare), Then: oneGrant(some(t, "then", drawOp)), Else: oneGrant(some(t, "else", drawOp))}
	}
	txn.Fences = some(t, "fences", func(t *rapid.T) kv.Fence {
		return kv.Fence{NS: drawName(t, "ns"), Key: drawName(t, "key"), Token: drawRevision(t, "token")}
	})
	if rapid.Bool().Draw(t, "tokened") {
		txn.Token, txn.TokenNS = drawName(t, "token"), drawName(t, "token ns")
		if len(txn.Then) > 0 && txn.Then[0].NS != "" && rapid.Bool().Draw(t, "same ns") {
			txn.TokenNS = txn.Then[0].NS
		}
	}
	require.NoError(t, txn.Check())
	return txn
}

// drawResult draws what txn may have done.
func drawResult(t *rapid.T, txn *kv.Txn) *kv.Result {
	res := &kv.Result{Revision: drawRevision(t, "rev"), Held: rapid.Bool().Draw(t, "held"), Replayed: rapid.Bool().Draw(t, "replayed")}
	ops := txn.Then
	if len(txn.If) == 0 {
		res.Held = true
	} else if !res.Held {
		ops = txn.Else
	}
	res.Ops = make([]kv.OpResult, len(ops))
	for i := range ops {
		res.Ops[i] = drawOpResult(t, &ops[i])
	}
	return res
}

func drawOpResult(t *rapid.T, op *kv.Op) (res kv.OpResult) {
	switch {
	case op.Kind == kv.OpGet:
		res.Entry = maybeEntry(t, op.NS, op.Key)
	case op.Kind.Sets():
		res.Entry = drawEntry(t, op.NS, op.Key)
		switch {
		case op.Seal: // the client does not know what is kept
			res.Entry.Value = kv.Value{}
		case op.Kind == kv.OpPut:
			res.Entry.Value = op.Value
		}
	case op.Kind.Has(kv.MemberTTL):
		res.Lease = kv.Lease{ID: kv.LeaseID(rapid.Int64Min(1).Draw(t, "id")), TTL: op.TTL}
	default:
		res.Count = rapid.Int64Min(0).Draw(t, "deleted")
		res.More = op.Kind.Has(kv.MemberPrefix) && rapid.Bool().Draw(t, "more")
	}
	if op.WantPrev {
		res.Prev = maybeEntry(t, op.NS, op.Key)
	}
	return res
}

// eachForm runs fn with and without octets behind the JSON.
func eachForm(t *testing.T, fn func(t *rapid.T, raw bool)) {
	for name, raw := range map[string]bool{"text": false, "octets": true} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { fn(t, raw) }) })
	}
}
