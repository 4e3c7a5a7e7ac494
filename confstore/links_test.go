package confstore

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/change"
	"confcenter/confstore/log"
	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/internal/health"
)

// linkedKit has a file with five names: its own, two that a directory's links give it, that of a link, and
// that of a link to the link.
func linkedKit(t *testing.T) *kit {
	k := newKit(t, map[string]string{"real/a.json": `{"v":1}`, "other.json": `1`})
	for name, to := range map[string]string{"dir": "real", "again": "dir", "file.json": "real/a.json", "chain.json": "file.json"} {
		require.NoError(t, os.Symlink(to, k.path(name)))
	}
	k.all("again/a.json", "chain.json", "dir/a.json", "file.json")
	return k
}

var fiveNames = []string{"again/a.json", "chain.json", "dir/a.json", "file.json", "real/a.json"}

// sameChange checks that documents have been made by one change, of whom.
func (k *kit) sameChange(who string, names ...string) {
	k.t.Helper()
	newest := k.Snapshot().Node(names[0]).Revision(false)
	for _, name := range names {
		require.Equal(k.t, newest, k.Snapshot().Node(name).Revision(false), name)
		versions, err := k.writer.log.Versions(k.t.Context(), name, 0, 1)
		require.NoError(k.t, err)
		change, err := k.writer.log.Change(k.t.Context(), versions[0].Seq)
		require.NoError(k.t, err)
		by, err := k.writer.log.Who(k.t.Context(), &versions[0], &change)
		require.NoError(k.t, err)
		require.Equal(k.t, who, by.Author, name)
	}
}

// TestAWriteIsOneChangeOfAllNamesOfAFile, by whichever it is made.
func TestAWriteIsOneChangeOfAllNamesOfAFile(t *testing.T) {
	k := linkedKit(t)
	ann := &access.Actor{Author: "ann", Origin: access.OverTCP}
	for i, name := range []string{"real/a.json", "dir/a.json", "again/a.json"} {
		text := `{"v":2` + string(rune('0'+i)) + `}`
		_, err := k.set(SetRequest{Name: name, Contents: []byte(text), Actor: ann})
		require.NoError(t, err)
		b := k.next()
		require.ElementsMatch(t, fiveNames, names(b), name)
		for _, c := range b.Changes {
			require.Same(t, ann, c.Actor, c.Name)
			require.Equal(t, text, textOf(c.Node, false))
		}
		k.none()
		k.sameChange("ann", fiveNames...)
	}
	_, err := k.set(SetRequest{Name: "dir/deep/n.json", Contents: []byte(`1`), Actor: ann})
	require.NoError(t, err)
	inDeep := []string{"again/deep/n.json", "dir/deep/n.json", "real/deep/n.json"}
	require.ElementsMatch(t, inDeep, names(k.next()))
	k.none()
	k.sameChange("ann", inDeep...)

	r, err := changeNow(t, k.Store, change.Request{Actor: ann, Documents: []change.Document{write("other.json", `2`), write("real/a.json", `{"v":3}`)}})
	require.NoError(t, err)
	require.ElementsMatch(t, append([]string{"other.json"}, fiveNames...), names(k.next()))
	require.Len(t, r.Documents, 6)
	k.none()

	_, err = k.set(SetRequest{Name: "real/a.json", Actor: ann})
	require.NoError(t, err)
	require.ElementsMatch(t, fiveNames, names(k.next()))
	k.none()
	k.sameChange("ann", fiveNames...)
	_, err = k.set(SetRequest{Name: "real/a.json", Contents: []byte(`{"v":4}`), Actor: ann})
	require.NoError(t, err)
	require.ElementsMatch(t, fiveNames, names(k.next()), "the links are there still")
	k.none()
	k.reopen()
	k.none()
	for _, link := range []string{"dir", "again", "file.json", "chain.json"} {
		info, err := os.Lstat(k.path(link))
		require.NoError(t, err)
		require.NotZero(t, info.Mode()&os.ModeSymlink, link)
	}
}

