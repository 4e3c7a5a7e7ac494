package confstore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/health"

	"github.com/stretchr/testify/require"
)

// fileOperations are the ways people change a file. Each finds
// a.json with {"v":1} and leaves it with {"v":2}.
var fileOperations = []struct {
	name string
	do   func(k *kit)
}{
	{"edited in place", func(k *kit) { k.put("a.json", `{"v":2}`) }},
	{"edited in place without truncation", func(k *kit) {
		f, err := os.OpenFile(k.path("a.json"), os.O_WRONLY, 0)
		require.NoError(k.t, err)
		_, err = f.WriteAt([]byte("2"), 5)
		require.NoError(k.t, err)
		require.NoError(k.t, f.Close())
	}},
	{"vim: moved away, written anew, backup removed", func(k *kit) {
		require.NoError(k.t, os.Rename(k.path("a.json"), k.path("a.json~")))
		k.put("a.json", `{"v":2}`)
		require.NoError(k.t, os.Remove(k.path("a.json~")))
	}},
	{"git: unlinked and created", func(k *kit) {
		require.NoError(k.t, os.Remove(k.path("a.json")))
		k.put("a.json", `{"v":2}`)
	}},
	{"mv over it", func(k *kit) {
		k.put("../elsewhere.json", `{"v":2}`)
		require.NoError(k.t, os.Rename(k.path("../elsewhere.json"), k.path("a.json")))
	}},
	{"an older file moved over it", func(k *kit) {
		k.put("../elsewhere.json", `{"v":2}`)
		k.touch("../elsewhere.json", 1_000_000)
		require.NoError(k.t, os.Rename(k.path("../elsewhere.json"), k.path("a.json")))
	}},
	{"cp -p of an older file", func(k *kit) {
		k.put("../elsewhere.json", `{"v":2}`)
		k.touch("../elsewhere.json", 1_000_000)
		out, err := exec.Command("cp", "-p", k.path("../elsewhere.json"), k.path("a.json")).CombinedOutput()
		require.NoError(k.t, err, string(out))
	}},
	{"same size, time put back", func(k *kit) {
		info, err := os.Stat(k.path("a.json"))
		require.NoError(k.t, err)
		k.put("a.json", `{"v":2}`)
		require.NoError(k.t, os.Chtimes(k.path("a.json"), info.ModTime(), info.ModTime()))
	}},
	{"replaced by a symlink that stays inside", func(k *kit) {
		k.put(".real/a.json", `{"v":2}`)
		require.NoError(k.t, os.Remove(k.path("a.json")))
		require.NoError(k.t, os.Symlink(".real/a.json", k.path("a.json")))
	}},
}

func TestEachWayToChangeAFileIsToldOnceWithAGreaterMtime(t *testing.T) {
	for _, op := range fileOperations {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, map[string]string{"a.json": `{"v":1}`})
			before := k.mtime("a.json")
			op.do(k)
			b := k.next()
			require.Equal(t, []string{"a.json"}, names(b))
			require.Equal(t, `{"v":2}`, textOf(b.Changes[0].Node, false))
			require.Greater(t, b.Changes[0].Node.Mtime(false), before)
			require.False(t, b.Changes[0].Node.Deleted())
			k.none()
			k.reopen()
			k.none()
			require.Equal(t, b.Changes[0].Node.Mtime(false), k.mtime("a.json"), "the version survives a restart")
		})
	}
}

func TestCreatedFileIsServed(t *testing.T) {
	k := newKit(t, nil)
	k.put("a.json", `{"v":1}`)
	b := k.next()
	require.Equal(t, []string{"a.json"}, names(b))
	require.Nil(t, b.Changes[0].Prev)
	require.Equal(t, `{"v":1}`, k.text("a"))
}

func TestTouchAndReformattingAreNoChange(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	before := k.Snapshot().Node("a.json")
	k.touch("a.json", time.Now().Unix()+1000)
	k.none()
	require.Same(t, before, k.Snapshot().Node("a.json"))
	k.put("a.json", "{ \"v\" :\n1 }\n")
	k.none()
	require.Equal(t, before.Mtime(true), k.mtime("a.json"))
	v, err := k.writer.log.Version(t.Context(), "a.json", 2)
	require.NoError(t, err)
	require.Equal(t, "{ \"v\" :\n1 }\n", string(v.File), "the log has the exact bytes")
}

