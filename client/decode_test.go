package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kvstore/memory"
)

const secret = "hunter2"

// Errors end in logs, and documents hold passwords: what is decoded is in none of them.
func TestDecodeErrorsPrintNoContents(t *testing.T) {
	type nested struct {
		DB struct {
			Port     int
			Password string
		}
		Since time.Time
		List  []int
	}
	s := newFakeServer(t, nil)
	c := dial(t, s)
	state := stateful(t, s, memory.Config{})
	for text, says := range map[string]string{
		`{"DB":{"Password":"hunter2","Port":"hunter2"}}`: "DB.Port: string at offset 44 does not fit int",
		`{"DB":{"Port":5.4321,"Password":"hunter2"}}`:    "DB.Port: number at offset 20 does not fit int",
		`{"DB":["hunter2"]}`:                             "DB: array at offset 7 does not fit struct",
		`{"Since":"hunter2"}`:                            "*time.ParseError",
		`{"List":[1,{"hunter2":5.4321}]}`:                "List: object",
		`["hunter2"]`:                                    "array at offset 1 does not fit client.nested",
	} {
		s.set("a.json", text)
		_, err := Bind[nested](t.Context(), c, Query{Name: "a.json"})
		require.ErrorIs(t, err, codes.BadRequest)
		require.ErrorContains(t, err, "a.json does not fit *client.nested")
		require.ErrorContains(t, err, says)
		state.commit(t, kv.PutTxn("n", "k", kv.JSONValue([]byte(text))))
		kvErr := c.KV("n").GetJSON(t.Context(), "k", new(nested))
		require.ErrorContains(t, kvErr, says)
		for _, format := range []string{"%v", "%+v", "%#v"} {
			for _, e := range []error{err, kvErr} {
				require.NotContains(t, fmt.Sprintf(format, e), secret)
				require.NotContains(t, fmt.Sprintf(format, e), "5.4321")
			}
		}
	}
	require.ErrorContains(t, document(`{}`).Decode("", nested{}), "not a pointer")
	require.ErrorContains(t, document(`{}`).Decode("", (*nested)(nil)), "not a pointer")
	require.ErrorContains(t, document(`{}`).Decode("", nil), "not a pointer")
}

// However a document is printed, it shows what it is and not what is in it.
func TestADocumentPrintsNoContents(t *testing.T) {
	d := document(`{"password":"hunter2"}`)
	d.Mtime, d.Path, d.stale = 7, "db", true
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		require.Equal(t, "a.json/db (version 7, 22 bytes, stale)", fmt.Sprintf(format, d), format)
		require.NotContains(t, fmt.Sprintf(format, struct{ D *Document }{d}), secret)
		require.NotContains(t, fmt.Sprintf(format, []*Document{d}), secret)
	}
	require.Equal(t, "x.json (version 0, absent)", fmt.Sprint(&Document{Name: "x.json"}))
	require.Equal(t, "no document", fmt.Sprint((*Document)(nil)))
}