// TestAChangeThatNamesAFileTwice has to say the same of it, and keeps links that say what it says.
func TestAChangeThatNamesAFileTwice(t *testing.T) {
	k := linkedKit(t)
	made := func(list ...change.Document) error {
		_, err := changeNow(t, k.Store, change.Request{Documents: list})
		return err
	}
	require.NoError(t, made(write("real/a.json", `{"v":2}`), write("file.json", `{"v":2}`), write("dir/a.json", `{"v":2}`)))
	require.ElementsMatch(t, fiveNames, names(k.next()))
	k.none()
	err := made(write("real/a.json", `{"v":3}`), write("dir/a.json", `{"v":4}`))
	require.Equal(t, codes.BadRequest, codes.Of(err))
	require.ErrorContains(t, err, "dir/a.json and real/a.json are one file")
	k.none()
	require.NoError(t, made(write("real/a.json", `{"v":5}`), write("file.json", `{"v":6}`)), "which takes the place of the link")
	require.ElementsMatch(t, fiveNames, names(k.next()))
	k.none()
	require.Equal(t, `{"v":5}`, k.text("again/a"))
	require.Equal(t, `{"v":6}`, k.text("file"))
	require.Equal(t, `{"v":6}`, k.text("chain"))
}

// TestAWriteNeedsTheRightsToAllNamesOfAFile: none of them can be changed by one that another one has.
func TestAWriteNeedsTheRightsToAllNamesOfAFile(t *testing.T) {
	k := linkedKit(t)
	require.NoError(t, k.Close())
	var asked []string
	k.cfg.MayChange = func(name string, deletes bool, by *access.Actor) error {
		if asked = append(asked, name); name == "chain.json" {
			return codes.Errorf(codes.Forbidden, "not chain.json")
		}
		return nil
	}
	k.open()
	for _, doc := range []change.Document{write("real/a.json", `{"v":2}`), {Name: "real/a.json"}, write("file.json", `{"v":2}`)} {
		for _, check := range []bool{false, true} {
			asked = nil
			_, err := changeNow(t, k.Store, change.Request{Actor: zoe, Check: check, Documents: []change.Document{doc}})
			require.Equal(t, codes.Forbidden, codes.Of(err), doc.Name)
			require.ErrorContains(t, err, "not chain.json")
			require.Contains(t, asked, "chain.json")
		}
		_, err := k.set(SetRequest{Name: doc.Name, Contents: doc.File, Actor: zoe})
		require.Equal(t, codes.Forbidden, codes.Of(err), doc.Name)
	}
	_, err := k.set(SetRequest{Name: "chain.json", Contents: []byte(`1`), Actor: zoe})
	require.NoError(t, err, "its own name was asked for before, and nothing leads to it")
	_, err = k.set(SetRequest{Name: "real/a.json", Contents: []byte(`{"v":2}`), Actor: zoe})
	require.NoError(t, err)
	require.NotContains(t, asked[len(asked)-3:], "real/a.json")
}