func TestRemovedAndRecreatedWithinTheDelayIsNoRemoval(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	require.NoError(t, os.Remove(k.path("a.json")))
	k.put("a.json", `{"v":1}`)
	k.put("b.json", `{}`)
	require.Equal(t, []string{"b.json"}, names(k.next()))
	require.False(t, k.Snapshot().Node("a.json").Deleted())
}

func TestMovedFileIsOneNewAndOneRemoved(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	require.NoError(t, os.Rename(k.path("a.json"), k.path("b.json")))
	require.Equal(t, []string{"b.json"}, names(k.next()))
	b := k.next()
	require.Equal(t, []string{"a.json"}, names(b))
	require.True(t, b.Changes[0].Node.Deleted())
}

func TestDirectoryMovedInAndOut(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	k.put("../staging/x/1.json", `1`)
	k.put("../staging/2.json", `2`)
	require.NoError(t, os.Rename(k.path("../staging"), k.path("sub")))
	require.Equal(t, []string{"sub/2.json", "sub/x/1.json"}, names(k.next()))

	k.put("sub/x/1.json", `11`)
	require.Equal(t, []string{"sub/x/1.json"}, names(k.next()), "what was moved in is watched")

	require.NoError(t, os.Rename(k.path("sub"), k.path("moved")))
	require.Equal(t, []string{"moved/2.json", "moved/x/1.json"}, names(k.next()))
	require.Equal(t, []string{"sub/2.json", "sub/x/1.json"}, names(k.next()), "one batch too")
	require.True(t, k.Snapshot().Node("sub/2.json").Deleted())

	k.put("moved/x/1.json", `111`)
	require.Equal(t, []string{"moved/x/1.json"}, names(k.next()), "what was moved within is watched")

	require.NoError(t, os.RemoveAll(k.path("moved")))
	k.all("moved/2.json", "moved/x/1.json")
	k.put("moved/3.json", `3`)
	require.Equal(t, []string{"moved/3.json"}, names(k.next()), "a directory made again is watched")
}

func TestNestedDirectoriesMadeAtOnce(t *testing.T) {
	k := newKit(t, nil)
	k.put("one/two/three/a.json", `1`)
	require.Equal(t, []string{"one/two/three/a.json"}, names(k.next()))
	k.put("one/two/b.json", `1`)
	require.Equal(t, []string{"one/two/b.json"}, names(k.next()))
}

func TestTenFilesAtOnceAreOneBatch(t *testing.T) {
	k := newKit(t, nil)
	k.cfg.QuietPeriod, k.cfg.MaxSettle = 200*time.Millisecond, 2*time.Second // the machine may be busy
	k.reopen()
	var want []string
	for i := range 10 {
		name := fmt.Sprintf("f%d.json", i)
		k.put("../staging/"+name, `{}`)
		want = append(want, name)
	}
	for _, name := range want {
		require.NoError(t, os.Rename(k.path("../staging/"+name), k.path(name)))
	}
	b := k.next()
	require.Equal(t, want, names(b))
	require.Nil(t, b.Prev.Node("f0.json"))
}

