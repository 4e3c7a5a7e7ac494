package history_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/history"
	"confcenter/kv"
)

// brought is an apply of a source.
func brought(source string, documents ...history.Wanted) history.ApplyAsk {
	return history.ApplyAsk{Guard: true, Source: source, Documents: documents}
}

func file(name, text string) history.Wanted { return history.Wanted{Name: name, Text: text} }

// undoes asserts that an apply is refused because of what was changed, and changes nothing.
func (k *kit) undoes(q history.ApplyAsk, names ...string) {
	k.t.Helper()
	before := k.files("")
	_, err := k.Apply(k.ctx, nil, &q)
	for _, name := range names {
		k.refused(err, codes.Conflict, name)
	}
	q.DryRun = true
	would := k.apply(q)
	var undone []string
	for _, u := range would.Undone {
		undone = append(undone, u.Name)
		require.Positive(k.t, u.Revision)
	}
	require.Equal(k.t, names, undone)
	require.Equal(k.t, before, k.files(""))
}

// TestAnApplyDoesNotUndoWhatOthersChanged: each sentence of what guards the second apply of a source.
func TestAnApplyDoesNotUndoWhatOthersChanged(t *testing.T) {
	start := map[string]string{"a.json": `{"n":0,"o":{"x":1}}`, "b.json": "0"}
	console := func(k *kit, name, text string) {
		req := confstore.SetRequest{Name: name, Exact: true, Actor: &access.Actor{Author: "cyd", Origin: access.OverHTTP, Comment: "at night"}}
		if text != "-" {
			req.Contents = []byte(text)
		}
		k.set(req)
	}
	git := brought("git", file("a.json", `{"n":1,"o":{"x":1}}`), file("b.json", "1"))
	t.Run("the first one only remembers", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			console(k, "a.json", `{"n":9}`)
			require.EqualValues(t, 2, k.apply(git).Count)
			console(k, "a.json", `{"n":8,"o":{"x":1}}`)
			k.undoes(git, "a.json")
			require.EqualValues(t, 1, k.apply(brought("another", git.Documents...)).Count, "of which it is the first")
		})
	})
	t.Run("also if it has nothing to do", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			same := brought("git", file("a.json", start["a.json"]), file("b.json", "0"))
			require.Zero(t, k.apply(same).Count)
			console(k, "b.json", "7")
			k.undoes(same, "b.json")
			require.Zero(t, k.apply(brought("git", file("a.json", start["a.json"]), file("b.json", "7"))).Count)
			require.Equal(t, "1", fmt.Sprint(k.apply(same).Count), "what it has taken over is its own again")
		})
	})
	t.Run("it says what, who and why", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			k.apply(git)
			console(k, "a.json", `{"n":8,"o":{"x":1}}`)
			console(k, "a.json", `{"n":9,"o":{"x":1}}`)
			rev := k.log("a").Changes[0].Revision
			_, err := k.Apply(k.ctx, nil, &git)
			k.refused(err, codes.Conflict, fmt.Sprintf("a.json by revision %d of cyd (at night), the last of 2", rev))
			require.ErrorContains(t, err, "--replace NAME")
			dry := git
			dry.DryRun = true
			u := k.apply(dry).Undone[0]
			require.Equal(t, "cyd", u.By.Author)
			require.EqualValues(t, 2, u.Count)
		})
	})
	t.Run("what was made, deleted and made again", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			k.apply(git)
			console(k, "a.json", "-")
			console(k, "new.json", "5")
			k.undoes(git, "a.json")
			prune := git
			prune.Prune = true
			k.undoes(prune, "a.json", "new.json")
			k.undoes(brought("git", file("new.json", "6")), "new.json")
			require.Zero(t, k.apply(brought("git", history.Wanted{Name: "a.json", Delete: true}, file("new.json", "5"))).Count)
		})
	})
	t.Run("a change that was taken over, or is no change, does not count", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			k.apply(git)
			console(k, "a.json", `{"n":1,"o":{"x":2}}`)
			console(k, "b.json", "4")
			console(k, "b.json", "1")
			both := brought("git", file("a.json", "{\n \"n\": 5,\n \"o\": {\"x\": 2}\n}\n"), file("b.json", "3"))
			require.EqualValues(t, 2, k.apply(both).Count)
		})
	})
	t.Run("its own changes do not count, nor what it does not touch", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			k.apply(git)
			require.EqualValues(t, 1, k.apply(brought("git", file("b.json", "2"))).Count)
			console(k, "a.json", `{}`)
			require.EqualValues(t, 1, k.apply(brought("git", file("b.json", "3"))).Count)
		})
	})
	t.Run("replaced by name, or all", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			k.apply(git)
			console(k, "a.json", `{}`)
			console(k, "b.json", "9")
			q := git
			q.Replace = []string{"a"}
			k.undoes(q, "b.json")
			q.Replace = []string{"a", "b.json"}
			require.EqualValues(t, 2, k.apply(q).Count)
			console(k, "a.json", `{}`)
			q = git
			q.ReplaceAll = true
			require.EqualValues(t, 1, k.apply(q).Count)
		})
	})
	t.Run("without a source it is that of the author, and nobody's is refused", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			ann := git
			ann.Source, ann.Author = "", "ann"
			k.apply(ann)
			console(k, "b.json", "9")
			k.undoes(ann, "b.json")
			nobody := ann
			nobody.Author = ""
			_, err := k.history().Apply(k.ctx, nil, &nobody)
			k.refused(err, codes.BadRequest, "source is missing")
			bob := ann
			bob.Author = "bob"
			require.EqualValues(t, 1, k.apply(bob).Count)
		})
	})
	t.Run("asked for again it is answered as before", func(t *testing.T) {
		each(t, start, func(t *testing.T, k *kit) {
			q := git
			q.Token = "once"
			first := k.apply(q)
			console(k, "b.json", "9")
			again := k.apply(q)
			require.True(t, again.Replayed)
			require.Equal(t, first.Revision, again.Revision)
			q.Documents = []history.Wanted{file("b.json", "3")}
			_, err := k.Apply(k.ctx, nil, &q)
			require.Equal(t, codes.TokenReused, codes.Of(err), "%v", err)
		})
	})
	t.Run("who does not ask for it is not guarded", func(t *testing.T) {
		k := near(t, start)
		k.apply(git)
		console(k, "b.json", "9")
		k.undoes(git, "b.json")
		open := git
		open.Guard = false
		require.EqualValues(t, 1, k.apply(open).Count)
	})
}

// history is the one in this process.
func (k *kit) history() *history.History {
	return history.Open(k.server.State.(kv.Archive), history.Config{Documents: k.server.Store})
}
