package protocol_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/player/field"
	"confcenter/protocol"
)

// requireRead requires that the body asks for what want does, the short way as well if it can
// be read so, and returns whether it can.
func requireRead(t require.TestingT, want protocol.StorageNames, body []byte) (plain bool) {
	var got, short protocol.StorageRead
	require.NoError(t, read(t, body).StorageRead(&got))
	var names []string
	for _, name := range got.Names {
		names = append(names, string(name))
	}
	require.Equal(t, want.Owner, field.Owner{App: string(got.App), Region: string(got.Region), Logic: string(got.Logic), ID: string(got.ID)}, "%s", body)
	require.ElementsMatch(t, want.Names, names, "%s", body)
	require.Equal(t, want.Versions, got.Versions, "%s", body)
	if plain = short.ReadPlain(body); plain {
		require.Equal(t, got, short, "%s", body)
	}
	return plain
}

// What is read the short way is what is read the long way, and most requests are.
func TestPlainStorageReadAgrees(t *testing.T) {
	const all = `"appId":"7","regionId":"eu","logicType":"bag","ownerId":"42","names":["a","b c"],"versions":1`
	names := `"` + strings.Repeat(`x","`, field.MaxFields) + `"`
	for body, plain := range map[string]bool{
		`{` + all + `}`: true,
		`{"appId":"7","logicType":"bag","ownerId":"42","names":["a"]}`:                 true,
		`{"regionId":"eu","logicType":"bag","ownerId":"42","names":["a"]}`:             true,
		`{"logicType":"b:g","ownerId":"4_2","names":["a","a",":"]}`:                    true,
		`{"regionId":"eu","appId":"7","logicType":"bag","ownerId":"42","names":["a"]}`: false,
		`{"logicType":"bag","ownerId":"42","names":["a"],"versions":0}`:                false,
		`{"logicType":"bag","ownerId":"42","names":["a"],"versions":1,"x":1}`:          false,
		`{"logicType":"bag","ownerId":"42","names":["a",]}`:                            false,
		`{"logicType":"bag","ownerId":"42","names":["a"`:                               false,
		`{"logicType":"bag","ownerId":"42","names":["a`:                                false,
		`{"logicType":"bag","ownerId":"42","names":["a"]`:                              false,
		`{"logicType":"bag","ownerId":"42","names":["a"]} `:                            false,
		`{"logicType":"bag","ownerId":"42","names":["a", "b"]}`:                        false,
		`{"logicType":"bag","ownerId":"42","names":["a\u0041"]}`:                       false,
		`{"logicType":"bag","ownerId":"42","names":["é"]}`:                             false,
		`{"logicType":"bag","ownerId":"42","names":[""]}`:                              false,
		`{"logicType":"bag","ownerId":"42","names":[]}`:                                false,
		`{"logicType":"bag","ownerId":"42","names":["a",1]}`:                           false,
		`{"logicType":"bag","ownerId":"42","names":[` + names + `]}`:                   false,
		`{"logicType":"bag","ownerId":"","names":["a"]}`:                               false,
		`{"logicType":"bag","ownerId":42,"names":["a"]}`:                               false,
		`{"logicType":"bag","ownerId":"42"}`:                                           false,
		`{"logicType": "bag","ownerId":"42","names":["a"]}`:                            false,
		"{\"logicType\":\"b\x01\",\"ownerId\":\"42\",\"names\":[\"a\"]}":               false,
		`{"ownerId":"42","logicType":"bag","names":["a"]}`:                             false,
		`{}`: false,
		`[`:  false,
		``:   false,
	} {
		var short, long protocol.StorageRead
		require.Equal(t, plain, short.ReadPlain([]byte(body)), body)
		if plain {
			require.NoError(t, read(t, []byte(body)).StorageRead(&long))
			require.Equal(t, long, short, body)
		}
	}
	for i := range len(all) {
		require.False(t, new(protocol.StorageRead).ReadPlain([]byte(`{`+all[:i])), all[:i])
	}
}

func TestStorageReadUsesItsRoomAgain(t *testing.T) {
	var q protocol.StorageRead
	body := []byte(`{"logicType":"bag","ownerId":"42","names":["a","b"]}`)
	spread := []byte(`{ "names": ["a","b"], "ownerId": "42", "logicType": "bag" }`)
	var r protocol.Request
	both := func() {
		require.True(t, q.ReadPlain(body))
		require.NoError(t, r.Parse(spread))
		require.NoError(t, r.StorageRead(&q))
	}
	both()
	require.Zero(t, testing.AllocsPerRun(100, both))
	require.Equal(t, "[a b]", fmt.Sprintf("%s", q.Names))
}

func BenchmarkStorageRead(b *testing.B) {
	var q protocol.StorageRead
	var r protocol.Request
	body := []byte(`{"logicType":"player","ownerId":"key-000017","names":["state"]}`)
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			q.ReadPlain(body)
		}
	})
	b.Run("any", func(b *testing.B) {
		for b.Loop() {
			_, _ = r.Parse(body), r.StorageRead(&q)
		}
	})
}
