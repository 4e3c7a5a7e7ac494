package git_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/internal/git"
	"confcenter/internal/git/gittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// work is a real repository with a work tree.
type work struct {
	testing.TB
	dir string
}

func newWork(t testing.TB, options ...string) *work {
	w := &work{t, t.TempDir()}
	w.git(append([]string{"init", "--quiet"}, options...)...)
	return w
}

func (w *work) git(args ...string) string    { return gittest.Git(w.TB, w.dir, args...) }
func (w *work) write(name, text string)      { gittest.Write(w.TB, w.dir, name, text) }
func (w *work) commit(message string) string { return gittest.Commit(w.TB, w.dir, message) }
func (w *work) path(name string) string      { return filepath.Join(w.dir, name) }

// has is what HEAD has at paths.
func (w *work) has(paths ...string) (head string, blobs []string, err error) {
	o, err := git.Above(w.dir).Objects(w.Context())
	if err != nil {
		return "", nil, err
	}
	heads, err := o.Each("HEAD^{commit}")
	if err == nil {
		names := make([]string, len(paths))
		for i, path := range paths {
			names[i] = heads[0] + ":" + path
		}
		head = heads[0]
		blobs, err = o.Each(names...)
	}
	if failed := o.Close(); failed != nil {
		err = failed
	}
	return head, blobs, err
}

// log is what git tells of paths: SUBJECT PATH, and a minus if the commit has removed it.
func (w *work) log(paths ...string) (list []string, err error) {
	head := w.git("rev-parse", "HEAD")
	err = git.Above(w.dir).Log(w.Context(), head, paths, func(c *git.Commit, path, blob string) bool {
		require.Equal(w, "Ada Lovelace <ada@example.com>", c.Author)
		require.WithinDuration(w, time.Now(), c.Time, time.Hour)
		require.Len(w, c.Hash, len(head))
		if blob == "" {
			path += "-"
		}
		list = append(list, c.Subject+" "+path)
		return true
	})
	return list, err
}

func (w *work) told(want []string, paths ...string) {
	w.Helper()
	got, err := w.log(paths...)
	require.NoError(w, err)
	require.Equal(w, want, got)
}

func TestWhatCommitsHaveChanged(t *testing.T) {
	for name, options := range map[string][]string{"sha1": nil, "sha256": {"--object-format=sha256"}} {
		t.Run(name, func(t *testing.T) {
			w := newWork(t, options...)
			head, _, err := w.has()
			require.NoError(t, err)
			require.Empty(t, head, "there is no commit yet")
			w.write("a.json", `{"v":1}`)
			w.write("deep/ä \"quoted\"\n.json", `{}`)
			w.commit("first")
			w.write("a.json", `{"v":2}`)
			w.commit("raise the limit\nfor the weekend\n\nMore text.")
			require.NoError(t, os.Chmod(w.path("a.json"), 0o755))
			w.commit("only the mode")
			w.git("mv", "a.json", "b.json")
			hash := w.commit("renamed")
			require.NoError(t, os.Remove(w.path("b.json")))
			require.NoError(t, os.Symlink("other.json", w.path("b.json")))
			w.commit("now a link")
			w.told([]string{"now a link b.json-", "renamed a.json-", "renamed b.json", "raise the limit for the weekend a.json", "first a.json"}, "a.json", "b.json")
			w.told([]string{"first deep/ä \"quoted\"\n.json"}, "deep")

			w.git("checkout", "--quiet", hash)
			head, blobs, err := w.has("b.json", "a.json", "deep", "none")
			require.NoError(t, err)
			require.Equal(t, hash, head)
			require.Equal(t, []string{git.Blob([]byte(`{"v":2}`), len(hash)), "", "", ""}, blobs)
			w.git("repack", "-adf")
			w.git("pack-refs", "--all")
			_, packed, err := w.has("b.json", "a.json", "deep", "none")
			require.NoError(t, err)
			require.Equal(t, blobs, packed)
		})
	}
}

