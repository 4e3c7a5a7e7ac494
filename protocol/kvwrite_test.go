package protocol_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Every transaction arrives as it was sent, by its own command and by KVTXN.
func TestWriteRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		txn := drawTxn(t)
		for _, cmd := range []protocol.Command{protocol.KVWriteCommand(txn), protocol.KVTxn} {
			body := protocol.AppendKVWrite(nil, cmd, txn, raw, !raw)
			w, err := parsed(t, body).KVWrite(cmd)
			require.NoError(t, err, "%s", body)
			require.Equal(t, !raw, w.Reveal)
			require.Equal(t, txn, w.Txn, "%s", body)
		}
	})
}

// So does every result.
func TestWriteResultRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		txn := drawTxn(t)
		want := drawResult(t, txn)
		for _, cmd := range []protocol.Command{protocol.KVWriteCommand(txn), protocol.KVTxn} {
			w, err := parsed(t, protocol.AppendKVWrite(nil, cmd, txn, raw, false)).KVWrite(cmd)
			require.NoError(t, err)
			body := w.AppendReply(nil, want)
			got, err := protocol.ParseKVResult(cmd, body, txn)
			require.NoError(t, err, "%s", body)
			require.Equal(t, want, got, "%s", body)
		}
	})
}

// The short forms are taken for what they say and for nothing else.
func TestWriteCommand(t *testing.T) {
	put := kv.Op{Kind: kv.OpPut, NS: "a", Key: "k", Value: kv.StringValue("v")}
	del := kv.Op{Kind: kv.OpDelete, NS: "a", Key: "k"}
	mod := kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: 7}
	value := kv.Compare{Target: kv.CompareValue, Relation: kv.Equal, Value: kv.StringValue("v")}
	less := kv.Compare{Target: kv.CompareMod, Relation: kv.Less, Number: 7}
	elsewhere := protocol.GuardedTxn(mod, put)
	elsewhere.Else[0].Key = "l"
	for name, c := range map[string]struct {
		txn  *kv.Txn
		want protocol.Command
	}{
		"put":              {&kv.Txn{Then: []kv.Op{put}}, protocol.KVPut},
		"two puts":         {&kv.Txn{Then: []kv.Op{put, put}}, protocol.KVTxn},
		"nothing":          {&kv.Txn{}, protocol.KVTxn},
		"a get":            {&kv.Txn{Then: []kv.Op{{Kind: kv.OpGet, NS: "a", Key: "k"}}}, protocol.KVTxn},
		"token":            {&kv.Txn{Then: []kv.Op{put}, Token: "t", TokenNS: "a"}, protocol.KVPut},
		"token elsewhere":  {&kv.Txn{Then: []kv.Op{put}, Token: "t", TokenNS: "b"}, protocol.KVTxn},
		"lease with token": {&kv.Txn{Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Second}}, Token: "t", TokenNS: "b"}, protocol.KVLease},
		"if_mod":           {protocol.GuardedTxn(mod, put), protocol.KVPut},
		"del if_mod":       {protocol.GuardedTxn(mod, del), protocol.KVDel},
		"cas":              {protocol.GuardedTxn(value, put), protocol.KVCas},
		"cas of absence":   {protocol.GuardedTxn(kv.Absent("", ""), put), protocol.KVCas},
		"del if value":     {protocol.GuardedTxn(value, del), protocol.KVTxn},
		"less":             {protocol.GuardedTxn(less, put), protocol.KVTxn},
		"reads elsewhere":  {elsewhere, protocol.KVTxn},
		"else but no if":   {&kv.Txn{Then: []kv.Op{put}, Else: []kv.Op{del}}, protocol.KVTxn},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, protocol.KVWriteCommand(c.txn))
		})
	}
}

