package playerjson_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
	"confcenter/player/playerjson"
)

// read begins to read an object.
func read(t require.TestingT, d kvjson.Dialect, text []byte) *kvjson.Reader {
	members, _, err := jsontext.ScanMessage(nil, text)
	require.NoError(t, err, "%s", text)
	r := new(kvjson.Reader)
	r.Begin(d, members, new(kvjson.Scratch))
	return r
}

func writer(d kvjson.Dialect) *kvjson.Writer { return &kvjson.Writer{Buf: []byte("{"), Dialect: d} }

// Any bytes under any names come back as they were, however they are written. Package
// protocol's tests do the same with all of its messages.
func TestFieldsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }))).Draw(t, "values")
		var fields []field.Field
		for name, value := range values {
			fields = append(fields, field.Field{Name: name, Value: value, Version: int64(len(fields))})
		}
		w := writer(kvjson.HTTP)
		playerjson.WriteFields(w, fields, false)
		text := w.End()
		require.LessOrEqual(t, len(text), 64+2*playerjson.SizeOf(fields))
		r := read(t, kvjson.HTTP, text)
		got := field.Write{Kind: field.Update}
		playerjson.ReadWrite(r, &got)
		require.NoError(t, r.End())
		require.Len(t, got.Fields, len(values))
		for _, f := range got.Fields {
			require.Equal(t, string(values[f.Name]), string(f.Value))
		}
	})
}

func TestOwnersHaveDefaults(t *testing.T) {
	for text, want := range map[string]field.Owner{
		`{"logicType":"player","ownerId":"7"}`:                                 {App: "1", Region: "1", Logic: "player", ID: "7"},
		`{"appId":"a","regionId":"r","logicType":"player","ownerId":"7"}`:      {App: "a", Region: "r", Logic: "player", ID: "7"},
		`{"appId":null,"regionId":"","logicType":"player","ownerId":"\u0000"}`: {App: "1", Region: "", Logic: "player", ID: "\x00"},
	} {
		r := read(t, kvjson.Wire, []byte(text))
		require.Equal(t, want, playerjson.ReadOwner(r, &r.Top), text)
		require.NoError(t, r.End())
	}
}

// Each dialect has its own names for revisions and for flags, and the wire leaves out what is
// the default.
func TestWrittenInEachDialect(t *testing.T) {
	out := field.Outcome{Revision: 5, Fields: []field.Field{{Name: "n", Value: []byte("8"), Version: 7}}, Replayed: true}
	refused := []field.ErrorRow{{Owner: field.Owner{App: "1", Region: "1", Logic: "player", ID: "7"}, Name: "n", List: "l", Revision: 5, Reason: "why", Attempts: 2, First: 3, Dropped: true}}
	for d, want := range map[kvjson.Dialect]string{
		kvjson.Wire: `{"rev":5,"values":{"n":8},"versions":{"n":7},"replayed":1,` +
			`"errors":[{"logicType":"player","ownerId":"7","name":"n","list":"l","rev":5,"reason":"why","attempts":2,"first":3,"next":0,"dropped":1}],"more":1}`,
		kvjson.HTTP: `{"revision":5,"values":{"n":8},"versions":{"n":7},"replayed":true,` +
			`"errors":[{"appId":"1","regionId":"1","logicType":"player","ownerId":"7","name":"n","list":"l","revision":5,"reason":"why","attempts":2,"first":3,"next":0,"dropped":true}],"more":true}`,
	} {
		w := writer(d)
		playerjson.WriteOutcome(w, field.Incr, &out, false)
		w.Struct(&field.ErrorPage{Errors: refused, More: true})
		require.Equal(t, want, string(w.End()))
	}
}

func TestWritesAreBounded(t *testing.T) {
	for _, member := range []string{"deltas", "expect"} {
		text := []byte(`{"` + member + `":{`)
		for range field.MaxFields {
			text = append(text, `"a":1,`...)
		}
		r := read(t, kvjson.HTTP, append(text, `"a":1}}`...))
		playerjson.ReadWrite(r, &field.Write{Kind: field.Incr})
		require.ErrorContains(t, r.End(), "more than 2048 fields in one request")
	}
}
