package confstore

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/doclog"
	"confcenter/internal/gitrepo/gitrepotest"
)

// by is who made the newest version of a document.
func (k *kit) by(name string) doclog.By {
	k.t.Helper()
	d, err := k.recorder.log.Document(name)
	require.NoError(k.t, err)
	v, err := k.recorder.log.Version(k.t.Context(), name, d.N)
	require.NoError(k.t, err)
	change, err := k.recorder.log.Change(k.t.Context(), v.Seq)
	require.NoError(k.t, err)
	by, err := k.recorder.log.Who(k.t.Context(), &v, &change)
	require.NoError(k.t, err)
	require.NotZero(k.t, by.Time)
	by.Time = 0
	return by
}

func (k *kit) git(args ...string) string { return gitrepotest.Git(k.t, k.cfg.Dir, args...) }

func (k *kit) commit(message string) string { return gitrepotest.Commit(k.t, k.cfg.Dir, message) }

// newWorkTree is a store that is not open yet, in an empty work tree.
func newWorkTree(t *testing.T) *kit {
	k := newKit(t, nil)
	require.NoError(t, k.Close())
	k.git("init", "--quiet")
	return k
}

// byOwner is an edit of a file that the test's user owns.
func byOwner(t testing.TB) doclog.By {
	me, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	require.NoError(t, err)
	return doclog.By{Author: me.Username, Origin: access.OnDisk}
}

func byAda(commit, comment string) doclog.By {
	return doclog.By{Author: "Ada Lovelace <ada@example.com>", Origin: access.OnDisk, Commit: commit, Comment: comment}
}

func TestEditsAreTheOwners(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.put("a.json", `{"v":1}`)
	k.all("a.json")
	require.Equal(t, byOwner(t), k.by("a.json"))
	require.NoError(t, os.Remove(k.path("a.json")))
	k.all("a.json")
	require.Equal(t, doclog.By{Origin: access.OnDisk}, k.by("a.json"), "a file that is gone has no owner")
}

func TestFilesOfTheNewestCommitAreItsAuthors(t *testing.T) {
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
	require.Equal(t, byAda(first, "first"), k.by("a.json"))

	k.git("checkout", "--quiet", second)
	k.all("a.json", "sub/b.json")
	require.Equal(t, byAda(second, "raise v"), k.by("a.json"))
	require.Equal(t, byAda(second, "raise v"), k.by("sub/b.json"))

	k.git("checkout", "--quiet", third)
	k.all("sub/b.json")
	require.Equal(t, byAda(third, "without b"), k.by("sub/b.json"))

	k.put("a.json", `{"v":"not committed"}`)
	k.all("a.json")
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.commit("too late")
	k.none()
	require.Equal(t, byOwner(t), k.by("a.json"), "nobody knew of the commit when it was served")
}

func TestFilesThatCameTogetherEachHaveTheirAuthor(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{}`)
	commit := k.commit("first")
	k.put("b.json", `{}`)
	gitrepotest.Git(t, k.cfg.Dir, "init", "--quiet", k.path("team"))
	k.put("team/c.json", `{}`)
	ofTeam := gitrepotest.Commit(t, k.path("team"), "of the team")
	k.open()
	require.Equal(t, byAda(commit, "first"), k.by("a.json"))
	require.Equal(t, byOwner(t), k.by("b.json"))
	require.Equal(t, byAda(ofTeam, "of the team"), k.by("team/c.json"))
}

func TestAuthorsOfEditsAreKeptWhileTheLogTakesNone(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	k.recorder.unsaved = map[string]*doclog.By{"a.json": {Author: "eve", Time: 7}, "b.json": nil}
	var w writing
	c := k.recorder.missed(&w)
	require.Equal(t, doclog.By{Author: "eve", Time: 7}, c.By)
	require.Equal(t, "a.json", c.Versions[0].Name)
}

func TestARepositoryIsBelievedIfItsOwnerMayChangeTheFile(t *testing.T) {
	s := &signing{topUser: 7001}
	file := owned{uid: 7002}
	for owner, believed := range map[uint32]bool{0: true, 7001: true, 7002: true, uint32(os.Geteuid()): true, 7003: false} {
		require.Equal(t, believed, s.believes(owner, file), owner)
	}
	require.False(t, s.believes(7002, nil))
}

func TestUsersWithoutANameAreNumbers(t *testing.T) {
	s := &signing{owners: map[uint32]*access.Actor{}}
	require.Equal(t, "uid 3999999999", s.owner(3_999_999_999).Author)
}

// owned is a file of a user.
type owned struct{ uid uint32 }

func (o owned) Sys() any         { return &syscall.Stat_t{Uid: o.uid} }
func (owned) Name() string       { return "a.json" }
func (owned) Size() int64        { return 0 }
func (owned) Mode() fs.FileMode  { return 0 }
func (owned) ModTime() time.Time { return time.Time{} }
func (owned) IsDir() bool        { return false }

func BenchmarkSign(b *testing.B) {
	for _, inGit := range []bool{false, true} {
		b.Run(fmt.Sprintf("git=%t", inGit), func(b *testing.B) {
			k := newKit(b, map[string]string{"a.json": `{}`})
			if inGit {
				k.git("init", "--quiet")
				k.commit("first")
			}
			info, err := os.Stat(k.path("a.json"))
			require.NoError(b, err)
			for b.Loop() {
				k.directory.sign([]edit{{name: "a.json", text: []byte(`{}`), file: []byte(`{}`), info: info}})
			}
		})
	}
}

func TestFilesWaitForTheCommitThatGitIsAboutToMake(t *testing.T) {
	k := newWorkTree(t)
	k.put("a.json", `{"v":1}`)
	k.commit("first")
	k.open()
	require.NoError(t, k.Close()) // so that nobody else uses the intake
	now := time.Now()
	awaits := func(text string, indexWritten time.Time) bool {
		require.NoError(t, os.Chtimes(k.path(".git/index"), indexWritten, indexWritten))
		r := reading{name: "a.json", raw: doclog.DigestOf([]byte(text)), data: []byte(text)}
		return k.intake.commitPends([]reading{r, {name: "b.json", missing: true}, {name: "c.json", fault: "is broken"}}, now)
	}
	require.True(t, awaits(`{"v":2}`, now))
	require.False(t, awaits(`{"v":2}`, now.Add(-2*gitGrace)), "git did something else, some time ago")
	require.False(t, awaits(`{"v":2}`, now.Add(2*gitGrace)), "a clock is wrong")
	require.False(t, awaits(`{"v":1}`, now), "it is what is served")
	k.put("a.json", `{"v":3}`)
	k.commit("second")
	require.False(t, awaits(`{"v":3}`, now), "HEAD has it")
	require.True(t, awaits(`{"v":1.0}`, now))

	edited := []reading{{name: "a.json", data: []byte("1")}}
	for i := range time.Duration(25) { // while git writes its index again and again
		now := now.Add(i * gitGrace / 10)
		require.NoError(t, os.Chtimes(k.path(".git/index"), now, now))
		require.Equal(t, i != 10 && i != 21, k.intake.awaitsCommit(edited, now), i)
	}
	require.NoError(t, os.RemoveAll(k.path(".git")))
	require.False(t, k.intake.awaitsCommit(edited, now))
}
