package gitrepo_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/gitrepo"
	"confcenter/internal/gitrepo/gitrepotest"
)

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

func (w *work) git(args ...string) string       { return gitrepotest.Git(w.TB, w.dir, args...) }
func (w *work) write(name, text string)         { gitrepotest.Write(w.TB, w.dir, name, text) }
func (w *work) commit(message string) string    { return gitrepotest.Commit(w.TB, w.dir, message) }
func (w *work) path(name string) string         { return filepath.Join(w.dir, name) }
func (w *work) tryHead() (*gitrepo.Head, error) { return gitrepo.Above(w.dir).Head() }

func (w *work) head() *gitrepo.Head {
	h, err := w.tryHead()
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, h.Close()) })
	return h
}

// sees requires the newest commit and what a.json and deep/down/b.json have.
func (w *work) sees(hash, a, b string) {
	h := w.head()
	require.Equal(w, hash, h.Hash)
	require.Equal(w, "Ada Lovelace <ada@example.com>", h.Author)
	require.True(w, h.Has("a.json", []byte(a)))
	require.True(w, h.Has("deep/down/b.json", []byte(b)))
	require.False(w, h.Has("a.json", []byte(a+" ")))
	require.False(w, h.Has("deep/down", nil))
	require.False(w, h.Has("deep/down/b.json/c", []byte(b)))
	require.False(w, h.Has("none/at/all.json", []byte(b)))
}

func TestTheNewestCommitIsRead(t *testing.T) {
	for name, options := range map[string][]string{"sha1": nil, "sha256": {"--object-format=sha256"}} {
		t.Run(name, func(t *testing.T) {
			w := newWork(t, options...)
			w.write("a.json", `{"v":1}`)
			w.write("deep/down/b.json", `{}`)
			w.commit("first")
			w.write("a.json", `{"v":2}`)
			hash := w.commit("raise the limit\nfor the weekend\n\nMore text.")
			require.Equal(t, "raise the limit for the weekend", w.head().Subject)
			w.sees(hash, `{"v":2}`, `{}`)

			w.git("checkout", "--quiet", "--detach")
			w.sees(hash, `{"v":2}`, `{}`)
			w.git("checkout", "--quiet", "main")
			w.git("pack-refs", "--all")
			w.sees(hash, `{"v":2}`, `{}`)
			w.git("repack", "-adf")
			w.sees(hash, `{"v":2}`, `{}`)
		})
	}
}

func TestManyVersionsInAPackAreRead(t *testing.T) {
	w := newWork(t)
	large := func(i int) string { return strings.Repeat(fmt.Sprintf("{\"version\":%d}\n", i/7), 50+i) }
	w.write("deep/down/b.json", `{}`)
	for i := range 300 {
		w.write(fmt.Sprintf("many/%03d.json", i), large(i))
	}
	var hash string
	for i := range 30 {
		w.write("a.json", large(i))
		w.write(fmt.Sprintf("many/%03d.json", i), large(i+1))
		hash = w.commit(fmt.Sprint("change ", i))
	}
	w.git("-c", "pack.packSizeLimit=1m", "gc", "--aggressive", "--prune=now")
	require.NotEqual(t, "0", w.git("rev-list", "--count", "HEAD"))
	w.sees(hash, large(29), `{}`)
	h := w.head()
	for i := range 300 {
		want := large(i)
		if i < 30 {
			want = large(i + 1)
		}
		require.True(t, h.Has(fmt.Sprintf("many/%03d.json", i), []byte(want)), i)
	}
}

func TestRemovedFilesAreThoseOfTheFirstParent(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.write("sub/b.json", `{}`)
	w.commit("first")
	require.False(t, w.head().Removed("never.json"), "there is no parent")
	require.NoError(t, os.RemoveAll(w.path("sub")))
	w.commit("without b")
	h := w.head()
	require.True(t, h.Removed("sub/b.json"))
	require.False(t, h.Removed("a.json"))
	require.False(t, h.Removed("never.json"))
	require.False(t, h.Removed("never/there.json"))
	w.commit("nothing")
	require.False(t, w.head().Removed("sub/b.json"), "another commit has")
}

func TestLinkedWorkTreesSubmodulesAndBorrowedObjects(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.write("deep/down/b.json", `{"b":1}`)
	hash := w.commit("first")

	linked := &work{t, filepath.Join(t.TempDir(), "linked")}
	w.git("worktree", "add", "--quiet", "-b", "other", linked.dir)
	linked.sees(hash, `{}`, `{"b":1}`)
	linked.write("a.json", `[]`)
	linked.sees(linked.commit("on the other branch"), `[]`, `{"b":1}`)
	w.sees(hash, `{}`, `{"b":1}`)

	shared := &work{t, filepath.Join(t.TempDir(), "shared")}
	w.git("clone", "--quiet", "--shared", w.dir, shared.dir)
	shared.sees(hash, `{}`, `{"b":1}`)

	outer := newWork(t)
	outer.git("submodule", "--quiet", "add", w.dir, "teams/one")
	outer.commit("with a submodule")
	inner := &work{t, outer.path("teams/one")}
	inner.sees(hash, `{}`, `{"b":1}`)
	require.False(t, outer.head().Has("teams/one/a.json", []byte(`{}`)), "that is the other repository's")
	require.Nil(t, gitrepo.At(outer.path("teams")))
	require.Equal(t, outer.dir, gitrepo.Above(outer.path("teams")).Work)

	shallow := &work{t, filepath.Join(t.TempDir(), "shallow")}
	linked.git("clone", "--quiet", "--depth=1", "file://"+linked.dir, shallow.dir)
	require.False(t, shallow.head().Removed("a.json"))
	require.True(t, shallow.head().Has("a.json", []byte(`[]`)))
}