// The value's JSON decides its type where nothing else does.
func TestValueTypes(t *testing.T) {
	for body, want := range map[string]kv.Value{
		`"value":"text"`:                     kv.StringValue("text"),
		`"value":"a\u0000\n\"b"`:             kv.StringValue("a\x00\n\"b"),
		`"value":""`:                         kv.StringValue(""),
		`"value":-5`:                         kv.IntValue(-5),
		`"value":1.50`:                       {Type: kv.Double, Data: []byte("1.50")},
		`"value":1e3`:                        {Type: kv.Double, Data: []byte("1e3")},
		`"value":true`:                       kv.BoolValue(true),
		`"value":null`:                       kv.JSONValue([]byte("null")),
		`"value":{"a" : 1}`:                  kv.JSONValue([]byte(`{"a" : 1}`)),
		`"value":[]`:                         kv.JSONValue([]byte(`[]`)),
		`"type":"int","value":"007"`:         {Type: kv.Int, Data: []byte("007")},
		`"type":"int","value":7`:             kv.IntValue(7),
		`"type":"double","value":7`:          {Type: kv.Double, Data: []byte("7")},
		`"type":"double","value":"-nan"`:     {Type: kv.Double, Data: []byte("-nan")},
		`"type":"bool","value":"false"`:      kv.BoolValue(false),
		`"type":"json","value":"text"`:       kv.JSONValue([]byte(`"text"`)),
		`"type":"json","value":7`:            kv.JSONValue([]byte(`7`)),
		`"type":null,"value":"text"`:         kv.StringValue("text"),
		`"type":"bytes","value":"AP8="`:      kv.BytesValue([]byte{0, 255}),
		`"type":"bytes","value":""`:          kv.BytesValue([]byte{}),
		`"type":"bytes","raw":0`:             kv.BytesValue([]byte{}),
		`"raw":"0"`:                          kv.BytesValue([]byte{}),
		`"value":"first","value":"second"`:   kv.StringValue("first"),
		`"value":"\ud83d\ude00","VALUE":"x"`: kv.StringValue("😀"),
	} {
		w, err := parsed(t, []byte(`{"ns":"a","key":"k",`+body+`}`)).KVWrite(protocol.KVPut)
		require.NoError(t, err, body)
		require.NoError(t, w.Txn.Check(), body)
		require.Equal(t, want, w.Txn.Then[0].Value, body)
	}
}

// A value to compare with that is written as a string has no type of its own.
func TestExpectedTypes(t *testing.T) {
	for body, want := range map[string]kv.Value{
		`{"value":"5"}`:                 {Data: []byte("5")},
		`{"value":5}`:                   kv.IntValue(5),
		`{"type":"string","value":"5"}`: kv.StringValue("5"),
		`{"value":{}}`:                  kv.JSONValue([]byte("{}")),
	} {
		w, err := parsed(t, []byte(`{"ns":"a","key":"k","value":"v","expect":`+body+`}`)).KVWrite(protocol.KVCas)
		require.NoError(t, err, body)
		require.Equal(t, want, w.Txn.If[0].Value, body)
	}
}

