package client_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/clienttest"
	"confcenter/codes"
)

func TestRealServer(t *testing.T) {
	srv, c := real(t, clienttest.Options{Files: map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"base.json"},"app_profile":{"default":{"app1":"a.json"}}}`,
		"a.json":     `{"a":1}`, "base.json": `{"b":1,"part":{"x":1}}`, "b.json": `{"b":"b"}`,
	}})
	alone, _ := watch(t, c, client.Query{Name: "a.json"})
	short, _ := watch(t, c, client.Query{Name: "a"})
	merged, _ := watch(t, c, client.Query{Name: "a.json", Merged: true})
	part, wp := watch(t, c, client.Query{Name: "a.json", Path: "/part/x", Merged: true})
	ownPart, _ := watch(t, c, client.Query{Name: "a.json", Path: "/part/x"})
	absent, _ := watch(t, c, client.Query{Name: "dir/new.json"})
	main, wm := watch(t, c, client.Query{Merged: true})
	alone.want(`{"a":1}`)
	short.want(`{"a":1}`)
	merged.want(`{"b":1,"part":{"x":1},"a":1}`)
	part.want(`1`)
	ownPart.want("")
	absent.want("")
	require.Equal(t, "a.json", main.want(`{"b":1,"part":{"x":1},"a":1}`).Name)

	srv.Write("base.json", `{"b":2,"part":{"x":1}}`)
	merged.want(`{"b":2,"part":{"x":1},"a":1}`)
	main.want(`{"b":2,"part":{"x":1},"a":1}`)
	srv.Write("a.json", `{"a":2,"part":{"x":1}}`)
	alone.want(`{"a":2,"part":{"x":1}}`)
	short.want(`{"a":2,"part":{"x":1}}`)
	ownPart.want(`1`)
	merged.want(`{"b":2,"part":{"x":1},"a":2}`)
	main.want(`{"b":2,"part":{"x":1},"a":2}`)
	srv.Write("a.json", `{"a":2}`) // what the base has at the path was the same
	ownPart.want("")
	alone.want(`{"a":2}`)
	short.want(`{"a":2}`)
	srv.Write("dir/new.json", `[]`)
	absent.want(`[]`)
	srv.Remove("dir/new.json")
	absent.want("")

	srv.Write("_meta.json", `{"conf_inherit":{"a.json":"base.json"},"app_profile":{"default":{"app1":"b.json"}}}`)
	require.Equal(t, "b.json", main.want(`{"b":"b"}`).Name)
	srv.Write("_meta.json", `{"app_profile":{"default":{"app1":"b.json"}}}`)
	merged.want(`{"a":2}`)
	part.want("")
	require.False(t, wp.Document().Exists())
	wm.Stop()

	require.NoError(t, c.Remove(t.Context(), "a.json"))
	alone.want("")
	short.want("")
	merged.want("")
	_, err := c.Get(t.Context(), "a.json")
	require.ErrorIs(t, err, codes.NotFound)
	for _, st := range []*states{alone, short, merged, part, ownPart, absent, main} {
		st.none()
	}
}

// Across a restart nothing is missed and nothing is told twice. Without its data the
// server begins a new epoch, and clients compare everything.
func TestRealServerRestarts(t *testing.T) {
	srv, c := real(t, clienttest.Options{Files: map[string]string{"same.json": `1`, "other.json": `1`, "gone.json": `1`}})
	same, _ := watch(t, c, client.Query{Name: "same.json"})
	other, _ := watch(t, c, client.Query{Name: "other.json", Merged: true})
	gone, _ := watch(t, c, client.Query{Name: "gone.json"})
	same.want(`1`)
	other.want(`1`)
	gone.want(`1`)
	epoch := c.Epoch()
	for round := 2; round < 6; round++ {
		srv.Stop()
		srv.Write("other.json", fmt.Sprint(round))
		if round == 3 {
			srv.Remove("gone.json")
		}
		if round == 4 {
			require.NoError(t, os.RemoveAll(srv.DataDir))
		}
		srv.Restart()
		other.want(fmt.Sprint(round))
		if round == 3 {
			gone.want("")
		}
	}
	require.NotEqual(t, epoch, c.Epoch())
	srv.Write("same.json", `2`)
	same.want(`2`)
	for _, st := range []*states{same, other, gone} {
		st.none()
	}
}

// Connections are lost at any moment, while a writer does not stop.
func TestRealServerUnderLoss(t *testing.T) {
	srv, c := real(t, clienttest.Options{})
	st, w := watch(t, c, client.Query{Name: "a.json"})
	st.want("")
	writer := dial(t, srv.TCP().Addr().String(), "writer") // whose connection lasts
	const last = 200
	for i := 1; i <= last; i++ {
		_, err := writer.Set(t.Context(), client.SetRequest{Name: "a.json", Contents: []byte(fmt.Sprint(i))})
		require.NoError(t, err)
		if i%7 == 0 {
			srv.Cut()
		}
	}
	seen := 0
	for seen < last {
		doc := st.next()
		require.Greater(t, doc.Int("", 0), seen, "in order and never twice")
		seen = doc.Int("", 0)
	}
	require.EqualValues(t, fmt.Sprint(last), w.Document().Raw())
}

// The server distinguishes paths by their spelling, each form of a part needs a
// subscription of its own, and callers may spell a path either way.
func TestSpellingsOfAPathDoNotDisturbEachOther(t *testing.T) {
	srv, c := real(t, clienttest.Options{Files: map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"base.json"}}`, "a.json": `{}`, "base.json": `{"part":1}`,
	}})
	merged, _ := watch(t, c, client.Query{Name: "a.json", Path: "/part/", Merged: true})
	same, ws := watch(t, c, client.Query{Name: "a.json", Path: "/part", Merged: true})
	own, wo := watch(t, c, client.Query{Name: "a.json", Path: "/part"})
	merged.want(`1`)
	same.want(`1`)
	own.want("")
	srv.Write("base.json", `{"part":2}`)
	merged.want(`2`)
	same.want(`2`)
	wo.Stop()
	ws.Stop()
	srv.Write("base.json", `{"part":3}`)
	merged.want(`3`)
	for _, st := range []*states{merged, same, own} {
		st.none()
	}
}