func TestHalfWrittenFileIsNotServedAndNotReported(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	k.cfg.BreakDelay = time.Hour
	k.reopen()
	f, err := os.OpenFile(k.path("a.json"), os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString(`{"v":`)
	require.NoError(t, err)
	// A file saved meanwhile is not held up for long.
	k.put("b.json", `{}`)
	require.Equal(t, []string{"b.json"}, names(k.next()))
	require.Equal(t, `{"v":1}`, k.text("a"))
	require.Empty(t, k.Problems())
	_, err = f.WriteString(`2}`)
	require.NoError(t, err)
	require.Equal(t, []string{"a.json"}, names(k.next()))
	require.Equal(t, `{"v":2}`, k.text("a"))
}

func TestBatchWaitsAMomentForAFileThatIsBeingWritten(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`, "b.json": `1`})
	k.cfg.MaxSettle = time.Hour
	k.reopen()
	k.put("a.json", `{"half":`)
	k.put("b.json", `2`)
	k.await("the hold", func() (held bool) {
		k.inside(func() { held = !k.intake.settle.heldTo.IsZero() })
		return held
	})
	k.put("a.json", `2`)
	k.all("a.json", "b.json")
	require.Empty(t, k.batches)
}

func TestBrokenFileKeepsTheLastGoodVersionAcrossRestart(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	before := k.mtime("a.json")
	k.put("a.json", `{"v":2,}`)
	k.await("the report", func() bool { return len(k.Problems()) == 1 })
	check := func() {
		require.Equal(t, `{"v":1}`, k.text("a"))
		require.Equal(t, before, k.mtime("a.json"))
		require.Contains(t, k.Snapshot().Node("a.json").Broken(), "line 1 column 8")
		require.Len(t, k.Problems(), 1)
		require.Equal(t, "a.json", k.Problems()[0].Name)
		require.False(t, k.Problems()[0].Since.IsZero())
	}
	check()
	k.reopen()
	check()
	k.put("a.json", `{"v":3}`)
	b := k.next()
	require.Equal(t, `{"v":3}`, k.text("a"))
	require.Empty(t, b.Snapshot.Node("a.json").Broken())
	require.Empty(t, k.Problems())
}

func TestBrokenFileThatHealsToTheSameContents(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	k.put("a.json", ``)
	k.await("the report", func() bool { return len(k.Problems()) == 1 })
	k.put("a.json", `{"v":1}`)
	k.await("healing", func() bool { return len(k.Problems()) == 0 })
	require.Empty(t, k.Snapshot().Node("a.json").Broken())
	k.none()
}

func TestFileThatWasNeverGoodIsUnknownButReported(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": "\ufeff{}"})
	require.Nil(t, k.Snapshot().Find([]byte("a")))
	require.Len(t, k.Problems(), 1)
	require.NoError(t, os.Remove(k.path("a.json")))
	k.await("the end of the report", func() bool { return len(k.Problems()) == 0 })
	k.none()
}

func TestFilesThatAreNoDocuments(t *testing.T) {
	k := newKit(t, nil)
	for _, name := range []string{"plain.txt", "x.json.bak", ".json", ".hidden.json", ".git/a.json", "4913", "a.json~"} {
		k.put(name, `{}`)
	}
	require.NoError(t, os.Mkdir(k.path("dir.json"), 0o755))
	k.none()
	require.Empty(t, k.Snapshot().Names())
	require.Empty(t, k.Problems())
	k.put("dir.json/a.json", `{}`)
	require.Equal(t, []string{"dir.json/a.json"}, names(k.next()))
}

// Who has put it there wonders why no program gets it.
func TestFilesOfOtherFormatsAreNamed(t *testing.T) {
	k := newKit(t, map[string]string{"here.yaml": "a: 1"})
	require.Len(t, k.Problems(), 1, "at the start")
	for _, name := range []string{"X.JSON", "sub/limits.toml"} {
		k.put(name, `{}`)
	}
	require.NoError(t, os.Mkdir(k.path("dir.conf"), 0o755))
	k.Reload()
	require.Len(t, k.Problems(), 3)
	for i, name := range []string{"X.JSON", "here.yaml", "sub/limits.toml"} {
		p := k.Problems()[i]
		require.Equal(t, health.Problem{Kind: OfDirectory, Name: name, Text: "is not served: its name ends in " + filepath.Ext(name) + ", and only what ends in .json is read", Since: p.Since}, p)
	}
	for _, name := range []string{"here.yaml", "X.JSON", "sub/limits.toml"} {
		require.NoError(t, os.Remove(k.path(name)))
	}
	k.Reload()
	require.Empty(t, k.Problems(), "healing")
	k.none()
}

func TestHostileFilesAreReportedAndHarmless(t *testing.T) {
	base := t.TempDir()
	cfg := Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), MaxFileBytes: 100}
	require.NoError(t, os.Mkdir(cfg.Dir, 0o755))
	k := &kit{t: t, cfg: cfg}
	k.put("big.json", `"`+strings.Repeat("x", 100)+`"`)
	k.put("deep.json", strings.Repeat("[", 50)+strings.Repeat("]", 50))
	k.put("back\\slash.json", `{}`)
	k.put("new\nline.json", `{}`)
	k.put("bad\xffutf8.json", `{}`)
	out, err := exec.Command("mkfifo", k.path("pipe.json")).CombinedOutput()
	require.NoError(t, err, string(out))
	k.open()
	require.Equal(t, []string{"deep.json"}, k.Snapshot().Names())
	var reported []string
	for _, p := range k.Problems() {
		reported = append(reported, p.Name)
	}
	require.Equal(t, []string{"back\\slash.json", "bad?utf8.json", "big.json", "new?line.json", "pipe.json"}, reported)
}

func TestConfDirectoryReplacedByRename(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`, "b.json": `{"v":1}`})
	k.put("../next/a.json", `{"v":2}`)
	k.put("../next/c.json", `{"v":2}`)
	require.NoError(t, os.Rename(k.cfg.Dir, k.path("../old")))
	require.NoError(t, os.Rename(k.path("../next"), k.cfg.Dir))
	require.Equal(t, []string{"a.json", "c.json"}, names(k.next()))
	b := k.next()
	require.Equal(t, []string{"b.json"}, names(b))
	require.True(t, b.Changes[0].Node.Deleted())
	k.put("a.json", `{"v":3}`)
	require.Equal(t, []string{"a.json"}, names(k.next()), "the new directory is watched")
}