func TestMergesAreNamedForWhatTheyMade(t *testing.T) {
	w := newWork(t)
	w.write("a.json", "1\n")
	w.write("b.json", "1\n")
	w.commit("first")
	w.git("checkout", "--quiet", "-b", "side")
	w.write("a.json", "2\n")
	w.write("b.json", "2\n")
	w.commit("side")
	w.git("checkout", "--quiet", "main")
	w.write("a.json", "3\n")
	w.commit("other")
	w.git("merge", "--quiet", "--no-commit", "-s", "ours", "side")
	w.write("a.json", "4\n")
	w.write("b.json", "2\n")
	w.commit("merged")
	got, err := w.log("a.json", "b.json")
	require.NoError(t, err)
	require.Equal(t, "merged a.json", got[0])
	require.NotContains(t, got, "merged b.json", "it is the side's")
	require.Contains(t, got, "side b.json")
}

func TestLinkedWorkTreesSubmodulesAndBorrowedObjects(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.commit("first")
	require.Nil(t, git.At(filepath.Dir(w.dir)))

	linked := &work{t, filepath.Join(t.TempDir(), "linked")}
	w.git("worktree", "add", "--quiet", "-b", "other", linked.dir)
	linked.write("a.json", `[]`)
	linked.commit("on the other branch")
	linked.told([]string{"on the other branch a.json", "first a.json"}, "a.json")
	w.told([]string{"first a.json"}, "a.json")

	shared := &work{t, filepath.Join(t.TempDir(), "shared")}
	w.git("clone", "--quiet", "--shared", w.dir, shared.dir)
	shared.told([]string{"first a.json"}, "a.json")

	outer := newWork(t)
	outer.git("submodule", "--quiet", "add", w.dir, "teams/one")
	outer.commit("with a submodule")
	inner := &work{t, outer.path("teams/one")}
	inner.told([]string{"first a.json"}, "a.json")
	require.Nil(t, git.At(outer.path("teams")))
	require.Equal(t, outer.dir, git.Above(outer.path("teams")).Work)

	shallow := &work{t, filepath.Join(t.TempDir(), "shallow")}
	linked.git("clone", "--quiet", "--depth=1", "file://"+linked.dir, shallow.dir)
	shallow.told(nil, "a.json")
	shallow.write("a.json", `1`)
	shallow.commit("here")
	shallow.told([]string{"here a.json"}, "a.json")
}

func TestAHeadReachesWhatItIsMadeOf(t *testing.T) {
	w := newWork(t)
	first, second := w.commit("first"), w.commit("second")
	r := git.Above(w.dir)
	for heads, want := range map[[2]string]bool{{second, first}: true, {first, first}: true, {first, second}: false} {
		reaches, err := r.Reaches(t.Context(), heads[0], heads[1])
		require.NoError(t, err)
		require.Equal(t, want, reaches)
	}
	_, err := r.Reaches(t.Context(), first, strings.Repeat("0", 40))
	require.Error(t, err)
}

func TestTheStateIsAnotherWhenHeadMoves(t *testing.T) {
	w := newWork(t)
	seen := map[string]bool{}
	other := func(what string) {
		t.Helper()
		state := git.Above(w.dir).State()
		require.Equal(t, state, git.Above(w.dir).State())
		require.False(t, seen[state], what)
		seen[state] = true
	}
	other("at first")
	w.write("a.json", `{}`)
	first := w.commit("first")
	other("a commit")
	w.git("commit", "--quiet", "--allow-empty", "--amend", "-m", "amended")
	other("an amended commit")
	w.git("pack-refs", "--all")
	other("packed")
	w.git("-c", "core.logAllRefUpdates=false", "update-ref", "refs/heads/main", first)
	other("without a log")
	w.git("checkout", "--quiet", "--detach")
	other("detached")
}

