package client

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
)

// Values come back as they were written, whatever is in them.
func TestKVValues(t *testing.T) {
	s, _, n := space(t)
	ctx := t.Context()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for key, v := range map[string]kv.Value{
		"string": kv.StringValue("a \"b\"\n\x00 日本 <&>"), "empty": kv.StringValue(""), "int": kv.IntValue(math.MinInt64),
		"double": kv.DoubleValue(0.1), "nan": kv.DoubleValue(math.NaN()), "text": {Type: kv.Double, Data: []byte("1.50e+02")}, "bool": kv.BoolValue(true),
		"bytes": kv.BytesValue(all), "no bytes": kv.BytesValue([]byte{}), "json": kv.JSONValue([]byte(`{"a": [1.0,  null]}`)),
		"k .*#/ 日": kv.IntValue(1),
	} {
		w, err := n.Put(ctx, key, v)
		require.NoError(t, err, key)
		require.Equal(t, v, w.Entry.Value)
		e, err := n.Get(ctx, key)
		require.NoError(t, err, key)
		require.True(t, v.Equal(e.Value), "%s: %q", key, e.Value.Data)
		require.Equal(t, []any{"n", key, w.Revision, w.Revision, int64(1), w.Entry.Updated}, []any{e.NS, e.Key, e.Create, e.Mod, e.Version, e.Updated})
	}
	require.Contains(t, s.requests(protocol.KVPut), `{"ns":"n","key":"bytes","type":"bytes","raw":256,"token":"`+n.c.tokens.prefix+tokenOf(t, s, "bytes")+`"}`+string(all), "no base64")
}

// tokenOf is the number of the token with which a key was put.
func tokenOf(t *testing.T, s *fakeServer, key string) string {
	for _, body := range s.requests(protocol.KVPut) {
		var r protocol.Request
		require.NoError(t, r.ParseTailed([]byte(body)))
		if string(r.Text("key")) == key {
			token := string(r.Text("token"))
			return token[len(token)-1:]
		}
	}
	require.FailNow(t, "not put")
	return ""
}

func TestKVTypedGetters(t *testing.T) {
	_, _, n := space(t)
	ctx := t.Context()
	put := func(_ Written, err error) { require.NoError(t, err) }
	put(n.PutString(ctx, "s", "x"))
	put(n.PutInt(ctx, "i", -7))
	put(n.PutDouble(ctx, "d", 2.5))
	put(n.PutBool(ctx, "b", true))
	put(n.PutBytes(ctx, "o", []byte{0, 1}))
	put(n.PutJSON(ctx, "j", map[string]any{"a": json.RawMessage(`1.0`)}))
	type J struct{ A json.Number }
	check := func(key string) (found []any, wrong int) {
		for _, get := range []func() (any, error){
			func() (any, error) { return n.GetString(ctx, key, "def") },
			func() (any, error) { return n.GetInt(ctx, key, 1) },
			func() (any, error) { return n.GetDouble(ctx, key, 1.5) },
			func() (any, error) { return n.GetBool(ctx, key, false) },
			func() (any, error) { return n.GetBytes(ctx, key, []byte("def")) },
			func() (any, error) { var j J; err := n.GetJSON(ctx, key, &j); return j.A.String(), err },
		} {
			v, err := get()
			if code := codes.Of(err); code == codes.WrongType || code == codes.NotFound {
				wrong++
			} else {
				require.NoError(t, err)
			}
			found = append(found, v)
		}
		return found, wrong
	}
	def := []any{"def", int64(1), 1.5, false, []byte("def"), ""}
	with := func(at int, v any) []any {
		list := append([]any{}, def...)
		list[at] = v
		return list
	}
	for key, want := range map[string]struct {
		values []any
		wrong  int
	}{
		"s": {with(0, "x"), 5}, "b": {with(3, true), 5}, "o": {with(4, []byte{0, 1}), 5}, "d": {with(2, 2.5), 5},
		"i": {[]any{"def", int64(-7), -7.0, false, []byte("def"), ""}, 4}, "j": {with(5, "1.0"), 5}, "absent": {def, 1},
	} {
		values, wrong := check(key)
		require.Equal(t, want.values, values, key)
		require.Equal(t, want.wrong, wrong, key)
	}
	var small struct{ A bool }
	require.ErrorIs(t, n.GetJSON(ctx, "j", &small), codes.BadRequest)
	_, err := n.Get(ctx, "absent")
	require.ErrorIs(t, err, codes.NotFound)
}

