package confstore

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/internal/git/gittest"
)

func asIn(by log.By, commit string) log.By {
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

// What git changes together is one revision, also what it takes away.
func TestACheckoutIsOneRevision(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	k.put("gone.json", `{}`)
	k.put("old.json", `{"moved":true}`)
	first := k.commit("first")
	k.put("a.json", `{"v":2}`)
	k.put("sub/b.json", `{}`)
	require.NoError(t, os.Remove(k.path("gone.json")))
	k.git("mv", "old.json", "new.json")
	second := k.commit("second")
	k.git("checkout", "--quiet", first)
	k.open()
	k.git("checkout", "--quiet", second)
	require.Equal(t, []string{"a.json", "gone.json", "new.json", "old.json", "sub/b.json"}, names(k.next()))
	for _, name := range []string{"a.json", "gone.json", "new.json", "old.json", "sub/b.json"} {
		k.becomes(name, byAda(second, "second"))
	}
	k.git("checkout", "--quiet", first)
	require.Equal(t, []string{"a.json", "gone.json", "new.json", "old.json", "sub/b.json"}, names(k.next()))
	k.becomes("new.json", log.By{Origin: access.OnDisk})
	k.becomes("a.json", asIn(byOwner(t), first))
}

// So it is in a repository below the directory, and in one that was not there at the start.
func TestALockOfARepositoryThatIsNew(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`, "team/a.json": `1`, "team/b.json": `1`})
	for _, repository := range []string{"team/.git", "../.git", ".git"} {
		k.put(repository+"/HEAD", "ref")
		lock := repository + "/index.lock"
		k.put(lock, "")
		k.put("team/a.json", `"`+lock+`"`)
		k.await("the hold", k.held)
		k.put("team/b.json", `"`+lock+`"`)
		require.NoError(t, os.Remove(k.path(lock)))
		require.Equal(t, []string{"team/a.json", "team/b.json"}, names(k.next()), lock)
		require.NoError(t, os.RemoveAll(k.path(repository)))
	}
}

func TestARepositoryThatIsNewIsAsked(t *testing.T) {
	k := newKit(t, nil)
	k.put("a.json", `{}`)
	k.put("team/b.json", `{}`)
	k.all("a.json", "team/b.json")
	k.asked()
	k.git("init", "--quiet", k.path("team"))
	commit := gittest.Commit(t, k.path("team"), "of the team")
	k.becomes("team/b.json", byAda(commit, "of the team"))
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.git("init", "--quiet")
	k.git("add", "a.json")
	k.git("commit", "--quiet", "-m", "first")
	k.becomes("a.json", byAda(k.git("rev-parse", "HEAD"), "first"))
}

func TestACommitThatIsMadeTooLate(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	first := k.commit("first")
	k.cfg.CommitWait = 300 * time.Millisecond
	k.open()
	k.becomes("a.json", byAda(first, "first"))
	k.put("a.json", `{"v":2}`)
	k.all("a.json")
	k.await("nothing to be waited for", func() bool { k.asked(); return k.Stats().Uncommitted == 0 })
	k.commit("too late")
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.reopen()
	k.asked()
	require.Equal(t, byOwner(t), k.by("a.json"), "nor does a start change that")
}

func TestACommitIsNamedAfterARestart(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	k.commit("first")
	k.open()
	k.put("a.json", `{"v":2}`)
	k.all("a.json")
	revision := k.Snapshot().Node("a.json").Revision(false)
	require.NoError(t, k.Close())
	commit := k.commit("while nobody looked")
	k.open()
	k.becomes("a.json", byAda(commit, "while nobody looked"))
	require.Equal(t, revision, k.Snapshot().Node("a.json").Revision(false))
	k.none()
}

// A git that was not asked to its end, as on a busy machine, is asked again.
func TestGitThatFailedIsAskedAgain(t *testing.T) {
	k := newWorkTree(t)
	k.cfg.GitPatience = time.Nanosecond
	k.put("a.json", `{"v":1}`)
	k.commit("first")
	k.open()
	k.put("a.json", `{"v":2}`)
	k.all("a.json")
	k.commit("second")
	k.await("git to be asked again and again", func() bool { return k.Stats().GitFailed >= 5 })
}

// A script that saves and commits faster than anyone looks.
func TestEachOfManyCommitsIsNamedForItsOwnVersion(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":0}`)
	commits := map[string]string{`{"v":0}`: k.commit("0")}
	k.open()
	for i := 1; i <= 12; i++ {
		text := fmt.Sprintf(`{"v":%d}`, i)
		k.put("a.json", text)
		commits[text] = k.commit(fmt.Sprint(i))
		if i%3 == 0 {
			k.await("version", func() bool { return k.text("a") == text })
		}
	}
	k.asked()
	versions, err := k.writer.log.Versions(t.Context(), "a.json", 0, 100)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(versions), 5)
	for _, v := range versions {
		k.await("version "+string(v.File), func() bool { return k.byOf("a.json", v.N).Commit == commits[string(v.File)] })
	}
}

func TestACommitIsNamedOnceForADocument(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	k.put("b.json", `{"v":1}`)
	first := k.commit("first")
	k.open()
	k.becomes("a.json", byAda(first, "first"))
	for i := range 3 {
		k.put("a.json", fmt.Sprintf(`{"v":"%d"}`, i))
		k.all("a.json")
		k.git("checkout", "--", ".")
		k.all("a.json")
		k.becomes("a.json", asIn(byOwner(t), first))
	}
	k.reopen()
	require.NoError(t, os.Remove(k.path("a.json")))
	k.all("a.json")
	gone := k.commit("gone")
	k.becomes("a.json", byAda(gone, "gone"))
	k.put("a.json", `{"v":1}`)
	k.all("a.json")
	k.becomes("a.json", asIn(byOwner(t), first))
	k.becomes("a.json", byAda(k.commit("again"), "again"))
	require.NoError(t, os.Remove(k.path("a.json")))
	k.all("a.json")
	k.asked()
	require.Equal(t, log.By{Origin: access.OnDisk}, k.by("a.json"))
	require.Equal(t, byAda(first, "first"), k.by("b.json"))
}