// What a repository configures runs nothing, fetches nothing, and changes nothing of what is told.
func TestNothingOfARepositoryIsRun(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.write(".gitattributes", "*.json filter=evil diff=evil")
	first := w.commit("first")
	w.write("a.json", `{"v":2}`)
	w.commit("second")
	ran := w.path("ran")
	script := w.path("evil")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700))
	for _, key := range []string{
		"core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy", "core.alternateRefsCommand", "pager.log", "pager.cat-file", "pager.merge-base",
		"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.external", "diff.evil.command", "diff.evil.textconv", "gpg.program", "gpg.ssh.program", "credential.helper",
		"uploadpack.packObjectsHook", "alias.log", "alias.cat-file", "alias.merge-base", "sequence.editor", "interactive.diffFilter", "trailer.x.command", "merge.evil.driver",
	} {
		value := script
		if strings.HasPrefix(key, "alias.") {
			value = "!" + script
		}
		w.git("config", key, value)
	}
	hooks := w.path("hooks")
	require.NoError(t, os.Mkdir(hooks, 0o755))
	for _, hook := range []string{"post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout", "pre-auto-gc"} {
		require.NoError(t, os.Symlink(script, filepath.Join(hooks, hook)))
	}
	for key, value := range map[string]string{
		"core.hooksPath": hooks, "log.showSignature": "true", "log.showRoot": "false", "log.follow": "true", "log.mailmap": "true", "log.decorate": "full", "log.diffMerges": "off",
		"diff.relative": "true", "diff.renames": "copies", "diff.orderFile": w.path("none"), "diff.noprefix": "true", "color.ui": "always", "core.quotePath": "true", "core.abbrev": "4",
		"format.pretty": "oneline", "core.worktree": "/", "i18n.logOutputEncoding": "UTF-16", "core.attributesFile": w.path(".gitattributes"),
	} {
		w.git("-c", "core.worktree="+w.dir, "config", key, value)
	}
	t.Setenv("GIT_EXTERNAL_DIFF", script)
	t.Setenv("GIT_CONFIG_COUNT", "1")
	t.Setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
	t.Setenv("GIT_CONFIG_VALUE_0", script)
	t.Setenv("GIT_DIR", "/nowhere")
	r := git.At(w.dir)
	_, blobs, err := w.has("a.json")
	require.NoError(t, err)
	require.Equal(t, git.Blob([]byte(`{"v":2}`), 40), blobs[0])
	var got []string
	require.NoError(t, r.Log(t.Context(), blobsHead(t, r), []string{"a.json"}, func(c *git.Commit, path, _ string) bool {
		got = append(got, c.Subject+" "+path)
		return true
	}))
	require.Equal(t, []string{"second a.json", "first a.json"}, got)
	reaches, err := r.Reaches(t.Context(), blobsHead(t, r), first)
	require.NoError(t, err)
	require.True(t, reaches)
	require.NoFileExists(t, ran)
}

// blobsHead is HEAD, as our own question tells it.
func blobsHead(t *testing.T, r *git.Repository) string {
	o, err := r.Objects(t.Context())
	require.NoError(t, err)
	heads, err := o.Each("HEAD^{commit}")
	require.NoError(t, err)
	require.NoError(t, o.Close())
	return heads[0]
}

// Objects that are missing are fetched from nowhere, by no protocol.
func TestNothingIsFetched(t *testing.T) {
	for _, url := range []string{"ext::%s %%S", "ssh://host/x", "file:///nowhere", "evil::x"} {
		t.Run(url, func(t *testing.T) {
			w := newWork(t)
			w.write("a.json", `{}`)
			w.write("sub/b.json", `{}`)
			head := w.commit("first")
			tree := w.git("rev-parse", "HEAD:sub")
			require.NoError(t, os.Remove(w.path(".git/objects/"+tree[:2]+"/"+tree[2:])))
			ran := w.path("ran")
			script := w.path("evil")
			require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o700))
			if strings.Contains(url, "%s") {
				url = fmt.Sprintf(url, script)
			}
			for key, value := range map[string]string{
				"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true", "remote.origin.partialCloneFilter": "tree:0",
				"remote.origin.url": url, "remote.origin.uploadpack": script, "remote.origin.vcs": "", "protocol.allow": "always", "protocol.ext.allow": "always", "core.sshCommand": script,
			} {
				if value != "" {
					w.git("config", key, value)
				}
			}
			require.NoError(t, os.Mkdir(w.path("bin"), 0o755))
			require.NoError(t, os.Symlink(script, w.path("bin/git-remote-evil")))
			t.Setenv("PATH", w.path("bin")+":"+os.Getenv("PATH"))
			_, blobs, err := w.has("a.json", "sub/b.json")
			require.NoError(t, err)
			require.NotEmpty(t, blobs[0])
			require.Empty(t, blobs[1])
			require.Error(t, git.At(w.dir).Log(t.Context(), head, []string{"sub/b.json"}, func(*git.Commit, string, string) bool { return true }))
			require.NoFileExists(t, ran)
		})
	}
}

