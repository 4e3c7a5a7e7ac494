package storagejson_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/protocol"
	"confcenter/storage/storagejson"
)

func same(t require.TestingT, wire []byte, w *kvjson.Writer) {
	var want, got map[string]any
	require.NoError(t, json.Unmarshal(wire, &want))
	require.NoError(t, json.Unmarshal(w.End(), &got))
	delete(want, "code")
	require.Equal(t, want, got)
}

// What the wire's dialect says is what package protocol says: who knows one knows the other.
func TestTheWireSaysTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fields []storagejson.Field
		var theirs []protocol.StorageField
		for _, name := range rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "names") {
			f := storagejson.Field{Name: name, Value: rapid.SliceOf(rapid.Byte()).Draw(t, "value"), Version: rapid.Int64Range(1, 1<<50).Draw(t, "version")}
			fields, theirs = append(fields, f), append(theirs, protocol.StorageField(f))
		}
		versions, next, rev := rapid.Bool().Draw(t, "versions"), rapid.String().Draw(t, "next"), kv.Revision(rapid.Int64Range(1, 1<<50).Draw(t, "rev"))
		w := writer(kvjson.Wire)
		storagejson.WritePage(w, fields, versions, rev, next)
		same(t, protocol.AppendStoragePage(nil, protocol.StoragePage{Fields: theirs, Rev: rev, Next: next}, versions), w)

		replayed, prev := rapid.Bool().Draw(t, "replayed"), rapid.Bool().Draw(t, "prev")
		for kind, cmd := range map[storagejson.Kind]protocol.Command{storagejson.Update: protocol.StUpdate, storagejson.Remove: protocol.StRemove, storagejson.Restore: protocol.StRestore} {
			w = writer(kvjson.Wire)
			storagejson.WriteWritten(w, kind, &storagejson.Written{Revision: rev, Fields: fields, Prev: fields, Replayed: replayed}, prev)
			same(t, protocol.AppendStorageWritten(nil, cmd, protocol.StorageWritten{Revision: rev, Fields: theirs, Prev: theirs, Replayed: replayed}, prev), w)
		}
		w = writer(kvjson.Wire)
		storagejson.WriteOwners(w, []storagejson.Owner{{Logic: next, ID: "7"}}, next)
		same(t, protocol.AppendStorageOwners(nil, protocol.StorageOwners{Owners: []protocol.StorageOwner{{Logic: next, ID: "7"}}, Next: next}), w)
	})
}

// What package protocol asks for is read as it was meant.
func TestTheWiresRequestsAreRead(t *testing.T) {
	asked := protocol.AppendStorageWrite(nil, protocol.StUpdate, protocol.StorageWrite{
		Owner:  protocol.StorageOwner{App: "a", Region: "r", Logic: "player", ID: "7"},
		Fields: []protocol.StorageField{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{0xFF}}},
		Expect: []protocol.StorageNumber{{Name: "a", N: 5}}, Prev: true, Token: "t",
	})
	r := read(t, kvjson.Wire, asked)
	require.Equal(t, storagejson.Owner{App: "a", Region: "r", Logic: "player", ID: "7"}, storagejson.ReadOwner(r))
	require.Equal(t, storagejson.Write{
		Fields: []storagejson.Field{{Name: "a", Value: []byte("1")}, {Name: "b", Value: []byte{0xFF}}},
		Expect: []storagejson.Number{{Name: "a", N: 5}}, Prev: true, Token: "t",
	}, storagejson.ReadWrite(r, storagejson.Update))
	require.NoError(t, r.End())
}