func TestConfDirectoryBehindASymlinkThatIsSwapped(t *testing.T) {
	base := t.TempDir()
	k := &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data")}}
	for i := 1; i <= 2; i++ {
		require.NoError(t, os.Mkdir(filepath.Join(base, fmt.Sprint("release", i)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(base, fmt.Sprint("release", i), "a.json"), fmt.Append(nil, i), 0o644))
	}
	require.NoError(t, os.Symlink("release1", k.cfg.Dir))
	k.open()
	require.Equal(t, "1", k.text("a"))
	require.NoError(t, os.Symlink("release2", filepath.Join(base, "tmp")))
	require.NoError(t, os.Rename(filepath.Join(base, "tmp"), k.cfg.Dir))
	require.Equal(t, []string{"a.json"}, names(k.next()))
	require.Equal(t, "2", k.text("a"))
	k.put("a.json", `3`)
	require.Equal(t, []string{"a.json"}, names(k.next()))
}

func TestConfDirectoryGoneForAMomentKeepsItsContents(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`})
	require.NoError(t, os.Rename(k.cfg.Dir, k.path("../away")))
	k.await("the report", func() bool { return len(k.Problems()) == 1 })
	require.Equal(t, `{"v":1}`, k.text("a"))
	_, err := k.set(SetRequest{Name: "b.json", Contents: []byte("1")})
	require.Error(t, err)
	require.NoError(t, os.Rename(k.path("../away"), k.cfg.Dir))
	k.await("the end of the report", func() bool { return len(k.Problems()) == 0 })
	k.none()
	k.put("a.json", `{"v":2}`)
	require.Equal(t, []string{"a.json"}, names(k.next()), "it is watched again")
}

// TestReplacedDirectoryIsGivenTimeToFill: a file that is not there yet is not
// removed.
func TestReplacedDirectoryIsGivenTimeToFill(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`, "b.json": `1`})
	k.cfg.RemoveDelay, k.cfg.ReplaceGrace = time.Millisecond, time.Hour
	k.reopen()
	require.NoError(t, os.Rename(k.cfg.Dir, k.path("../old")))
	k.put("a.json", `2`)
	require.Equal(t, []string{"a.json"}, names(k.next()))
	for i := range 3 {
		k.put("c.json", fmt.Sprint(i))
		require.Equal(t, []string{"c.json"}, names(k.next()))
	}
	k.put("b.json", `2`)
	require.Equal(t, []string{"b.json"}, names(k.next()))
	require.False(t, k.Snapshot().Node("b.json").Deleted())
}

