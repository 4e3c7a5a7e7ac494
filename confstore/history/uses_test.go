package history_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/client"
	"confcenter/client/calls"
	"confcenter/clienttest"
	"confcenter/codes"
	"confcenter/confstore/history"
)

func TestUsesTellWhoAndWhichVersion(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{Files: map[string]string{
		"_meta.json": `{"conf_inherit":{"a.json":"base.json"},"app_profile":{"default":{"main":"base.json"}}}`,
		"base.json":  `{"n":1}`, "a.json": `{}`, "other.json": `{}`,
	}})
	dial := func(name, tag string) *client.Client {
		c, err := client.Dial(t.Context(), client.Config{Addrs: []string{srv.Address()}, Name: name, Tag: tag})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	watch := func(c *client.Client, q client.Query) int32 {
		seen := make(chan int32, 10)
		_, err := c.Watch(t.Context(), q, func(d *client.Document) { seen <- d.Mtime })
		require.NoError(t, err)
		return <-seen
	}
	heir, part := dial("heir", "blue"), dial("part", "")
	dial("main", "")
	told := watch(heir, client.Query{Name: "a.json", Merged: true})
	watch(heir, client.Query{Name: "other.json"})
	watch(part, client.Query{Name: "base.json", Path: "/n"})
	asker := dial("asker", "")
	uses := func(name string) *history.UsesAnswer {
		answer, err := calls.History(asker).Uses(t.Context(), &history.UsesAsk{Name: name})
		require.NoError(t, err)
		return answer
	}
	answer := uses("base")
	require.Equal(t, "base.json", answer.Name)
	require.EqualValues(t, 3, answer.Programs)
	by := map[string]history.Use{}
	for _, u := range answer.Uses {
		require.NotEmpty(t, u.Address)
		if u.Told > 0 {
			require.Equal(t, answer.Revision, u.Revision, "all that came with the first change")
		}
		u.ID, u.Address, u.Revision = 0, "", 0
		by[u.Name] = u
	}
	require.Equal(t, map[string]history.Use{
		"heir": {Name: "heir", Tag: "blue", File: "a.json", Told: int64(told)},
		"part": {Name: "part", File: "base.json", Path: "/n", Told: answer.Mtime},
		"main": {Name: "main", File: "base.json", Main: true},
	}, by)
	require.EqualValues(t, 1, uses("a.json").Programs)
	require.Empty(t, uses("_meta.json").Uses)
	_, err := calls.History(asker).Uses(t.Context(), &history.UsesAsk{Name: "nothing"})
	require.ErrorIs(t, err, codes.NotFound)
}

// People know a version by its revision: that a program was told says which, of a document that
// inherits as well.
func TestUsesTellTheRevision(t *testing.T) {
	srv := clienttest.Start(t, clienttest.Options{Files: map[string]string{"_meta.json": `{"conf_inherit":{"a.json":"base.json"}}`, "base.json": `{"n":1}`, "a.json": `{}`}})
	dial := func(name string) *client.Client {
		c, err := client.Dial(t.Context(), client.Config{Addrs: []string{srv.Address()}, Name: name})
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	asker, heir, base := dial("asker"), dial("heir"), dial("base")
	calls := calls.History(asker)
	newest := func(name string) int64 {
		log, err := calls.Log(t.Context(), &history.LogAsk{Name: name, Limit: 1})
		require.NoError(t, err)
		return log.Changes[0].Revision
	}
	watch := func(c *client.Client, q client.Query) <-chan int32 {
		seen := make(chan int32, 10)
		_, err := c.Watch(t.Context(), q, func(d *client.Document) { seen <- d.Mtime })
		require.NoError(t, err)
		<-seen
		return seen
	}
	heirs, bases := watch(heir, client.Query{Name: "a.json", Merged: true}), watch(base, client.Query{Name: "base.json"})
	told := func() map[string]int64 {
		answer, err := calls.Uses(t.Context(), &history.UsesAsk{Name: "base.json"})
		require.NoError(t, err)
		require.Equal(t, newest("base.json"), answer.Revision)
		by := map[string]int64{}
		for _, u := range answer.Uses {
			by[u.Name] = u.Revision
		}
		return by
	}
	first := newest("base.json")
	require.Equal(t, map[string]int64{"heir": max(first, newest("a.json")), "base": first}, told())
	_, err := asker.Set(t.Context(), client.SetRequest{Name: "base.json", Contents: []byte(`{"n":2}`)})
	require.NoError(t, err)
	<-heirs
	<-bases
	second := newest("base.json")
	require.Greater(t, second, first)
	require.Equal(t, map[string]int64{"heir": second, "base": second}, told(), "what a base brought is told of its heirs")
	_, err = asker.Set(t.Context(), client.SetRequest{Name: "a.json", Contents: []byte(`{"m":1}`)})
	require.NoError(t, err)
	<-heirs
	require.Equal(t, map[string]int64{"heir": newest("a.json"), "base": second}, told())
}