func TestOnlyRegularFilesAreFiles(t *testing.T) {
	w := newWork(t)
	require.NoError(t, os.Symlink("target.json", w.path("link.json")))
	w.write("run.json", `{}`)
	require.NoError(t, os.Chmod(w.path("run.json"), 0o755))
	w.commit("first")
	require.False(t, w.head().Has("link.json", []byte("target.json")))
	require.True(t, w.head().Has("run.json", []byte(`{}`)))
}

func TestNothingOfARepositoryIsRun(t *testing.T) {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.write(".gitattributes", "*.json filter=evil")
	w.commit("first")
	ran := w.path("ran")
	for _, key := range []string{"core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.sshCommand", "core.pager", "uploadpack.packObjectsHook"} {
		w.git("config", key, "touch "+ran)
	}
	w.git("config", "core.hooksPath", w.dir)
	require.True(t, w.head().Has("a.json", []byte(`{}`)))
	require.NoFileExists(t, ran)
}

// damaged is a repository in which something has been replaced.
func damaged(t *testing.T, damage func(w *work)) error {
	w := newWork(t)
	w.write("a.json", `{}`)
	w.commit("first")
	w.git("repack", "-adf")
	w.git("pack-refs", "--all")
	damage(w)
	h, err := w.tryHead()
	if err == nil {
		err = h.Close()
	}
	return err
}

func TestDamagedAndHostileRepositoriesAreRefused(t *testing.T) {
	replace := func(name, text string) func(w *work) {
		return func(w *work) {
			matches, err := filepath.Glob(w.path(name))
			require.NoError(t, err)
			if len(matches) == 0 {
				matches = []string{w.path(name)}
			}
			for _, path := range matches {
				require.NoError(t, os.RemoveAll(path))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
		}
	}
	for want, damage := range map[string]func(w *work){
		"is no hash":            replace(".git/HEAD", "garbage"),
		"is no reference":       replace(".git/HEAD", "ref: refs/../../../secret\n"),
		"in circles":            replace(".git/refs/heads/main", "ref: refs/heads/main\n"),
		"no commit on":          replace(".git/HEAD", "ref: refs/heads/other\n"),
		"is missing":            replace(".git/objects/pack/*.idx", "\xfftOc\x00\x00\x00\x02"),
		"longer than":           replace(".git/HEAD", strings.Repeat("a", 17<<20)),
		"EOF":                   replace(".git/objects/pack/*.pack", "PACK"),
		"no regular file":       func(w *work) { replace(".git/HEAD", "")(w); pipe(t, w.path(".git/HEAD")) },
		"no such file":          func(w *work) { require.NoError(t, os.Remove(w.path(".git/HEAD"))) },
		"more would have to be": func(w *work) { loose(w, "commit 99999999999\x00") },
		"another kind":          func(w *work) { loose(w, "blob 3\x00abc") },
		"without files":         func(w *work) { loose(w, "commit 3\x00abc") },
	} {
		require.ErrorContains(t, damaged(t, damage), want)
	}
}

func pipe(t *testing.T, path string) {
	require.NoError(t, os.Remove(path))
	require.NoError(t, syscall.Mkfifo(path, 0o600))
}

// loose puts an object in place of the newest commit.
func loose(w *work, text string) {
	hash := w.git("rev-parse", "HEAD")
	var object bytes.Buffer
	z := zlib.NewWriter(&object)
	_, err := z.Write([]byte(text))
	require.NoError(w, err)
	require.NoError(w, z.Close())
	gitrepotest.Write(w, w.path(".git/objects"), hash[:2]+"/"+hash[2:], object.String())
}

// FuzzPacks reads packs that anybody may have written.
func FuzzPacks(f *testing.F) {
	w := newWork(f)
	for i := range 20 {
		w.write("a.json", strings.Repeat(fmt.Sprint(i), 400))
		w.write(fmt.Sprintf("%d.json", i), strings.Repeat("x", i))
		w.commit("change")
	}
	w.git("repack", "-adf")
	read := func(pattern string) (string, []byte) {
		paths, err := filepath.Glob(w.path(pattern))
		require.NoError(f, err)
		text, err := os.ReadFile(paths[0])
		require.NoError(f, err)
		require.NoError(f, os.Chmod(paths[0], 0o600))
		return paths[0], text
	}
	pack, packed := read(".git/objects/pack/*.pack")
	index, indexed := read(".git/objects/pack/*.idx")
	f.Add(uint16(0), uint16(0), byte(0))
	f.Add(uint16(9), uint16(1040), byte(255))
	f.Fuzz(func(t *testing.T, inPack, inIndex uint16, change byte) {
		for path, text := range map[string][]byte{pack: packed, index: indexed} {
			text = bytes.Clone(text)
			at := inPack
			if path == index {
				at = inIndex
			}
			text[int(at)%len(text)] ^= change
			require.NoError(t, os.WriteFile(path, text, 0o600))
		}
		h, err := gitrepo.At(w.dir).Head()
		if err != nil {
			return
		}
		h.Has("a.json", nil)
		h.Removed("3.json")
		require.NoError(t, h.Close())
	})
}

func BenchmarkHead(b *testing.B) {
	w := newWork(b)
	contents := []byte(`{"key":"value"}`)
	for i := range 1000 {
		w.write(fmt.Sprintf("d%d/%d.json", i/100, i), string(contents))
	}
	w.commit("first")
	w.git("repack", "-adf")
	for _, files := range []int{1, 1000} {
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			for b.Loop() {
				h, err := gitrepo.Above(w.dir).Head()
				require.NoError(b, err)
				for i := range files {
					require.True(b, h.Has(fmt.Sprintf("d%d/%d.json", i/100, i), contents))
				}
				require.NoError(b, h.Close())
			}
		})
	}
}
