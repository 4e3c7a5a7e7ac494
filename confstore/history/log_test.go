package history_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/history"
	"confcenter/confstore/log"
	"confcenter/kvstore/memory"
)

func TestTheLogOfADocument(t *testing.T) {
	each(t, map[string]string{"a.json": `{"n": 0}`, "b.json": "{}"}, func(t *testing.T, k *kit) {
		k.set(confstore.SetRequest{Name: "a.json", Contents: []byte(`{"n":1}`), Actor: &access.Actor{Name: "ann", Origin: access.OverTCP, Address: "1.2.3.4:5", Comment: "one"}})
		k.write("b.json", "-")
		k.write("a.json", "-")
		k.write("a.json", `{"n":3}`)
		answer := k.log("a")
		require.Equal(t, "a.json", answer.Name)
		require.Zero(t, answer.Next)
		require.False(t, answer.Compacted)
		require.Len(t, answer.Changes, 4)
		for i, kind := range []log.Kind{log.Created, log.Deleted, log.Changed, log.Created} {
			c := answer.Changes[i]
			require.Len(t, c.Documents, 1)
			require.Equal(t, kind, c.Documents[0].Kind)
			require.Equal(t, "a.json", c.Documents[0].Name)
			require.EqualValues(t, 4-i, c.Documents[0].Version)
			require.Positive(t, c.Time)
			require.Positive(t, c.Revision)
			require.Equal(t, kind == log.Deleted, c.Documents[0].Hash == "")
		}
		require.EqualValues(t, 1, answer.Changes[0].Count)
		require.EqualValues(t, 2, answer.Changes[3].Count, "both files were found together")
		require.Equal(t, "file", answer.Changes[3].Origin)
		require.Equal(t, []string{"ann", "tcp", "1.2.3.4:5", "one"}, []string{answer.Changes[2].Author, answer.Changes[2].Origin, answer.Changes[2].Peer, answer.Changes[2].Comment})
		require.Equal(t, log.DigestOf([]byte(`{"n":3}`)).String(), answer.Changes[0].Documents[0].Hash)

		all := k.log("")
		require.Len(t, all.Changes, 5)
		require.Equal(t, "b.json", all.Changes[2].Documents[0].Name)
		require.Len(t, all.Changes[4].Documents, 2)
		require.Empty(t, k.log("b").Changes[0].Documents[0].Hash)
	})
}

// Files that are found together are one change, even if each has a different author.
func TestTheLogOfAllSaysWhoMadeEachDocument(t *testing.T) {
	store := memory.ForTest(t)
	versions, err := log.Open(t.Context(), store, "")
	require.NoError(t, err)
	version := func(name, author, commit string) log.Version {
		return log.Version{Name: name, Served: 1, File: []byte("1"), By: &log.By{Author: author, Origin: "file", Commit: commit, Time: 1}}
	}
	for _, c := range []log.Change{
		{Versions: []log.Version{version("a.json", "ann", "c0ffee"), version("b.json", "bob", ""), version("c.json", "", "")}},
		{Versions: []log.Version{version("a.json", "ann", ""), version("b.json", "ann", "")}},
	} {
		c.Sign()
		_, err := versions.Commit(t.Context(), []log.Change{c})
		require.NoError(t, err)
	}
	answer, err := history.Open(store, history.Config{}).Log(t.Context(), nil, &history.LogAsk{})
	require.NoError(t, err)
	together, mixed := answer.Changes[0], answer.Changes[1]
	require.Equal(t, "ann", together.Author)
	require.Nil(t, together.Documents[0].By, "the change says it")
	require.Equal(t, history.By{Origin: "file", Time: 1}, mixed.By)
	require.Equal(t, &history.By{Author: "ann", Origin: "file", Commit: "c0ffee", Time: 1}, mixed.Documents[0].By)
	require.Equal(t, &history.By{Author: "bob", Origin: "file", Time: 1}, mixed.Documents[1].By)
	require.Nil(t, mixed.Documents[2].By, "nobody knows")
}