// TestFilesThatGoWithTheDirectoryAreNotRemoved, whichever is noticed first.
func TestFilesThatGoWithTheDirectoryAreNotRemoved(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	require.NoError(t, m.mem.Drop("/srv/conf"))
	m.inside(func() {
		m.intake.settle.waiting["a.json"] = wait{true, noon}
		m.directory.root = m.emptyRoot()
		m.intake.look([]string{"a.json"}, noon, false)
	})
	require.Empty(t, m.batches)
	require.False(t, m.Snapshot().Node("a.json").Deleted())
}

func TestConfDirectoryRemovedAltogetherKeepsItsContents(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `{"v":1}`, "b/c.json": `1`})
	require.NoError(t, os.RemoveAll(k.cfg.Dir))
	k.await("the report", func() bool { return len(k.Problems()) >= 1 })
	k.none()
	require.Equal(t, `{"v":1}`, k.text("a"))
	k.put("a.json", `{"v":1}`)
	b := k.next()
	require.Equal(t, []string{"b/c.json"}, names(b), "a directory that is back does mean what it holds")
	require.True(t, b.Changes[0].Node.Deleted())
}

func TestEmptiedConfDirectoryMeansRemoval(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`, "b.json": `2`})
	require.NoError(t, os.Remove(k.path("a.json")))
	require.NoError(t, os.Remove(k.path("b.json")))
	k.all("a.json", "b.json")
}

func TestSymlinksInsideAreFollowed(t *testing.T) {
	k := newKit(t, map[string]string{"real/a.json": `1`})
	require.NoError(t, os.Symlink("real", k.path("dir")))
	require.Equal(t, []string{"dir/a.json"}, names(k.next()))
	require.NoError(t, os.Symlink("real/a.json", k.path("file.json")))
	require.Equal(t, []string{"file.json"}, names(k.next()))
	require.NoError(t, os.Symlink("..", k.path("real/loop")))
	k.put("real/a.json", `2`)
	k.all("dir/a.json", "file.json", "real/a.json") // each name of the file settles by itself
	require.NoError(t, os.Remove(k.path("dir")))
	require.Equal(t, []string{"dir/a.json"}, names(k.next()))
	k.reopen()
	require.Equal(t, []string{"dir/a.json", "file.json", "real/a.json"}, k.Snapshot().Names())
}

func TestSymlinksThatLeaveAreReportedAndNotServed(t *testing.T) {
	base := t.TempDir()
	k := &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data")}}
	k.put("../secret/s.json", `{"password":"x"}`)
	k.put("good.json", `{"v":1}`)
	for name, target := range map[string]string{
		"up.json":       "../secret/s.json",
		"absolute.json": filepath.Join(base, "secret/s.json"),
		"dir":           "../secret",
		"nowhere.json":  "missing.json",
		"circle.json":   "circle.json",
		"indirect.json": "dir/s.json",
	} {
		require.NoError(t, os.Symlink(target, k.path(name)))
	}
	k.open()
	require.Equal(t, []string{"good.json"}, k.Snapshot().Names())
	var reported []string
	for _, p := range k.Problems() {
		reported = append(reported, p.Name)
		require.NotContains(t, p.Text, base, "problems are shown to peers")
	}
	require.Equal(t, []string{"absolute.json", "circle.json", "dir", "indirect.json", "nowhere.json", "up.json"}, reported)

	require.NoError(t, os.Remove(k.path("good.json")))
	require.NoError(t, os.Symlink("../secret/s.json", k.path("good.json")))
	k.await("the report", func() bool { return len(k.Problems()) == 7 })
	require.Equal(t, `{"v":1}`, k.text("good"))
	_, err := k.set(SetRequest{Name: "dir/new.json", Contents: []byte("1")})
	require.Error(t, err)
	_, err = os.Stat(k.path("../secret/new.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestGitLockHoldsEverythingBack(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`, "b.json": `1`, "../.git/HEAD": `ref`})
	k.reopen() // the repository is found at start
	k.put("../.git/index.lock", ``)
	k.put("a.json", `2`)
	require.NoError(t, os.Remove(k.path("b.json")))
	k.await("the hold", func() bool { return k.held() })
	require.Equal(t, `1`, k.text("a"))
	k.put("b.json", `2`)
	require.NoError(t, os.Remove(k.path("../.git/index.lock")))
	require.Equal(t, []string{"a.json", "b.json"}, names(k.next()))
}

