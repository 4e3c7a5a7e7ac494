package storagejson_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
	"confcenter/kv/kvjson"
	"confcenter/storage/storagejson"
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

// Any bytes under any names come back as they were, however they are written.
func TestFieldsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }))).Draw(t, "values")
		var fields []storagejson.Field
		for name, value := range values {
			fields = append(fields, storagejson.Field{Name: name, Value: value, Version: int64(len(fields))})
		}
		w := writer(kvjson.HTTP)
		storagejson.WriteFields(w, fields, false)
		text := w.End()
		require.LessOrEqual(t, len(text), 64+2*storagejson.SizeOf(fields))
		r := read(t, kvjson.HTTP, text)
		got := storagejson.ReadFields(r)
		require.NoError(t, r.End())
		require.Len(t, got, len(values))
		for _, f := range got {
			require.Equal(t, string(values[f.Name]), string(f.Value))
		}
	})
}

func TestOwnersHaveDefaults(t *testing.T) {
	for text, want := range map[string]storagejson.Owner{
		`{"logicType":"player","ownerId":"7"}`:                                 {App: "1", Region: "1", Logic: "player", ID: "7"},
		`{"appId":"a","regionId":"r","logicType":"player","ownerId":"7"}`:      {App: "a", Region: "r", Logic: "player", ID: "7"},
		`{"appId":null,"regionId":"","logicType":"player","ownerId":"\u0000"}`: {App: "1", Region: "", Logic: "player", ID: "\x00"},
	} {
		r := read(t, kvjson.Wire, []byte(text))
		require.Equal(t, want, storagejson.ReadOwner(r), text)
		require.NoError(t, r.End())
	}
}

// Each dialect has its own names for revisions and for flags.
func TestWrittenInEachDialect(t *testing.T) {
	did := storagejson.Written{Revision: 5, Fields: []storagejson.Field{{Name: "n", Value: []byte("8"), Version: 7}}, Replayed: true}
	for d, want := range map[kvjson.Dialect]string{
		kvjson.Wire: `{"rev":5,"values":{"n":8},"versions":{"n":7},"replayed":1}`,
		kvjson.HTTP: `{"revision":5,"values":{"n":8},"versions":{"n":7},"replayed":true}`,
	} {
		w := writer(d)
		storagejson.WriteWritten(w, storagejson.Incr, &did, false)
		require.Equal(t, want, string(w.End()))
	}
}

func TestReadWriteIsBounded(t *testing.T) {
	text := []byte(`{"deltas":{`)
	for range storagejson.MaxFields {
		text = append(text, `"a":1,`...)
	}
	whole := append(text[:len(text):len(text)], `"a":1}}`...)
	r := read(t, kvjson.HTTP, whole)
	storagejson.ReadWrite(r, storagejson.Incr)
	require.ErrorContains(t, r.End(), "deltas has more members than the limit of 4096")
}
