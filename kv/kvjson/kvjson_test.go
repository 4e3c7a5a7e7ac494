package kvjson_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// readTxn reads text as a transaction in a dialect.
func readTxn(t require.TestingT, d kvjson.Dialect, text string) (*kv.Txn, error) {
	members, _, end, err := jsontext.ScanPrefix(nil, []byte(text))
	require.NoError(t, err, "%s", text)
	var r kvjson.Reader
	var scratch kvjson.Scratch
	var txn kv.Txn
	r.Begin(d, members, &scratch)
	r.Follow([]byte(text)[end:], end)
	r.Txn("", &txn)
	return &txn, r.End()
}

// put is a transaction of one put with these members besides.
func put(members string) string {
	return `{"then":[{"op":"put","ns":"n","key":"k","value":"v"` + members + `}]}`
}

// What is the same in all dialects is not here: the wire's tests have it.
func TestDialectsDiffer(t *testing.T) {
	const fine = codes.Code(0)
	for _, c := range []struct {
		text                   string
		wire, file, txn, named codes.Code
	}{
		{put(``), fine, fine, fine, fine},
		{put(`,"ttl":5000`), fine, fine, fine, codes.BadRequest},
		{put(`,"ttl":null`), fine, fine, fine, codes.BadRequest},
		{put(`,"expires":5000`), fine, fine, fine, codes.BadRequest},
		{put(`,"ttl_ms":5000,"expires_ms":0`), fine, fine, fine, fine},
		{put(`,"ttl_ms":5000,"ttl":"5000"`), fine, fine, fine, codes.BadRequest},
		{put(`,"ttl_ms":5000,"ttl":5`), fine, codes.BadTTL, codes.BadTTL, codes.BadRequest},
		{put(`,"expires_ms":1,"expires":2`), fine, codes.BadTTL, codes.BadTTL, codes.BadRequest},
		{put(`,"ttl_ms":-1`), fine, codes.BadTTL, codes.BadTTL, codes.BadTTL},
		{put(`,"by":1`), fine, fine, codes.BadRequest, codes.BadRequest},
		{put(`,"watch":1`), fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{put(`,"valeu":1`), fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{put(`,"Prev":1`), fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{put(`,"prev":"1"`), fine, fine, codes.BadRequest, codes.BadRequest},
		{put(`,"prev":"yes"`), fine, fine, codes.BadRequest, codes.BadRequest},
		{put(`,"prev":true`), fine, fine, fine, fine},
		{put(`,"type":""`), codes.BadType, fine, fine, fine},
		{`{"then":[{"op":"put","ns":"n","key":"k","raw":1}]}x`, fine, fine, codes.BadRequest, codes.BadRequest},
		{`{"then":[{"op":"revoke","lease":-1}]}`, fine, fine, codes.BadRequest, codes.BadRequest},
		{`{"ns":"n","if":[{"key":"k","target":"mod","op":"","number":1}]}`, codes.BadRequest, fine, fine, fine},
		{`{"ns":"n","if":[{"key":"k","target":"mod","number":1,"value":1}]}`, fine, fine, codes.BadRequest, codes.BadRequest},
		{`{"ns":"n","if":[{"key":"k","target":"mod","number":1,"by":1}]}`, fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{`{"if_fence":{"ns":"n","key":"k","fence":1,"token":1}}`, fine, fine, codes.BadRequest, codes.BadRequest},
		{`{"if_fence":[{"ns":"n","key":"k","fence":1,"token":1}]}`, fine, fine, codes.BadRequest, codes.BadRequest},
		{`{"thn":[]}`, fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{`{"Then":[]}`, fine, codes.BadRequest, codes.BadRequest, codes.BadRequest},
		{`{"then":[1]}`, codes.BadOp, codes.BadOp, codes.BadRequest, codes.BadRequest},
	} {
		for d, want := range []codes.Code{c.wire, c.file, c.txn, c.named} {
			_, err := readTxn(t, kvjson.Dialect(d), c.text)
			if want == fine {
				require.NoError(t, err, "dialect %d: %s", d, c.text)
			} else {
				require.ErrorIs(t, err, want, "dialect %d: %s", d, c.text)
			}
		}
	}
}

func TestTimesHaveTwoNames(t *testing.T) {
	for _, text := range []string{put(`,"ttl":5000`), put(`,"ttl_ms":5000`), put(`,"ttl":5000,"ttl_ms":"5000"`)} {
		for _, d := range []kvjson.Dialect{kvjson.File, kvjson.HTTPTxn} {
			txn, err := readTxn(t, d, text)
			require.NoError(t, err)
			require.Equal(t, 5*time.Second, txn.Then[0].TTL, text)
		}
	}
	txn, err := readTxn(t, kvjson.Wire, put(`,"ttl":5000,"ttl_ms":1`))
	require.NoError(t, err)
	require.Equal(t, 5*time.Second, txn.Then[0].TTL, "PROTOCOL.md knows no ttl_ms")
}

func TestFaultsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"then":[{"op":"get","ns":"n","key":"k"},{"op":"put","ns":"n","key":"k","value":1,"ttl":5,"ttl_ms":6}]}`: `then 1: ttl and ttl_ms differ: give one of them, in milliseconds`,
		`{"if":[{"ns":"n","key":"k","target":"size"}]}`:                                                           `if 0: member "target" is not value, version, create or mod`,
		put(`,"valeu":1`):                     `then 0: member "valeu" is not known here`,
		`{"if_fence":[{"ns":"n","key":"k"}]}`: `if_fence 0: if_fence has no member fence: give the token of the lock`,
	} {
		_, err := readTxn(t, kvjson.HTTPTxn, text)
		require.EqualError(t, err, want)
	}
}

func TestEntriesInEachDialect(t *testing.T) {
	entry := &kv.Entry{NS: "n", Key: "k", Value: kv.IntValue(7), Create: 1, Mod: 3, Version: 2, Updated: 5, Expires: 6, Lease: 4}
	doc := &kv.Entry{NS: "n", Key: "k", Value: kv.JSONValue([]byte("[ 1.50,\n2 ]")), Create: 1, Mod: 1, Version: 1, Updated: 5}
	gone := &kv.Entry{NS: "n", Key: "k", Mod: 3, Updated: 5}
	for _, c := range []struct {
		dialect kvjson.Dialect
		entry   *kv.Entry
		want    string
	}{
		{kvjson.Wire, entry, `{"key":"k","type":"int","value":"7","create":1,"mod":3,"version":2,"updated":5,"expires":6,"lease":4}`},
		{kvjson.File, entry, `{"ns":"n","key":"k","type":"int","value":7,"create":1,"mod":3,"version":2,"updated":5,"expires":6,"lease":4}`},
		{kvjson.HTTP, entry, `{"ns":"n","key":"k","type":"int","value":"7","size":1,"create":1,"mod":3,"version":2,"updated_ms":5,"expires_ms":6,"lease":4}`},
		{kvjson.Wire, doc, `{"key":"k","type":"json","value":[ 1.50,` + "\n" + `2 ],"create":1,"mod":1,"version":1,"updated":5}`},
		{kvjson.File, doc, `{"ns":"n","key":"k","type":"json","value":[1.50,2],"create":1,"mod":1,"version":1,"updated":5}`},
		{kvjson.HTTP, doc, `{"ns":"n","key":"k","type":"json","value":[ 1.50,` + "\n" + `2 ],"size":11,"create":1,"mod":1,"version":1,"updated_ms":5}`},
		{kvjson.Wire, gone, `{"key":"k","deleted":1,"mod":3,"updated":5}`},
		{kvjson.File, gone, `{"ns":"n","key":"k","deleted":true,"create":0,"mod":3,"version":0,"updated":5}`},
		{kvjson.HTTP, gone, `{"ns":"n","key":"k","deleted":true,"mod":3,"updated_ms":5}`},
		{kvjson.HTTP, nil, `null`},
	} {
		w := kvjson.Writer{Buf: []byte("["), Dialect: c.dialect}
		w.Listed(c.entry, true)
		require.Equal(t, c.want, string(w.Buf[1:]))
	}
	w := kvjson.Writer{Buf: []byte("["), Dialect: kvjson.HTTP, OneLine: true}
	w.Listed(doc, true)
	require.Contains(t, string(w.Buf), `[1.50,2]`)
	w.Listed(entry, false)
	require.NotContains(t, string(w.Buf), `"7"`)
}

// FuzzTxn reads any text as a transaction in all dialects: what a stricter one takes,
// the wire takes too, and it means the same.
func FuzzTxn(f *testing.F) {
	for _, text := range []string{
		put(`,"ttl":5000,"prev":true`), put(`,"ttl_ms":"5000"`), `{"ns":"n","if":[{"key":"k","target":"value","op":"<","type":"int","value":5}],"else":[{"op":"incr","key":"k","by":2,"min":0}]}`,
		`{"then":[{"op":"put","ns":"n","key":"k","raw":1}]}x`, `{"ns":"n","then":[{"op":"delete_prefix","prefix":""},{"op":"grant","ttl":1000}],"token":"t","if_fence":[{"key":"l","fence":1}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, kind, _, err := jsontext.ScanPrefix(nil, []byte(text)); err != nil || kind != jsontext.Object {
			return
		}
		wire, wireErr := readTxn(t, kvjson.Wire, text)
		require.NotEqual(t, codes.Internal, codes.Of(wireErr))
		for _, d := range []kvjson.Dialect{kvjson.File, kvjson.HTTPTxn, kvjson.HTTP} {
			txn, err := readTxn(t, d, text)
			switch {
			case err != nil:
				require.NotEqual(t, codes.Internal, codes.Of(err))
			case strings.Contains(text, "_ms") || strings.Contains(text, `""`) || strings.Contains(text, `\u`):
			default:
				require.NoError(t, wireErr)
				require.Equal(t, wire, txn)
			}
		}
	})
}

// Unknown members take memory, too.
func TestObjectsInMessagesHaveSoManyMembers(t *testing.T) {
	for _, d := range []kvjson.Dialect{kvjson.Wire, kvjson.HTTP} {
		var r kvjson.Reader
		var nested kvjson.Scratch
		var o kvjson.Object
		r.Begin(d, nil, &nested)
		r.Enter(0, []byte("{"+strings.Repeat(`"":0,`, jsontext.MaxMembers)+`"key":"k"}`), &o)
		require.ErrorIs(t, r.End(), codes.BadRequest)
		require.Less(t, cap(nested[0]), 2*jsontext.MaxMembers)
	}
}
