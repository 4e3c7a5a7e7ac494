package client

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/protocol"
)

// What a feed has for a watch that has moved on is not taken.
func TestMovedFollowerIgnoresItsLastFeed(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`, "b.json": `2`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st := newStates(t)
	w, err := c.WatchMain(t.Context(), st.add)
	require.NoError(t, err)
	st.want(`1`)
	last := w.follower.feed
	s.change(func(s *fakeServer) { s.mainConf = "b.json" })
	s.set(metaFile, `{}`)
	st.want(`2`)
	w.follower.update(last, &Document{Name: "a.json", raw: []byte(`3`)})
	require.Equal(t, `2`, string(w.Document().Raw()))

	// Nor is a main config that was asked for on a session that has ended.
	require.NoError(t, c.adopt(&session{}, protocol.Identified{MainConf: "a.json"}, true))
	require.Equal(t, "b.json", c.MainConfig())
}

func TestMainConfigFollowsMeta(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `{"f":"a"}`, "b.json": `{"f":"b"}`, "c.json": `{"f":"b"}`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st := newStates(t)
	w, err := c.WatchMain(t.Context(), st.add)
	require.NoError(t, err)
	h, err := Bind[map[string]string](t.Context(), c, Query{Merged: true})
	require.NoError(t, err)
	require.Equal(t, "a.json", st.want(`{"f":"a"}`).Name)
	s.set("a.json", `{"f":"a2"}`)
	st.want(`{"f":"a2"}`)

	assign := func(name string) {
		s.change(func(s *fakeServer) { s.mainConf = name })
		s.set(metaFile, fmt.Sprintf(`{"main":%q}`, name))
	}
	assign("b.json")
	require.Equal(t, "b.json", st.want(`{"f":"b"}`).Name)
	require.Equal(t, "b.json", c.MainConfig())
	eventually(t, func() bool { return (*h.Load())["f"] == "b" }, "handles move too")
	s.set("a.json", `{"f":"a3"}`) // no longer ours

	assign("c.json") // says the same
	eventually(t, func() bool { return w.Document().Name == "c.json" }, "it follows the new file")
	s.set("c.json", `{"f":"c"}`)
	st.want(`{"f":"c"}`)

	assign("")
	require.Empty(t, st.want("").Name)
	eventually(t, func() bool { return codes.Of(h.Err()) == codes.NotFound }, "the handle says so")
	assign("b.json")
	st.want(`{"f":"b"}`)
	st.none()
	require.Len(t, c.ids(t, s), 1, "a repeated WHOAMI keeps the id")
}

// ids are the ids the client asked for after the first time.
func (c *Client) ids(t *testing.T, s *fakeServer) map[string]bool {
	found := map[string]bool{}
	for _, line := range s.requests(protocol.Whoami)[1:] {
		var r protocol.Request
		require.NoError(t, r.Parse([]byte(line)))
		id, _ := r.Int("svrid")
		found[fmt.Sprint(id)] = true
	}
	return found
}

// The server assigns another main config while the client is away.
func TestMainConfigMovesDuringReconnect(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `"a"`, "b.json": `"b"`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st := newStates(t)
	_, err := c.WatchMain(t.Context(), st.add)
	require.NoError(t, err)
	st.want(`"a"`)
	s.stop()
	s.change(func(s *fakeServer) { s.mainConf = "b.json" })
	s.restart()
	st.want(`"b"`)
	s.set("b.json", `"b2"`)
	st.want(`"b2"`)
}

// Only who follows the main config follows _meta.json.
func TestMetaIsFollowedOnDemand(t *testing.T) {
	s := newFakeServer(t, map[string]string{"a.json": `1`})
	s.mainConf = "a.json"
	c := dial(t, s)
	st, _ := watch(t, c, Query{Name: "a.json"})
	st.want(`1`)
	for _, line := range s.requests(protocol.BookCfgChange) {
		require.NotContains(t, line, metaFile)
	}
}
