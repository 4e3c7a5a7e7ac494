package confstore

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/internal/git/gittest"
)

// by is who made the newest version of a document.
func (k *kit) by(name string) log.By {
	k.t.Helper()
	d, err := k.writer.log.Document(name)
	require.NoError(k.t, err)
	return k.byOf(name, d.N)
}

// byOf is who made a version of a document.
func (k *kit) byOf(name string, n int64) log.By {
	k.t.Helper()
	v, err := k.writer.log.Version(k.t.Context(), name, n)
	require.NoError(k.t, err)
	change, err := k.writer.log.Change(k.t.Context(), v.Seq)
	require.NoError(k.t, err)
	by, err := k.writer.log.Who(k.t.Context(), &v, &change)
	require.NoError(k.t, err)
	require.NotZero(k.t, by.Time)
	by.Time = 0
	return by
}

func (k *kit) git(args ...string) string { return gittest.Git(k.t, k.cfg.Dir, args...) }

func (k *kit) commit(message string) string { return gittest.Commit(k.t, k.cfg.Dir, message) }

// newWorkTree is a store that is not open yet, in an empty work tree.
func newWorkTree(t *testing.T) *kit {
	k := newKit(t, nil)
	require.NoError(t, k.Close())
	k.git("init", "--quiet")
	return k
}

// becomes waits until git has told who made the newest version of a document.
func (k *kit) becomes(name string, want log.By) {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			k.t.Logf("it is by %+v", k.by(name))
		}
	}()
	k.await(fmt.Sprintf("%s to be by %+v", name, want), func() bool { return k.by(name) == want })
}

// asked waits until git has been asked about all that is served.
func (k *kit) asked() {
	k.inside(func() {})
	for range 3 { // the second is taken when the round is over that the first begins, or before it
		k.publisher.commits.Again()
	}
}

// byOwner is an edit of a file that the test's user owns.
func byOwner(t testing.TB) log.By {
	me, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	require.NoError(t, err)
	return log.By{Author: me.Username, Origin: access.OnDisk}
}

func byAda(commit, comment string) log.By {
	return log.By{Author: "Ada Lovelace <ada@example.com>", Origin: access.OnDisk, Commit: commit, Comment: comment}
}

func TestEditsAreTheOwners(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	require.Equal(t, byOwner(t), k.by("a.json"))
	k.put("a.json", `{"v":1}`)
	k.all("a.json")
	require.Equal(t, byOwner(t), k.by("a.json"))
	require.NoError(t, os.Remove(k.path("a.json")))
	k.all("a.json")
	require.Equal(t, log.By{Origin: access.OnDisk}, k.by("a.json"), "a file that is gone has no owner")
}

func TestAuthorsOfEditsAreKeptWhileTheLogTakesNone(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{}`})
	k.writer.unsaved = map[string]*log.By{"a.json": {Author: "eve", Time: 7}, "b.json": nil}
	c, names := k.writer.missed()
	require.ElementsMatch(t, []string{"a.json"}, names)
	require.Equal(t, log.By{Author: "eve", Time: 7}, c.By)
	require.Equal(t, "a.json", c.Versions[0].Name)
}

func TestUsersWithoutANameAreNumbers(t *testing.T) {
	require.Equal(t, "uid 3999999999", owner(3_999_999_999).Author)
}