// TestAWriteIsHeldForEachNameOfAFile that is marked.
func TestAWriteIsHeldForEachNameOfAFile(t *testing.T) {
	k, a := keptKit(t, map[string]string{"a.json": `{"v":1}`, "live/b.json": `1`})
	require.NoError(t, os.Symlink("../a.json", k.path("live/a.json")))
	require.NoError(t, os.Symlink("a.json", k.path("free.json")))
	k.all("free.json", "live/a.json")
	for _, text := range []string{`{"v":2}`, `{"v": 1}`} {
		_, err := k.set(SetRequest{Name: "a.json", Contents: []byte(text), Exact: true, Actor: zoe})
		require.Equal(t, codes.Held, codes.Of(err), text)
		held := a.held[len(a.held)-1]
		require.Equal(t, []string{"live/a.json"}, held.Marked)
		require.Equal(t, []string{"free.json", "live/a.json"}, held.Linked)
		require.Len(t, held.Documents, 1, "the link is looked for when it is made")
		require.Equal(t, "a.json", held.Documents[0].Name)
	}
	k.none()
	approved := *zoe
	approved.Approver = "token:max"
	_, err := changeNow(t, k.Store, change.Request{Actor: &approved, Documents: a.held[0].Documents})
	require.Equal(t, codes.Conflict, codes.Of(err), "no one has approved of it")
	_, err = changeNow(t, k.Store, change.Request{Actor: &approved, Documents: a.held[0].Documents, Approved: a.held[0].Marked})
	require.Equal(t, codes.Conflict, codes.Of(err), "nor of the other name")
	_, err = changeNow(t, k.Store, change.Request{Actor: &approved, Documents: a.held[0].Documents, Approved: a.held[0].Linked})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a.json", "free.json", "live/a.json"}, names(k.next()))
}

// TestLinksStayWhileAFileCannotBePutInPlace, and after a stop at that moment.
func TestLinksStayWhileAFileCannotBePutInPlace(t *testing.T) {
	t.Run("five names", func(t *testing.T) { linksStay(t, linkedKit(t), fiveNames) })
	k := newKit(t, map[string]string{"real/a.json": `{"v":1}`})
	require.NoError(t, os.Symlink("real/a.json", k.path("a.json")))
	k.all("a.json")
	t.Run("two", func(t *testing.T) { linksStay(t, k, []string{"a.json", "real/a.json"}) })
}

func linksStay(t *testing.T, k *kit, all []string) {
	isLink := func(name string) bool {
		info, err := os.Lstat(k.path(name))
		return err == nil && info.Mode()&os.ModeSymlink != 0
	}
	links := slices.DeleteFunc(append([]string{"dir", "again"}, all...), func(name string) bool { return !isLink(name) })
	require.NoError(t, k.Close())
	trace := &atomicfiletest.Trace{FS: atomicfile.OS()}
	fail := func(op atomicfiletest.Op) error {
		if op.Kind == "rename" && strings.HasPrefix(op.Name, "conf/") {
			return syscall.EROFS
		}
		return nil
	}
	k.cfg.FS = trace
	for _, restart := range []bool{false, true} {
		k.open()
		trace.Rehook(fail)
		text := `{"v":"after ` + map[bool]string{true: "a stop", false: "a while"}[restart] + `"}`
		k.mustSet("real/a.json", text)
		require.ElementsMatch(t, all, names(k.next()))
		k.none()
		for _, name := range all {
			require.Equal(t, text, k.text(name))
		}
		if restart {
			require.NoError(t, k.Close())
			trace.Rehook(nil)
			k.open()
		} else {
			trace.Rehook(nil)
			k.inside(k.intake.retryPlacing)
		}
		k.none()
		data, err := os.ReadFile(k.path("real/a.json"))
		require.NoError(t, err)
		require.Contains(t, string(data), "after")
		for _, link := range links {
			require.True(t, isLink(link), link)
		}
		k.sameChange("", all...)
		require.NoError(t, k.Close())
	}
}

// TestWritesThatMeetInALinkAreMadeInOrder though they have waited together.
func TestWritesThatMeetInALinkAreMadeInOrder(t *testing.T) {
	k := linkedKit(t)
	const n = 40
	done := make(chan error, n)
	k.inside(func() { // all wait behind this
		for i := range n {
			name := []string{"real/a.json", "file.json", "other.json", "chain.json"}[i%4]
			require.NoError(t, k.Set(SetRequest{Name: name, Contents: []byte{byte('0' + i%10)}}, func(_ SetResult, err error) { done <- err }))
		}
	})
	for range n {
		require.NoError(t, <-done)
	}
	k.drainedNone()
	var versions []log.Version
	for _, name := range fiveNames {
		v, err := k.writer.log.Versions(t.Context(), name, 0, 1)
		require.NoError(t, err)
		versions = append(versions, v...)
	}
	require.True(t, slices.ContainsFunc(versions, func(v log.Version) bool { return v.N > 5 }))
	for _, name := range fiveNames {
		data, err := os.ReadFile(k.path(name))
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(data)), k.text(name), name)
	}
}

