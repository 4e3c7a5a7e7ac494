package confstore

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/doclog"
	"confcenter/internal/git/gittest"
)

func asIn(by doclog.By, commit string) doclog.By {
	by.Comment = "as in " + commit
	return by
}

func TestFilesAreTheirCommitsAuthors(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	first := k.commit("first")
	k.put("a.json", `{"v":2}`)
	k.put("sub/b.json", `{"v":2}`)
	second := k.commit("raise v\n\nbecause")
	require.NoError(t, os.RemoveAll(k.path("sub")))
	third := k.commit("without b")
	k.git("checkout", "--quiet", first)
	k.open()
	k.becomes("a.json", byAda(first, "first"))

	k.git("checkout", "--quiet", second)
	k.all("a.json", "sub/b.json")
	k.becomes("a.json", byAda(second, "raise v"))
	k.becomes("sub/b.json", byAda(second, "raise v"))

	k.git("checkout", "--quiet", third)
	k.all("sub/b.json")
	k.becomes("sub/b.json", byAda(third, "without b"))
	require.Equal(t, byAda(second, "raise v"), k.by("a.json"))

	k.put("a.json", `{"v":"not committed"}`)
	k.all("a.json")
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.becomes("a.json", byAda(k.commit("in time"), "in time"))
}

func TestFilesThatCameTogetherEachHaveTheirAuthor(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{}`)
	commit := k.commit("first")
	k.put("b.json", `{}`)
	gittest.Git(t, k.cfg.Dir, "init", "--quiet", k.path("team"))
	k.put("team/c.json", `{}`)
	ofTeam := gittest.Commit(t, k.path("team"), "of the team")
	k.open()
	k.becomes("a.json", byAda(commit, "first"))
	k.becomes("team/c.json", byAda(ofTeam, "of the team"))
	k.asked()
	require.Equal(t, byOwner(t), k.by("b.json"))
}

// The commit that is named has changed this file, whichever commits came after it.
func TestAnotherCommitIsNotNamed(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	first := k.commit("first")
	k.put("b.json", `{}`)
	second := k.commit("second")
	k.open()
	k.becomes("a.json", byAda(first, "first"))
	k.becomes("b.json", byAda(second, "second"))
}

func TestBytesThatComeBackAreTheOwners(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	first := k.commit("first")
	k.put("a.json", `{"v":2}`)
	second := k.commit("second")
	k.open()
	k.becomes("a.json", byAda(second, "second"))
	k.put("a.json", `{"v":3}`)
	k.all("a.json")
	k.asked()
	k.git("checkout", "--", "a.json")
	k.all("a.json")
	k.becomes("a.json", asIn(byOwner(t), second))
	k.git("checkout", first, "--", "a.json")
	k.all("a.json")
	k.becomes("a.json", asIn(byOwner(t), first))
	back := k.commit("back to the first")
	k.becomes("a.json", byAda(back, "back to the first"))
}