func TestReplacedCommitsAndGraftsDoNotCount(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `1`)
	first := w.commit("first")
	w.write("a.json", `2`)
	second := w.commit("second")
	w.git("replace", second, w.git("commit-tree", "-m", "forged", "HEAD^{tree}"))
	gittest.Write(t, w.dir, ".git/info/grafts", second+"\n")
	require.NotContains(t, w.git("log", "--format=%s"), "second", "they count for others")
	w.told([]string{"second a.json", "first a.json"}, "a.json")
	reaches, err := git.At(w.dir).Reaches(t.Context(), second, first)
	require.NoError(t, err)
	require.True(t, reaches)
}

// A git that does not end is ended, with all that it has started.
func TestAQuestionHasALimit(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `1`)
	head := w.commit("first")
	require.NoError(t, syscall.Mkfifo(w.path("pipe"), 0o600)) // which no one writes to
	w.git("config", "include.path", w.path("pipe"))
	for name, ask := range map[string]func(ctx context.Context) error{
		"objects": func(ctx context.Context) error {
			o, err := git.At(w.dir).Objects(ctx)
			require.NoError(t, err)
			_, err = o.Each("HEAD", strings.Repeat("x", 1<<20))
			require.Error(t, o.Close())
			return err
		},
		"log": func(ctx context.Context) error {
			return git.At(w.dir).Log(ctx, head, []string{"a.json"}, func(*git.Commit, string, string) bool { return true })
		},
		"reaches": func(ctx context.Context) error {
			_, err := git.At(w.dir).Reaches(ctx, head, head)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.Error(t, ask(ctx))
		})
	}
}

func TestALogIsEndedWhenEnoughIsKnown(t *testing.T) {
	w := newWork(t)
	for i := range 50 {
		w.write("a.json", fmt.Sprint(i))
		w.commit(fmt.Sprint("change ", i))
	}
	n := 0
	require.NoError(t, git.At(w.dir).Log(t.Context(), "HEAD", nil, func(c *git.Commit, _, _ string) bool {
		n++
		return c.Subject != "change 40"
	}))
	require.Equal(t, 10, n)
}

// What repositories may be made of that someone has damaged: no answer, and no waiting.
func TestDamagedRepositories(t *testing.T) {
	for name, damage := range map[string]func(w *work){
		"a pointer to nowhere": func(w *work) { w.replace(".git", "gitdir: nowhere\n") },
		"no pointer":           func(w *work) { w.replace(".git", "garbage") },
		"a pipe": func(w *work) {
			require.NoError(w, os.RemoveAll(w.path(".git")))
			require.NoError(w, syscall.Mkfifo(w.path(".git"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWork(t)
			w.write("a.json", `{}`)
			w.commit("first")
			damage(w)
			require.Nil(t, git.At(w.dir))
		})
	}
	for name, damage := range map[string]func(w *work){
		"HEAD":    func(w *work) { w.replace(".git/HEAD", "garbage") },
		"config":  func(w *work) { w.replace(".git/config", "[core") },
		"objects": func(w *work) { w.replace(".git/objects", "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWork(t)
			w.write("a.json", `{}`)
			w.commit("first")
			damage(w)
			_, _, err := w.has("a.json")
			require.Error(t, err)
			git.At(w.dir).State()
		})
	}
}

func (w *work) replace(name, text string) {
	require.NoError(w, os.RemoveAll(w.path(name)))
	require.NoError(w, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func TestGitIsFoundWithoutAPath(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `1`)
	head := w.commit("first")
	bin := filepath.Join(w.dir, "git") // which is not to be run, whatever the directory is
	require.NoError(t, os.WriteFile(bin, []byte("#!/bin/sh\ntouch "+w.path("ran")+"\n"), 0o700))
	t.Chdir(w.dir)
	for _, search := range []string{"", ":" + os.Getenv("PATH"), ".:" + os.Getenv("PATH")} {
		t.Setenv("PATH", search)
		require.Equal(t, head, blobsHead(t, git.At(w.dir)))
	}
	t.Setenv("PATH", t.TempDir())
	_, err := git.At(w.dir).Objects(t.Context())
	require.ErrorIs(t, err, exec.ErrNotFound)
	t.Setenv("PATH", ".")
	_, err = git.At(w.dir).Objects(t.Context())
	require.Error(t, err)
	require.NoFileExists(t, w.path("ran"))
}
