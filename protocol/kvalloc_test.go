package protocol_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kv"
	"confcenter/protocol"
)

var (
	getBody = []byte(`{"ns":"shop","key":"cart/4711/items/0000000001"}`)
	putBody = protocol.AppendKVWrite(nil, protocol.KVPut, kv.PutTxn("shop", "cart/4711/items/0000000001", kv.StringValue(strings.Repeat("v", 256))), false, false)
)

// found is an entry whose KVGET reply has about 280 bytes.
var found = &kv.Entry{
	NS: "shop", Key: "cart/4711/items/0000000001", Value: kv.StringValue(strings.Repeat("v", 160)),
	Create: 1_000_001, Mod: 1_000_017, Version: 17, Updated: 1_700_000_000_123, Expires: 1_700_000_060_123,
}

// A read allocates nothing from body to reply.
func TestGetDoesNotAllocate(t *testing.T) {
	octets := *found
	octets.Value = kv.BytesValue([]byte{0, 1, 2})
	out := make([]byte, 0, 4096)
	var r protocol.Request
	for name, c := range map[string]struct {
		body string
		e    *kv.Entry
	}{
		"a string":         {string(getBody), found},
		"base64":           {string(getBody), &octets},
		"octets":           {`{"ns":"shop","key":"k","raw":1}`, &octets},
		"absent":           {`{"ns":"shop","key":"k"}`, nil},
		"letters":          {`{"ns":"магазин","key":"` + strings.Repeat("ключ", 20) + `","min_rev":"1"}`, found},
		"unknown members":  {`{"what":[1,2,3],"ns":"shop","key":"k"}`, found},
		"and a NUL behind": {string(getBody) + "\x00garbage", found},
	} {
		t.Run(name, func(t *testing.T) {
			body, fine := []byte(c.body), true
			require.Zero(t, testing.AllocsPerRun(100, func() {
				err := r.ParseTailed(body)
				q, err2 := r.KVGet()
				out = protocol.AppendKVGot(out[:0], 17, c.e, q.Raw)
				fine = fine && err == nil && err2 == nil && len(q.Key) > 0
			}))
			require.True(t, fine)
		})
	}
}

// A write allocates what the store keeps: the transaction, the names, the value.
func TestPutAllocatesWhatIsKept(t *testing.T) {
	var r protocol.Request
	out := make([]byte, 0, 4096)
	res := &kv.Result{Revision: 17, Held: true, Ops: []kv.OpResult{{Entry: found}}}
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"put":             {string(putBody), 3},
		"put octets":      {`{"ns":"a","key":"b","raw":3,"ttl":1000}abc`, 3},
		"put if_mod":      {`{"ns":"a","key":"b","value":"v2","if_mod":7}`, 3},
		"put with token":  {`{"ns":"a","key":"b","value":"v2","token":"t-1"}`, 4},
		"put with escape": {`{"ns":"a","key":"b","value":"line\nline"}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			body, fine := []byte(c.body), true
			require.EqualValues(t, c.want, testing.AllocsPerRun(100, func() {
				err := r.ParseTailed(body)
				w, err2 := r.KVWrite(protocol.KVPut)
				out = w.AppendReply(out[:0], res)
				fine = fine && err == nil && err2 == nil
			}))
			require.True(t, fine)
		})
	}
}

func BenchmarkKVGet(b *testing.B) {
	out := make([]byte, 0, 4096)
	var r protocol.Request
	b.ReportAllocs()
	for b.Loop() {
		_ = r.ParseTailed(getBody)
		q, _ := r.KVGet()
		out = protocol.AppendKVGot(out[:0], 1_000_042, found, q.Raw)
	}
	b.ReportMetric(float64(len(out)), "bytes/reply")
}

func BenchmarkKVPut(b *testing.B) {
	out := make([]byte, 0, 4096)
	res := &kv.Result{Revision: 17, Held: true, Ops: []kv.OpResult{{Entry: found}}}
	var r protocol.Request
	b.ReportAllocs()
	for b.Loop() {
		_ = r.ParseTailed(putBody)
		w, _ := r.KVWrite(protocol.KVPut)
		out = w.AppendReply(out[:0], res)
	}
}

func BenchmarkKVEvents(b *testing.B) {
	ev := protocol.KVEvents{Watch: 1, Revision: 17, Events: []kv.Event{{Kind: kv.Put, Entry: found}}}
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		out = protocol.AppendKVEvents(out[:0], ev, false, false)
	}
}