// TestARoleThatIsALinkToANamedFileIsNotServed: by the other name those could change it who may not change
// roles. What only the role leads to is served, as in a ConfigMap.
func TestARoleThatIsALinkToANamedFileIsNotServed(t *testing.T) {
	k := newKit(t, map[string]string{"team/r.json": `{}`, "..data_1/r.json": `{}`, "_access/own.json": `{}`, "..data_1/more/m.json": `{}`, "_access/was.json": `{}`})
	require.NoError(t, k.Close())
	for name, to := range map[string]string{
		"..data": "..data_1", "_access/hidden.json": "../..data/r.json", "_access/more": "../..data/more",
		"_access/team.json": "../team/r.json", "_access/own2.json": "own.json", "_access/dir": "../team", "team/through.json": "../..data/r.json", "_access/through.json": "../team/through.json",
	} {
		require.NoError(t, os.Symlink(to, k.path(name)))
	}
	require.NoError(t, os.Remove(k.path("_access/was.json")))
	require.NoError(t, os.Symlink("../team/r.json", k.path("_access/was.json")))
	k.open()
	for _, name := range []string{"_access/own.json", "_access/hidden.json", "_access/more/m.json", "team/through.json"} {
		require.Equal(t, `{}`, k.text(name), name)
	}
	for name, target := range map[string]string{"_access/team.json": "team/r.json", "_access/own2.json": "_access/own.json", "_access/dir/r.json": "team/r.json", "_access/through.json": "team/through.json"} {
		require.Empty(t, k.text(name), name)
		require.Contains(t, k.Fault(name), "is a symlink to "+target, name)
	}
	require.Equal(t, `{}`, k.text("_access/was.json"), "what was in service stays")
	require.Contains(t, k.Snapshot().Node("_access/was.json").Broken(), "is a symlink to team/r.json")
	_, err := k.set(SetRequest{Name: "team/r.json", Contents: []byte(`{"v":1}`), Actor: zoe})
	require.NoError(t, err)
	k.Reload()
	require.Equal(t, `{}`, k.text("_access/was.json"))
	require.Equal(t, []string{"team/r.json"}, names(k.next()))
}

// TestALinkToNothingIsReported, by events and by scans, and until it leads somewhere.
func TestALinkToNothingIsReported(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`})
	told := func(name string) bool {
		return slices.ContainsFunc(k.Problems(), func(p health.Problem) bool {
			return p.Name == name && p.Text == "is a symlink that leads to nothing: no such file or directory"
		})
	}
	require.NoError(t, os.Symlink("nowhere.json", k.path("new.json")))
	require.NoError(t, os.Symlink("a.json", k.path("b.json")))
	k.all("b.json")
	k.await("the report", func() bool { return told("new.json") })
	require.NoError(t, os.Remove(k.path("a.json")))
	k.all("a.json", "b.json")
	k.await("the report", func() bool { return told("b.json") })
	k.reopen()
	require.True(t, told("new.json") && told("b.json"), k.Problems())
	k.Reload()
	require.True(t, told("new.json") && told("b.json"), k.Problems())
	k.put("nowhere.json", `2`)
	k.all("new.json", "nowhere.json")
	require.NoError(t, os.Remove(k.path("b.json")))
	k.Reload()
	require.Empty(t, k.Problems(), "the end of the report")
	_, err := k.set(SetRequest{Name: "nowhere.json"})
	require.NoError(t, err)
	k.all("new.json", "nowhere.json")
	k.await("the report", func() bool { return told("new.json") })
	k.mustSet("new.json", `3`)
	k.await("the end of the report", func() bool { return len(k.Problems()) == 0 })
}