func TestKVPast(t *testing.T) {
	s := newFakeServer(t, nil)
	state := stateful(t, s, memory.Config{HistoryVersions: 3})
	n := dial(t, s).KV("n")
	ctx := t.Context()
	for i := 1; i <= 4; i++ {
		state.put(t, "k", i)
	}
	_, err := n.Delete(ctx, "k") // revision 5
	require.NoError(t, err)
	state.put(t, "k", 6)

	e, err := n.GetAt(ctx, "k", 4)
	require.NoError(t, err)
	require.Equal(t, "k=4@4", text(e))
	_, err = n.GetAt(ctx, "k", 5)
	require.ErrorIs(t, err, codes.NotFound)
	_, err = n.GetAt(ctx, "k", 1)
	require.ErrorIs(t, err, codes.Compacted)
	_, err = n.GetAt(ctx, "k", 99)
	require.ErrorIs(t, err, codes.FutureRevision)

	v, err := n.History(ctx, "k", 0, 2)
	require.NoError(t, err)
	require.True(t, v.More)
	require.Equal(t, []string{"k=6@6", "k@5"}, []string{text(v.Entries[0]), text(v.Entries[1])})
	v, err = n.History(ctx, "k", 5, 0)
	require.NoError(t, err)
	require.Equal(t, "k=4@4", text(v.Entries[0]))

	w, err := n.Restore(ctx, "k", 4, WithPrev())
	require.NoError(t, err)
	require.Equal(t, "k=6@6", text(w.Prev))
	require.Zero(t, w.Entry.Value, "which it was not told")
	got, err := n.GetInt(ctx, "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, 4, got)
	_, err = n.Restore(ctx, "k", 5)
	require.ErrorIs(t, err, codes.NotFound)
	stands, err := n.Restore(ctx, "k", 6, IfMod(6))
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, "k=4@7", text(stands.Entry))
	_, err = n.Restore(ctx, "k", 4)
	require.ErrorIs(t, err, codes.Compacted)
}

func TestKVLists(t *testing.T) {
	s, state, n := space(t)
	ctx := t.Context()
	want := []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7"} // the fake's pages have three
	for i, key := range want {
		state.put(t, key, i)
	}
	state.put(t, "b", 0)
	keys, err := n.Keys(ctx, "a/")
	require.NoError(t, err)
	require.Equal(t, want, keys)
	require.Len(t, s.requests(protocol.KVList), 3)
	count, err := n.Count(ctx, "a/")
	require.NoError(t, err)
	require.EqualValues(t, 7, count)
	var all []string
	for e, err := range n.All(ctx, "") {
		require.NoError(t, err)
		all = append(all, text(e))
	}
	require.Len(t, all, 8)
	require.Equal(t, "b=0@8", all[7])
	for e, err := range n.All(ctx, "") {
		require.NoError(t, err)
		require.Equal(t, "a/1", e.Key)
		break
	}
	page, err := n.List(ctx, kv.List{Prefix: "a/", After: "a/4", Limit: 2})
	require.NoError(t, err)
	require.True(t, page.More)
	require.Equal(t, []string{"a/5=4@5", "a/6=5@6"}, []string{text(page.Entries[0]), text(page.Entries[1])})
	require.EqualValues(t, 8, page.Revision)
	many, err := n.GetMany(ctx, "b", "nothing", "a/1", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"b=0@8", "-", "a/1=0@1", "b=0@8"}, []string{text(many[0]), text(many[1]), text(many[2]), text(many[3])})

	s.change(func(s *fakeServer) {
		pages := 0
		s.script = func(c *fakeConn, h protocol.Header, _ []byte) bool {
			if h.Command != protocol.KVList {
				return false
			}
			if pages++; pages == 2 {
				c.reply(h, protocol.AppendResult(nil, int(codes.Storage), "disk"))
				return true
			}
			return false
		}
	})
	seen, failed := 0, error(nil)
	for e, err := range n.All(ctx, "") {
		if failed = err; err == nil {
			require.NotNil(t, e)
			seen++
		}
	}
	require.Equal(t, 3, seen)
	require.ErrorIs(t, failed, codes.Storage)
}