// Octets belong to the values in the order in which those stand in the JSON.
func TestOctetsInOrder(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"ns":"a","key":"k","raw":2,"expect":{"raw":3}}nnold`: {"old", "nn"},
		`{"ns":"a","key":"k","expect":{"raw":3},"raw":2}oldnn`: {"old", "nn"},
		`{"ns":"a","key":"k","expect":{"raw":0},"raw":2}nn`:    {"", "nn"},
	} {
		w, err := parsed(t, []byte(body)).KVWrite(protocol.KVCas)
		require.NoError(t, err, body)
		require.Equal(t, want, [2]string{string(w.Txn.If[0].Value.Data), string(w.Txn.Then[0].Value.Data)}, body)
	}
	w, err := parsed(t, []byte(`{"ns":"a","else":[{"op":"put","key":"e","raw":1}],"then":[{"op":"put","key":"t","raw":2},{"op":"put","key":"u","value":"x"},`+
		`{"op":"put","key":"v","raw":1}],"if":[{"key":"k","target":"value","raw":3}]}ettviii`)).KVWrite(protocol.KVTxn)
	require.NoError(t, err)
	require.Equal(t, "e", string(w.Txn.Else[0].Value.Data))
	require.Equal(t, "tt", string(w.Txn.Then[0].Value.Data))
	require.Equal(t, "v", string(w.Txn.Then[2].Value.Data))
	require.Equal(t, "iii", string(w.Txn.If[0].Value.Data))
}

func TestWriteRefusals(t *testing.T) {
	const deep = kv.MaxDepth + 1
	many := func(part string, n int) string { return `[` + strings.Repeat(part+",", n-1) + part + `]` }
	for _, c := range []struct {
		cmd  protocol.Command
		body string
		code codes.Code
		text string
	}{
		{protocol.KVPut, `{"key":"k","value":"v"}`, codes.BadKey, "namespace is empty"},
		{protocol.KVPut, `{"ns":"a","value":"v"}`, codes.BadKey, "key is empty"},
		{protocol.KVPut, `{"ns":"a","key":"k"}`, codes.BadRequest, "value is missing"},
		{protocol.KVPut, `{"ns":"a","key":7,"value":"v"}`, codes.BadRequest, `"key" is not a string`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","ttl":"soon"}`, codes.BadRequest, `"ttl" is not an integer`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","ttl":1.5}`, codes.BadRequest, `"ttl" is not an integer`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","ttl":-1}`, codes.BadTTL, "ttl of -1 ms"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","ttl":9223372036854775807}`, codes.BadTTL, "ttl of 9223372036854775807 ms"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","ttl":1,"expires":1}`, codes.BadTTL, "exclude"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","if_mod":-1}`, codes.BadRequest, `"if_mod" is not 0 or more`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","if_mod":true}`, codes.BadRequest, `"if_mod"`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","lease":-1}`, codes.BadRequest, `"lease"`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","token":["t"]}`, codes.BadRequest, `"token"`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","if_fence":7}`, codes.BadRequest, `"if_fence" is not an array`},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","if_fence":{"key":"l"}}`, codes.BadRequest, "if_fence has no member fence"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v","if_fence":` + many(`{"key":"l","fence":1}`, kv.MaxCompares+1) + `}`, codes.TooManyOps, "if_fence has more"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"float","value":"1"}`, codes.BadType, `type "float" is unknown`},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"int","value":"x"}`, codes.BadValue, "is not of type int"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"int","value":1.5}`, codes.BadValue, ""},
		{protocol.KVPut, `{"ns":"a","key":"k","value":9223372036854775808}`, codes.BadValue, "outside the range"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"int","value":true}`, codes.BadValue, "JSON bool"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"string","value":5}`, codes.BadValue, "JSON number"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"string","value":null}`, codes.BadValue, "JSON null"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"bytes","value":"A?=="}`, codes.BadValue, "not base64"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"bytes","value":"AB=="}`, codes.BadValue, "not base64"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"bytes","value":"` + strings.Repeat("A", 4<<20/3) + `"}`, codes.BadValue, "not base64"},
		{protocol.KVPut, `{"ns":"a","key":"k","type":"bytes","value":"` + strings.Repeat("AAAA", 700_000/2) + `"}`, codes.TooLarge, "limit is 1048576"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"` + strings.Repeat("v", kv.MaxValue+1) + `"}`, codes.TooLarge, "limit is 1048576"},
		{protocol.KVPut, "{\"ns\":\"a\",\"key\":\"k\",\"value\":\"\xff\"}", codes.BadValue, "not UTF-8"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, codes.BadValue, "deeper than 500"},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":4}abc`, codes.BadRequest, "raw announces 4 octets where 3 follow"},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":2}abc`, codes.BadRequest, "1 octets follow"},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":-1}`, codes.BadRequest, "raw announces -1"},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":true}a`, codes.BadRequest, `"raw" is not an integer`},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":1,"value":"v"}a`, codes.BadRequest, "exclude"},
		{protocol.KVPut, `{"ns":"a","key":"k","raw":1,"type":"string"}a`, codes.BadRequest, "not string"},
		{protocol.KVPut, `{"ns":"a","key":"k","value":"v"}a`, codes.BadJSON, "offset 32: 1 octets follow the JSON"},
		{protocol.KVPut, `[]`, codes.BadRequest, "value is missing"},
		{protocol.KVDel, `{"ns":"a","key":"k"} {}`, codes.BadJSON, "octets follow"},
		{protocol.KVDelPrefix, `{"ns":"a"}`, codes.BadRequest, "prefix is missing"},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":"p","limit":-1}`, codes.BadRequest, `"limit"`},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":""}`, codes.Unconfirmed, `all keys of namespace "a" must be confirmed`},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":"","limit":1,"confirm":""}`, codes.Unconfirmed, "all keys"},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":null,"confirm":"a"}`, codes.BadRequest, "prefix is missing"},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":"p","confirm":"b"}`, codes.Unconfirmed, `confirm is "b", but the keys to delete are in namespace "a"`},
		{protocol.KVDelPrefix, `{"ns":"a","prefix":"","confirm":true}`, codes.BadRequest, `"confirm" is not a string`},
		{protocol.KVDrop, `{}`, codes.BadKey, "namespace is empty"},
		{protocol.KVDrop, `{"confirm":""}`, codes.BadKey, "namespace is empty"},
		{protocol.KVDrop, `{"ns":"a"}`, codes.Unconfirmed, "all keys"},
		{protocol.KVDrop, `{"ns":"a","confirm":"A"}`, codes.Unconfirmed, `confirm is "A"`},
		{protocol.KVDrop, `{"ns":"a","confirm":"` + strings.Repeat("a", 1<<20) + `"}`, codes.Unconfirmed, `confirm is "aaaa`},
		{protocol.KVDrop, `{"ns":"a","Confirm":"a"}`, codes.Unconfirmed, "all keys"},
		{protocol.KVTxn, `{"ns":"a","confirm":"a","then":[{"op":"delete_prefix","prefix":""}]}`, codes.Unconfirmed, "all keys"},
		{protocol.KVTxn, `{"ns":"a","then":[{"op":"delete_prefix","ns":"b","prefix":"","confirm":"a"}]}`, codes.Unconfirmed, `in namespace "b"`},
		{protocol.KVTxn, `{"ns":"a","else":[{"op":"get","key":"k"},{"op":"delete_prefix","prefix":""}]}`, codes.Unconfirmed, "operation 1: "},
		{protocol.KVCas, `{"ns":"a","key":"k","value":"v"}`, codes.BadRequest, "expect is missing"},
		{protocol.KVCas, `{"ns":"a","key":"k","value":"v","expect":"old"}`, codes.BadRequest, `"expect" is not an object`},
		{protocol.KVCas, `{"ns":"a","key":"k","value":"v","expect":{}}`, codes.BadRequest, "value is missing"},
		{protocol.KVIncr, `{"ns":"a","key":"k","by":"1.5"}`, codes.BadRequest, `"by"`},
		{protocol.KVIncr, `{"ns":"a","key":"k","by":9223372036854775808}`, codes.BadRequest, `"by"`},
		{protocol.KVIncr, `{"ns":"a","key":"k","min":2,"max":1}`, codes.BadRequest, "min 2 is above max 1"},
		{protocol.KVLease, `{}`, codes.BadTTL, "the limits are 100ms"},
		{protocol.KVLease, `{"ttl":1000,"token":"t"}`, codes.BadKey, "namespace is empty"},
		{protocol.KVRevoke, `{}`, codes.BadRequest, "lease is missing"},
		{protocol.KVTxn, `{"ns":"a","then":{}}`, codes.BadRequest, `"then" is not an array`},
		{protocol.KVTxn, `{"ns":"a","then":[{"key":"k"}]}`, codes.BadOp, `then 0: there is no operation ""`},
		{protocol.KVTxn, `{"ns":"a","then":[1]}`, codes.BadOp, "then 0: "},
		{protocol.KVTxn, `{"ns":"a","then":[{"op":"get","key":"k"},{"op":"put","key":"k"}]}`, codes.BadRequest, "then 1: member value is missing"},
		{protocol.KVTxn, `{"ns":"a","if":[{"key":"k","target":"size"}]}`, codes.BadRequest, `if 0: member "target"`},
		{protocol.KVTxn, `{"ns":"a","if":[{"key":"k","target":"mod"}]}`, codes.BadRequest, `if 0: member "number"`},
		{protocol.KVTxn, `{"ns":"a","if":[{"key":"k","target":"mod","op":"==","number":1}]}`, codes.BadRequest, `if 0: member "op"`},
		{protocol.KVTxn, `{"then":[{"op":"get","key":"k"}]}`, codes.BadKey, "namespace is empty"},
		{protocol.KVTxn, `{"ns":"a","then":` + many(`{"op":"get","key":"k"}`, kv.MaxOps+1) + `}`, codes.TooManyOps, "then has more elements than the limit of 4096"},
		{protocol.KVTxn, `{"ns":"a","else":` + many(`0`, kv.MaxOps+1) + `}`, codes.TooManyOps, "else has more elements than the limit of 4096"},
		{protocol.KVTxn, `{"ns":"a","if":` + many(`{"key":"k","target":"mod","number":1}`, kv.MaxCompares+1) + `}`, codes.TooManyOps, "limit of 256"},
		{protocol.KVGet, `{}`, codes.BadOp, "KVGET"},
	} {
		t.Run(fmt.Sprintf("%v %.60s", c.cmd, c.body), func(t *testing.T) {
			w, err := parsed(t, []byte(c.body)).KVWrite(c.cmd)
			if err == nil {
				err = w.Txn.Check()
			}
			require.ErrorContains(t, err, c.text)
			require.Equal(t, c.code, codes.Of(err), "%v", err)
			require.Less(t, len(err.Error()), 300)
		})
	}
}

