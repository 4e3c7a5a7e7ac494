package confstore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
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
	k.becomes("new.json", doclog.By{Origin: access.OnDisk})
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
	revision := k.Snapshot().Node("a.json").own.revision()
	require.NoError(t, k.Close())
	commit := k.commit("while nobody looked")
	k.open()
	k.becomes("a.json", byAda(commit, "while nobody looked"))
	require.Equal(t, revision, k.Snapshot().Node("a.json").own.revision())
	k.none()
}

// A script that saves and commits, faster than anybody looks.
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
	versions, err := k.recorder.log.Versions(t.Context(), "a.json", 0, 100)
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
	require.Equal(t, doclog.By{Origin: access.OnDisk}, k.by("a.json"))
	require.Equal(t, byAda(first, "first"), k.by("b.json"))
}

// The histories that git makes: each version is that of the commit that made its bytes.
func TestHistories(t *testing.T) {
	ada := gittest.Commit
	for name, play := range map[string]func(k *kit, base string){
		"a revert": func(k *kit, _ string) {
			k.put("a.json", `{"v":2}`)
			k.all("a.json")
			second := k.commit("second")
			k.becomes("a.json", byAda(second, "second"))
			k.git("revert", "--no-edit", "HEAD")
			k.all("a.json")
			k.becomes("a.json", byAda(k.git("rev-parse", "HEAD"), `Revert "second"`))
		},
		"an amended commit": func(k *kit, _ string) {
			k.put("a.json", `{"v":2}`)
			k.all("a.json")
			second := k.commit("second")
			k.becomes("a.json", byAda(second, "second"))
			k.git("commit", "--amend", "--quiet", "-m", "said better")
			k.asked()
			require.Equal(k.t, byAda(second, "second"), k.by("a.json"), "later commits change nothing")
			k.put("a.json", `{"v":3}`)
			k.all("a.json")
			k.git("commit", "--amend", "--quiet", "-a", "-m", "and more")
			k.becomes("a.json", byAda(k.git("rev-parse", "HEAD"), "and more"))
		},
		"a merge": func(k *kit, _ string) {
			k.git("checkout", "--quiet", "-b", "side")
			k.put("b.json", `{"v":"side"}`)
			k.all("b.json")
			side := k.commit("side")
			k.becomes("b.json", byAda(side, "side"))
			k.git("checkout", "--quiet", "main")
			k.all("b.json")
			k.put("a.json", `{"v":"main"}`)
			k.all("a.json")
			main := k.commit("main")
			k.becomes("a.json", byAda(main, "main"))
			k.git("merge", "--quiet", "--no-edit", "side")
			k.all("b.json")
			k.becomes("b.json", asIn(byOwner(k.t), side))
			require.Equal(k.t, byAda(main, "main"), k.by("a.json"), "the merge has not touched it")
		},
		"a merge with a conflict": func(k *kit, _ string) {
			k.git("checkout", "--quiet", "-b", "side")
			k.put("a.json", `{"v":"side"}`)
			k.commit("side")
			k.git("checkout", "--quiet", "main")
			k.put("a.json", `{"v":"main"}`)
			k.commit("main")
			k.git("merge", "--quiet", "-s", "ours", "--no-commit", "side")
			k.put("a.json", `{"v":"both"}`)
			merged := k.commit("merged")
			k.await("the merge", func() bool { return k.text("a") == `{"v":"both"}` })
			k.becomes("a.json", byAda(merged, "merged"))
		},
		"a rebase": func(k *kit, _ string) {
			k.git("checkout", "--quiet", "-b", "side")
			k.put("a.json", `{"v":"side"}`)
			k.commit("side")
			k.git("checkout", "--quiet", "main")
			k.put("b.json", `{"v":"main"}`)
			main := k.commit("main")
			k.await("main", func() bool { return k.text("a") == `{"v":1}` && k.text("b") == `{"v":"main"}` })
			k.becomes("b.json", byAda(main, "main"))
			k.git("checkout", "--quiet", "side")
			k.await("side", func() bool { return k.text("a") == `{"v":"side"}` })
			k.git("rebase", "--quiet", "main")
			k.await("the rebase", func() bool { return k.text("b") == `{"v":"main"}` && k.text("a") == `{"v":"side"}` })
			k.asked()
			k.becomes("b.json", asIn(byOwner(k.t), main))
			commits := []string{k.git("rev-parse", "HEAD"), k.git("rev-parse", "ORIG_HEAD")}
			k.await("a.json to be its commit's, or as in it if that was named", func() bool {
				by := k.by("a.json")
				return slices.Contains(commits, by.Commit) || slices.Contains(commits, strings.TrimPrefix(by.Comment, "as in "))
			})
		},
		"a release before": func(k *kit, _ string) {
			k.put("a.json", `{"v":2}`)
			second := k.commit("second")
			k.all("a.json")
			k.becomes("a.json", byAda(second, "second"))
			k.git("checkout", "--quiet", "HEAD~1")
			k.all("a.json")
			k.becomes("a.json", asIn(byOwner(k.t), k.git("rev-parse", "HEAD")))
		},
		"two pulls, of which one is looked at": func(k *kit, base string) {
			other := filepath.Join(base, "other")
			gittest.Git(k.t, base, "clone", "--quiet", k.cfg.Dir, other)
			gittest.Write(k.t, other, "a.json", `{"v":2}`)
			second := ada(k.t, other, "second")
			gittest.Write(k.t, other, "b.json", `{"v":3}`)
			third := ada(k.t, other, "third")
			k.git("pull", "--quiet", "--ff-only", other)
			k.all("a.json", "b.json")
			k.becomes("a.json", byAda(second, "second"))
			k.becomes("b.json", byAda(third, "third"))
		},
		"a shallow clone": func(k *kit, base string) {
			require.NoError(k.t, k.Close())
			origin := k.cfg.Dir
			k.cfg.Dir, k.cfg.State = filepath.Join(base, "shallow"), nil
			k.cfg.DataDir += "2"
			gittest.Git(k.t, base, "clone", "--quiet", "--depth=1", "file://"+origin, k.cfg.Dir)
			k.open()
			k.asked()
			require.Equal(k.t, byOwner(k.t), k.by("a.json"), "who made it is not there")
			k.put("a.json", `{"v":2}`)
			k.all("a.json")
			k.becomes("a.json", byAda(k.commit("second"), "second"))
		},
		"a linked work tree": func(k *kit, base string) {
			require.NoError(k.t, k.Close())
			linked := filepath.Join(base, "linked")
			k.git("worktree", "add", "--quiet", "-b", "other", linked)
			first := k.git("rev-parse", "HEAD")
			k.cfg.Dir, k.cfg.State = linked, nil
			k.cfg.DataDir += "2"
			k.open()
			k.becomes("a.json", byAda(first, "first"))
			k.put("a.json", `{"v":2}`)
			k.all("a.json")
			k.becomes("a.json", byAda(k.commit("second"), "second"))
		},
		"a submodule": func(k *kit, base string) {
			module := filepath.Join(base, "module")
			gittest.Git(k.t, base, "init", "--quiet", module)
			gittest.Write(k.t, module, "c.json", `{"v":1}`)
			inner := ada(k.t, module, "inner")
			k.git("submodule", "--quiet", "add", module, "team")
			k.all("team/c.json")
			k.commit("with a submodule")
			k.becomes("team/c.json", byAda(inner, "inner"))
			gittest.Write(k.t, module, "c.json", `{"v":2}`)
			inner = ada(k.t, module, "inner again")
			gittest.Git(k.t, k.path("team"), "pull", "--quiet")
			k.all("team/c.json")
			k.becomes("team/c.json", byAda(inner, "inner again"))
		},
		"a directory that is a link, in a repository above": func(k *kit, base string) {
			require.NoError(k.t, k.Close())
			repository := filepath.Join(base, "above")
			gittest.Git(k.t, base, "init", "--quiet", repository)
			odd := `ser"vice é/conf/a 'b" ü.json`
			gittest.Write(k.t, repository, odd, `{"v":1}`)
			first := ada(k.t, repository, "first above")
			k.cfg.Dir, k.cfg.State = filepath.Join(base, "link"), nil
			k.cfg.DataDir += "2"
			require.NoError(k.t, os.Symlink(filepath.Join(repository, `ser"vice é/conf`), k.cfg.Dir))
			k.open()
			k.becomes(`a 'b" ü.json`, byAda(first, "first above"))
			gittest.Write(k.t, repository, odd, `{"v":2}`)
			k.all(`a 'b" ü.json`)
			k.becomes(`a 'b" ü.json`, byAda(ada(k.t, repository, "second above"), "second above"))
		},
		"only the mode": func(k *kit, _ string) {
			first := k.git("rev-parse", "HEAD")
			require.NoError(k.t, k.Close())
			require.NoError(k.t, os.Chmod(k.path("a.json"), 0o755))
			k.commit("only the mode")
			k.cfg.State = nil
			k.cfg.DataDir += "2"
			k.open()
			k.becomes("a.json", byAda(first, "first"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newWorkTree(t)
			k.put("a.json", `{"v":1}`)
			k.put("b.json", `{"v":1}`)
			first := k.commit("first")
			k.open()
			k.becomes("a.json", byAda(first, "first"))
			k.becomes("b.json", byAda(first, "first"))
			play(k, t.TempDir())
		})
	}
}
