//go:build !race || soak

package confstore

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/git/gittest"
)

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