// What may be sent at most is taken.
func TestWriteLimitsAreReached(t *testing.T) {
	ops := make([]kv.Op, kv.MaxOps)
	for i := range ops {
		ops[i] = kv.Op{Kind: kv.OpDelete, NS: "a", Key: "k"}
	}
	compares := make([]kv.Compare, kv.MaxCompares)
	for i := range compares {
		compares[i] = kv.Absent("a", "k")
	}
	depth := strings.Repeat("[", kv.MaxDepth) + strings.Repeat("]", kv.MaxDepth)
	for _, txn := range []*kv.Txn{
		{Then: ops, Else: ops}, {If: compares, Then: ops[:1]},
		kv.PutTxn("a", "k", kv.BytesValue(make([]byte, kv.MaxValue))), kv.PutTxn("a", "k", kv.JSONValue([]byte(depth))),
	} {
		require.NoError(t, txn.Check())
		cmd := protocol.KVWriteCommand(txn)
		for _, raw := range []bool{false, true} {
			w, err := parsed(t, protocol.AppendKVWrite(nil, cmd, txn, raw, false)).KVWrite(cmd)
			require.NoError(t, err)
			require.Equal(t, txn, w.Txn)
		}
	}
}

// A json value as deep as may be can be read in every reply that has it.
func TestDeepValuesComeBack(t *testing.T) {
	depth := strings.Repeat("[", kv.MaxDepth) + strings.Repeat("]", kv.MaxDepth)
	e := &kv.Entry{NS: "a", Key: "k", Value: kv.JSONValue([]byte(depth)), Create: 1, Mod: 1, Version: 1}
	ev, err := protocol.ParseKVEvents(protocol.AppendKVEvents(nil, protocol.KVEvents{Watch: 1, Revision: 1, Events: []kv.Event{{Kind: kv.Put, Entry: e, Prev: e}}}, true, false))
	require.NoError(t, err)
	require.Equal(t, e, ev.Events[0].Prev)
	txn := &kv.Txn{Then: []kv.Op{{Kind: kv.OpDelete, NS: "a", Key: "k", WantPrev: true}}}
	w, err := parsed(t, protocol.AppendKVWrite(nil, protocol.KVTxn, txn, false, false)).KVWrite(protocol.KVTxn)
	require.NoError(t, err)
	res, err := protocol.ParseKVResult(protocol.KVTxn, w.AppendReply(nil, &kv.Result{Held: true, Revision: 1, Ops: []kv.OpResult{{Count: 1, Prev: e}}}), txn)
	require.NoError(t, err)
	require.Equal(t, e, res.Ops[0].Prev)
}