// What git tells of versions later counts in the log of all, of one, in blame and in diff alike.
func TestCompletionsAreTold(t *testing.T) {
	store := memory.ForTest(t)
	versions, err := log.Open(t.Context(), store, "")
	require.NoError(t, err)
	owner := log.By{Author: "owner", Origin: access.OnDisk, Time: 1}
	found := func(n int) {
		c := log.Change{}
		for i := range n {
			by := owner
			c.Versions = append(c.Versions, log.Version{Name: fmt.Sprintf("%03d.json", i), Served: 1, File: []byte(`{"v":1}`), By: &by})
		}
		c.Sign()
		_, err := versions.Commit(t.Context(), []log.Change{c})
		require.NoError(t, err)
	}
	complete := func(author string, from, to int) {
		var list []log.Completion
		for i := from; i < to; i++ {
			d, err := versions.Document(fmt.Sprintf("%03d.json", i))
			require.NoError(t, err)
			list = append(list, log.Completion{Name: d.Name, N: d.N, By: log.By{Author: author, Origin: access.OnDisk, Commit: "c", Time: 1}})
		}
		require.NoError(t, versions.Complete(t.Context(), list))
	}
	ada, bob := history.By{Author: "ada", Origin: "file", Commit: "c", Time: 1}, history.By{Author: "bob", Origin: "file", Commit: "c", Time: 1}
	h := history.Open(store, history.Config{})
	newest := func() history.Change {
		answer, err := h.Log(t.Context(), nil, &history.LogAsk{Limit: 1})
		require.NoError(t, err)
		return answer.Changes[0]
	}
	for _, count := range []int{1, 300} {
		found(count)
		require.Equal(t, history.By(owner), newest().By)
		complete("ada", 0, count)
		require.Equal(t, ada, newest().By)
		require.Nil(t, newest().Documents[0].By, "the change says it")
	}
	found(300)
	complete("ada", 0, 299)
	complete("bob", 299, 300)
	require.Equal(t, history.By{Origin: "file", Time: 1}, newest().By, "the last has another author")
	require.Equal(t, &ada, newest().Documents[99].By)
	found(3)
	complete("ada", 1, 2)
	require.Equal(t, []*history.By{(*history.By)(&owner), &ada, (*history.By)(&owner)}, []*history.By{newest().Documents[0].By, newest().Documents[1].By, newest().Documents[2].By})

	of, err := h.Log(t.Context(), nil, &history.LogAsk{Name: "000"})
	require.NoError(t, err)
	require.Equal(t, []history.By{history.By(owner), ada, ada, ada}, []history.By{of.Changes[0].By, of.Changes[1].By, of.Changes[2].By, of.Changes[3].By})
	blame, err := h.Blame(t.Context(), nil, &history.BlameAsk{Name: "299", Path: "/v"})
	require.NoError(t, err)
	require.Equal(t, ada, blame.Keys[0].By)
	show, err := h.Show(t.Context(), nil, &history.ShowAsk{Name: "299"})
	require.NoError(t, err)
	require.Equal(t, bob, show.Change.By)
}

func TestTheLogIsReadInPages(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		for i := range 10 {
			k.write("a.json", fmt.Sprint(i))
			k.write("b.json", fmt.Sprint(i))
		}
		for name, want := range map[string]int{"a.json": 10, "": 20} {
			var revs []int64
			q := history.LogAsk{Name: name, Limit: 3}
			for {
				answer, err := k.Log(k.ctx, nil, &q)
				require.NoError(t, err)
				for _, c := range answer.Changes {
					revs = append(revs, c.Revision)
				}
				if q.Before = answer.Next; q.Before == 0 {
					break
				}
				require.Len(t, answer.Changes, 3)
			}
			require.Len(t, revs, want)
			for i := 1; i < len(revs); i++ {
				require.Less(t, revs[i], revs[i-1])
			}
		}
	})
}

func TestWhatTheLogRefuses(t *testing.T) {
	each(t, map[string]string{"a.json": "1"}, func(t *testing.T, k *kit) {
		for _, c := range []struct {
			ask  history.LogAsk
			code codes.Code
			text string
		}{
			{history.LogAsk{Name: "none"}, codes.NotFound, `"none.json"`},
			{history.LogAsk{Name: "../a"}, codes.NotFound, `"../a.json"`},
			{history.LogAsk{Name: "a", Limit: -1}, codes.BadRequest, "limit is -1: it is from 1 to 1000"},
			{history.LogAsk{Name: "a", Limit: 1001}, codes.BadRequest, "from 1 to 1000"},
			{history.LogAsk{Before: -1}, codes.BadRequest, "before is -1"},
		} {
			_, err := k.Log(k.ctx, nil, &c.ask)
			require.Equal(t, c.code, codes.Of(err), "%v", err)
			require.ErrorContains(t, err, c.text)
		}
		answer, err := k.Log(k.ctx, nil, &history.LogAsk{Name: "a", Before: 1})
		require.NoError(t, err)
		require.Empty(t, answer.Changes)
		require.False(t, answer.Compacted)
	})
}
