package confstore

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/memory"
)

// newSmallKit has memory for so many bytes of documents.
func newSmallKit(t testing.TB, documents int64, files map[string]string) *memKit {
	m := newMemKit(t, files)
	m.cfg.Documents = memory.NewPool(documents)
	m.reopen()
	return m
}

// counted checks that the pool holds what the snapshot and the intake have, and nothing else.
func (m *memKit) counted() {
	m.t.Helper()
	want := int64(0)
	m.inside(func() {
		for _, name := range m.Snapshot().Names() {
			want += m.Snapshot().Node(name).Cost()
		}
		for name := range m.intake.files {
			want += fileCost(name)
		}
	})
	require.Equal(m.t, want, m.cfg.Documents.Held())
}

func quoted(size int) string { return `"` + strings.Repeat("x", size-2) + `"` }

// 300 sets of 3.9 MB once took 1.6 GB.
func TestSetsThatDoNotFitAreRefusedByName(t *testing.T) {
	m := newSmallKit(t, 100_000, nil)
	m.mustSet("a.json", quoted(40_000))
	m.mustSet("b.json", quoted(40_000))
	for range 3 {
		_, err := m.set(SetRequest{Name: "c.json", Contents: []byte(quoted(40_000))})
		require.ErrorIs(t, err, codes.Quota)
		require.ErrorContains(t, err, "c.json needs 40582 bytes of memory more")
		require.ErrorContains(t, err, "--memory")
		m.counted()
	}
	_, err := m.emptyRoot().Stat("c.json")
	require.ErrorIs(t, err, fs.ErrNotExist, "refused before anything is written")
	m.mustSet("a.json", quoted(41_000))
	m.mustSet("small.json", "{}")
	_, err = m.set(SetRequest{Name: "a.json"})
	require.NoError(t, err, "deleting always works")
	m.mustSet("c.json", quoted(40_000))
	m.counted()
	m.cfg.Documents = memory.NewPool(100_000)
	m.reopen()
	m.counted()
}

func TestFilesThatDoNotFitAreReportedAndTakenInWhenTheyDo(t *testing.T) {
	m := newSmallKit(t, 100_000, map[string]string{"a.json": quoted(40_000), "b.json": quoted(30_000)})
	m.edit("c.json", quoted(40_000), 1000)
	require.Nil(t, m.Snapshot().Node("c.json"))
	require.Contains(t, m.Fault("c.json"), "does not fit into the memory for configurations: it has 40000 bytes, and all together may take 100000")
	require.Equal(t, "c.json", m.Problems()[0].Name)
	require.EqualValues(t, 1, m.cfg.Documents.Refused())
	m.counted()

	m.edit("b.json", quoted(70_000), 2000)
	require.Contains(t, m.Snapshot().Node("b.json").Broken(), "does not fit")
	require.Equal(t, quoted(30_000), m.text("b.json"), "the last good version stays in service")
	m.edit("b.json", quoted(31_000), 3000)
	require.Equal(t, quoted(31_000), m.text("b.json"))
	m.Reload()
	require.EqualValues(t, 2, m.cfg.Documents.Refused(), "told once each")

	m.remove("a.json")
	m.Reload()
	require.Equal(t, quoted(40_000), m.text("c.json"))
	require.Empty(t, m.Problems())
	m.counted()
}

// When others have filled the memory, administrators must still be able to take rights away, over
// the wire and on the disk.
func TestAdministratorsAndRolesFindMemoryWhenOthersHaveFilledIt(t *testing.T) {
	m := newSmallKit(t, 100_000, map[string]string{"a.json": quoted(90_000)})
	root := &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}}
	other := &access.Actor{Identity: &access.Identity{Name: "token:other"}}
	set := func(by *access.Actor, name string, size int) error {
		_, err := m.set(SetRequest{Name: name, Contents: []byte(quoted(size)), Actor: by})
		return err
	}
	require.ErrorIs(t, set(other, "b.json", 15_000), codes.Quota)
	require.NoError(t, set(root, "b.json", 15_000))
	require.ErrorIs(t, set(root, "c.json", 40_000), codes.Quota, "there is an end to that, too")
	m.edit("d.json", quoted(1000), 1000)
	require.Nil(t, m.Snapshot().Node("d.json"))
	m.edit("_access/d.json", quoted(1000), 1000)
	require.Empty(t, m.Fault("_access/d.json"))
	require.Equal(t, quoted(1000), m.text("_access/d.json"))
	m.counted()
}

func TestWithLessMemoryThanBeforeAllIsServedAndNothingAdded(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": quoted(40_000), "b.json": quoted(40_000)})
	m.cfg.Documents = memory.NewPool(50_000)
	m.reopen()
	require.Equal(t, quoted(40_000), m.text("b.json"))
	require.Equal(t, "memory", m.Problems()[0].Name)
	_, err := m.set(SetRequest{Name: "c.json", Contents: []byte("{}")})
	require.ErrorIs(t, err, codes.Quota)
	m.mustSet("a.json", quoted(39_000))
	m.remove("b.json")
	m.mustSet("c.json", "{}")
	m.cfg.Documents = memory.NewPool(50_000)
	m.reopen()
	require.Empty(t, m.Problems())
}

// What a file costs is what it is without blanks.
func TestAFileOnDiskMayBeLargerThanItsRoom(t *testing.T) {
	m := newSmallKit(t, 100_000, map[string]string{"a.json": quoted(90_000)})
	m.edit("a.json", strings.Repeat(" ", 80_000)+quoted(91_000), 1000)
	require.Equal(t, quoted(91_000), m.text("a.json"))
	_, err := m.set(SetRequest{Name: "a.json", Contents: []byte(quoted(90_500))})
	require.NoError(t, err)
	m.counted()
}

// Many that do not fit must not take the memory with their names.
func TestNamesOfFilesTakeMemoryToo(t *testing.T) {
	files := map[string]string{}
	for i := range 500 {
		files[fmt.Sprintf("%d.json", i)] = "{}"
	}
	m := newSmallKit(t, 50_000, nil)
	for name, text := range files {
		m.write(name, text, 1000)
	}
	m.Reload()
	require.Less(t, m.cfg.Documents.Held(), int64(60_000))
	require.Less(t, len(m.Snapshot().Names()), 100)
	var texts []string
	for _, p := range m.Problems() {
		texts = append(texts, p.Text)
	}
	require.Contains(t, strings.Join(texts, "\n"), "there are more files than the limit, or than there is memory for")
	m.counted()
}

// heapOf is how much more is in use on the heap after fn, while what it returns is. It
// waits until the heap is at rest: what was closed before may still be ending, and a store
// that was opened may still be looking at its files.
func heapOf(fn func() any) int64 {
	live := func() int64 {
		last, same := int64(0), 0
		for deadline := time.Now().Add(time.Minute); same < 3 && time.Now().Before(deadline); {
			runtime.GC()
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if moved := int64(now.HeapAlloc) - last; max(moved, -moved) < 32<<10 {
				same++
			} else {
				same = 0
			}
			last = int64(now.HeapAlloc)
		}
		return last
	}
	before := live()
	kept := fn()
	grown := live() - before
	runtime.KeepAlive(kept)
	return grown
}