// Nothing that a write keeps is part of the body: loops read into the same memory
// again.
func TestWriteKeepsNothingOfTheBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		txn := drawTxn(t)
		cmd := protocol.KVWriteCommand(txn)
		body := protocol.AppendKVWrite(nil, cmd, txn, true, false)
		w, err := parsed(t, body).KVWrite(cmd)
		require.NoError(t, err)
		for i := range body {
			body[i] = 'X'
		}
		require.Equal(t, txn, w.Txn)
	})
}

// A Request that is used again remembers nothing of the body before.
func TestRequestIsUsedAgain(t *testing.T) {
	var r protocol.Request
	require.NoError(t, r.ParseTailed([]byte(`{"ns":"a","key":"k","raw":3}abc`)))
	require.Equal(t, "abc", string(r.Tail()))
	require.NoError(t, r.Parse([]byte(`{"ns":"b","key":"k"}`)))
	require.Empty(t, r.Tail())
	q, err := r.KVGet()
	require.NoError(t, err)
	require.Equal(t, "b", string(q.NS))
	require.Error(t, r.ParseTailed([]byte(`{"ns":"a"`)))
	require.Empty(t, r.Members())
	require.False(t, r.IsObject())
}

func TestRestoreRoundTrip(t *testing.T) {
	eachForm(t, func(t *rapid.T, raw bool) {
		op := drawOp(t)
		for op.Kind != kv.OpPut {
			op = drawOp(t)
		}
		op.Seal = false
		txn, rev := &kv.Txn{Then: []kv.Op{op}}, drawRevision(t, "rev")
		if rapid.Bool().Draw(t, "conditional") {
			txn = protocol.GuardedTxn(kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: int64(drawRevision(t, "if_mod"))}, op)
		}
		if rapid.Bool().Draw(t, "tokened") {
			txn.Token, txn.TokenNS = "t", op.NS
		}
		q, err := parsed(t, protocol.AppendKVRestore(nil, txn, rev, raw, !raw)).KVRestore()
		require.NoError(t, err)
		require.Equal(t, []any{rev, op.NS, op.Key}, []any{q.Rev, q.NS, q.Key})
		w := q.Write(op.Value)
		require.Equal(t, txn, w.Txn)
		require.Equal(t, !raw, w.Reveal)
		want := drawResult(t, txn)
		got, err := protocol.ParseKVResult(protocol.KVRestore, w.AppendReply(nil, want), txn)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	_, err := parsed(t, []byte(`{"ns":"a","key":"k"}`)).KVRestore()
	require.Equal(t, codes.BadRequest, codes.Of(err))
	_, err = parsed(t, []byte(`{"ns":"a","key":"","rev":1}`)).KVRestore()
	require.Equal(t, codes.BadKey, codes.Of(err))
}

// A refusal is told apart from a condition that did not hold.
func TestParseResultRefused(t *testing.T) {
	txn := kv.PutTxn("a", "k", kv.StringValue("v"))
	guarded := protocol.GuardedTxn(kv.Absent("", ""), txn.Then[0])
	for body, code := range map[string]int32{
		`{"code":412,"desc":"without current"}`:       412,
		`{"code":1020,"desc":"lost","current":null}`:  1020,
		`{"code":503,"desc":"busy","rev":3,"mod":3}`:  503,
		`{"code":-1,"rev":3,"current":null,"desc":1}`: -1,
	} {
		for _, txn := range []*kv.Txn{txn, guarded} {
			_, err := protocol.ParseKVResult(protocol.KVCas, []byte(body), txn)
			var refused *protocol.RefusedError
			require.ErrorAs(t, err, &refused, body)
			require.Equal(t, code, refused.Result.Code)
		}
	}
	for _, body := range []string{`{"code":0}`, `{"code":0,"rev":1,"mod":1}`, `{"code":0,"rev":"x","mod":1,"version":1}`, `{}`, `[]`, ``, `{"code":0,"rev":1}x`} {
		_, err := protocol.ParseKVResult(protocol.KVPut, []byte(body), txn)
		require.Error(t, err, body)
		var refused *protocol.RefusedError
		require.False(t, errors.As(err, &refused), body)
	}
}

// FuzzKVWrite reads any bytes as each of the writes. What is taken is sent again
// and comes out the same.
func FuzzKVWrite(f *testing.F) {
	for _, s := range []string{
		string(putBody), `{"ns":"a","key":"k","raw":3,"if_mod":"7","if_fence":[{"ns":"b","key":"l","fence":9}],"token":"t"}abc`,
		`{"ns":"a","key":"k","expect":{"raw":1},"raw":2,"ttl":1}abc`, `{"ns":"a","key":"k","expect":null,"value":[1]}`,
		`{"ns":"a","key":"k","by":-1,"min":"0","max":9,"prev":1}`, `{"ttl":1000}`, `{"lease":7}`, `{"ns":"a","prefix":"","limit":3}`,
		`{"ns":"a","if":[{"key":"k","target":"value","op":"<","value":5}],"then":[{"op":"put","key":"k","raw":1}],"else":[{"op":"get","key":"k"}]}x`,
		"{\"ns\":\"a\",\"key\":\"\\u00e9\"}\x00{", `[]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, row := range protocol.Commands {
			cmd := row.ID
			if !cmd.IsWrite() {
				continue
			}
			var r protocol.Request
			if r.ParseTailed(body) != nil {
				return
			}
			w, err := r.KVWrite(cmd)
			if err != nil {
				require.NotEqual(t, codes.Internal, codes.Of(err))
				continue
			}
			if w.Txn.Check() != nil {
				continue
			}
			again := protocol.KVWriteCommand(w.Txn)
			w2, err := parsed(t, protocol.AppendKVWrite(nil, again, w.Txn, true, false)).KVWrite(again)
			require.NoError(t, err)
			require.Equal(t, w.Txn, w2.Txn)
		}
		var r protocol.Request
		if r.ParseTailed(body) == nil {
			if q, err := r.KVRestore(); err == nil {
				_ = q.Write(kv.StringValue("v"))
			}
		}
	})
}

// FuzzParseKVResult reads any bytes as the reply to transactions of all forms.
func FuzzParseKVResult(f *testing.F) {
	for _, s := range []string{
		`{"code":0,"rev":9,"create":1,"mod":9,"version":2,"updated":3,"prev":{"type":"bytes","raw":3,"create":1,"mod":2,"version":1,"updated":3}}abc`,
		`{"code":412,"desc":"","rev":9,"current":null}`, `{"code":0,"rev":9,"held":1,"results":[null,{"deleted":1,"more":1}]}`, `{"code":0,"rev":1,"lease":1,"ttl":5}`,
	} {
		f.Add([]byte(s))
	}
	put := kv.Op{Kind: kv.OpPut, NS: "a", Key: "k", Value: kv.StringValue("v"), WantPrev: true}
	get := kv.Op{Kind: kv.OpGet, NS: "a", Key: "k"}
	txns := []*kv.Txn{
		{Then: []kv.Op{put}}, protocol.GuardedTxn(kv.Absent("", ""), put), {Then: []kv.Op{get, {Kind: kv.OpDeletePrefix, NS: "a", Confirm: "a"}}},
		{Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Second}}}, {Then: []kv.Op{{Kind: kv.OpIncr, NS: "a", Key: "k"}}},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, txn := range txns {
			for _, cmd := range []protocol.Command{protocol.KVWriteCommand(txn), protocol.KVTxn} {
				if res, err := protocol.ParseKVResult(cmd, body, txn); err == nil {
					require.LessOrEqual(t, len(res.Ops), 2)
				}
			}
		}
	})
}