func TestGitLockLeftBehindDoesNotStopTheStore(t *testing.T) {
	base := t.TempDir()
	k := &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), GitLockWait: time.Millisecond}}
	k.put("a.json", `1`)
	k.put(".git/index.lock", ``)
	k.open()
	k.put("a.json", `2`)
	require.Equal(t, []string{"a.json"}, names(k.next()))
}

func TestScanFindsWhatNoEventTold(t *testing.T) {
	base := t.TempDir()
	k := &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), NoEvents: true, ScanPeriod: 5 * time.Millisecond}}
	k.put("a.json", `1`)
	k.put("gone.json", `1`)
	k.open()
	k.put("a.json", `2`)
	k.put("sub/b.json", `1`)
	var seen []string
	for len(seen) < 2 {
		seen = append(seen, names(k.next())...)
	}
	slices.Sort(seen)
	require.Equal(t, []string{"a.json", "sub/b.json"}, seen)
	require.NoError(t, os.Remove(k.path("gone.json")))
	require.Equal(t, []string{"gone.json"}, names(k.next()))
	require.NoError(t, os.Rename(k.cfg.Dir, k.path("../old")))
	k.put("a.json", `3`)
	require.Contains(t, names(k.next()), "a.json")
}

func TestLostEventsCauseAScan(t *testing.T) {
	k := newKit(t, map[string]string{"a.json": `1`})
	k.put("b.json", `1`)
	k.next()
	k.directory.watch.Lose(os.ErrDeadlineExceeded)
	k.put("a.json", `2`)
	require.Equal(t, []string{"a.json"}, names(k.next()))
}

func TestTooManyFilesAreReportedAndTheRestIsServed(t *testing.T) {
	base := t.TempDir()
	k := &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), MaxFiles: 5}}
	for i := range 20 {
		k.put(fmt.Sprintf("f%02d.json", i), `1`)
	}
	k.open()
	require.Len(t, k.Snapshot().Names(), 5)
	require.NotEmpty(t, k.Problems())
	_, err := k.set(SetRequest{Name: "one-more.json", Contents: []byte("1")})
	require.Error(t, err)
}

func TestManyFilesAtOnceAllArrive(t *testing.T) {
	k := newKit(t, nil)
	const n = 1000
	for i := range n {
		k.put(fmt.Sprintf("d%d/f%d.json", i%7, i), `1`)
	}
	k.await("all files", func() bool { return len(k.Snapshot().Names()) == n })
	k.drainedNone()
}

// slowClock is a machine on which everything takes long: each look at the clock
// shows it 10 ms on.
type slowClock struct{ *clocktest.Fake }

func (c slowClock) Now() time.Time {
	c.Advance(10 * time.Millisecond)
	return c.Fake.Now()
}

func TestWhatIsFoundWhileWorkTakesLongIsNotForgotten(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	m.cfg.Clock = slowClock{m.clock}
	m.reopen()
	m.write("a.json", `2`, 2000)
	m.inside(func() {
		m.intake.settle.rootDue = noon
		m.intake.settleNow() // finds that a.json differs, too late to read it at once
		if _, noted := m.intake.settle.names["a.json"]; !noted || m.intake.settle.due.IsZero() {
			t.Error("forgotten")
		}
	})
}

func TestEventsLostDuringAScanCauseAnother(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`})
	m.inside(func() {
		m.intake.scanning, m.intake.scanAgain = true, true
		m.intake.takeScan(&listing{root: m.directory.root})
		if !m.intake.scanning || m.intake.scanAgain {
			t.Error("no scan was started")
		}
	})
	m.await("its end", func() (idle bool) {
		m.inside(func() { idle = !m.intake.scanning })
		return idle
	})
}
