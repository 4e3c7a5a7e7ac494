package confstore

import (
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
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
			want += m.Snapshot().Node(name).cost()
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
		require.ErrorContains(t, err, "c.json needs 40562 bytes of memory more")
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

// Small contents can make large files, and replace them.
func TestAGroupOfWritesIsBoundedByItsFiles(t *testing.T) {
	m := newMemKit(t, nil)
	deep := strings.Repeat("[", 300) + strings.Repeat("1,", 5000) + "1" + strings.Repeat("]", 300)
	var jobs []*setJob
	for i := range 12 {
		jobs = append(jobs, newSet(SetRequest{Name: fmt.Sprintf("%d.json", i), Contents: []byte(deep)}, nil))
	}
	var groups [][]setting
	m.inside(func() {
		for rest := jobs; len(rest) > 0; rest = rest[len(groups[len(groups)-1]):] {
			group, _ := m.writer.group(rest)
			groups = append(groups, group)
		}
	})
	for _, group := range groups {
		size := 0
		for _, s := range group {
			require.NoError(t, s.err)
			size += len(s.files[0].data) + len(s.files[0].before.data)
		}
		require.Less(t, size, maxGroupFiles+8<<20)
		require.Less(t, len(group), 10)
	}
	require.Len(t, m.Snapshot().Names(), 12)
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

func TestDocumentsCostWhatTheyTake(t *testing.T) {
	heirs := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"heir%d.json":"base%d.json"`, i, i%10)
		}
		return `{"conf_inherit":{` + b.String()[1:] + `}}`
	}
	for name, c := range map[string]struct {
		text  func(i int) (name, text string)
		count int
	}{
		"tiny":  {func(i int) (string, string) { return fmt.Sprintf("dir/%d.json", i), `{}` }, 4000},
		"small": {func(i int) (string, string) { return fmt.Sprintf("%d.json", i), `{"name":` + quoted(1000) + `}` }, 2000},
		"large": {func(i int) (string, string) {
			return fmt.Sprintf("%d.json", i), "{\n  \"name\" :   " + quoted(1_000_000) + "\n}"
		}, 40},
		"rules": {func(int) (string, string) { return "_meta.json", heirs(5000) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			// The clock stands still: the store looks at no file again. What it writes to the log when
			// it is opened first is not what it keeps, and so it is opened twice.
			cfg := Config{Dir: t.TempDir(), DataDir: filepath.Join(t.TempDir(), "data"), Clock: clock.NewFake(noon)}
			k := &kit{t: t, cfg: cfg}
			for i := range c.count {
				k.put(c.text(i))
			}
			var s *Store
			open := func() any {
				var err error
				s, err = Open(cfg)
				require.NoError(t, err)
				s.Snapshot().NameList()
				return s
			}
			var grown int64
			for range 2 {
				engine, err := pebblekv.Open(pebblekv.Config{Disk: disk.Config{Dir: filepath.Join(filepath.Dir(cfg.DataDir), "kv")}})
				require.NoError(t, err)
				cfg.State, cfg.Documents = engine, memory.NewPool(math.MaxInt64)
				grown = heapOf(open)
				require.NoError(t, s.Close())
				require.NoError(t, engine.Close())
				s, cfg.State = nil, nil
			}
			held := cfg.Documents.Held()
			t.Logf("held %d, heap %d", held, grown)
			require.InEpsilon(t, grown, held, 0.2)
		})
	}
}

func TestCachesCostWhatTheyTake(t *testing.T) {
	files := map[string]string{"base.json": bigText(20_000)}
	var entries []string
	for i := range 300 {
		name := fmt.Sprintf("h%d.json", i)
		files[name] = fmt.Sprintf(`{"own":%d}`, i)
		entries = append(entries, fmt.Sprintf("%q:%q", name, "base.json"))
	}
	files["_meta.json"] = `{"conf_inherit":{` + strings.Join(entries, ",") + `}}`
	m := newMemKit(t, files)
	pool := m.publisher.limits.cache.pool
	grown := heapOf(func() any {
		for i := range 300 {
			n := m.Snapshot().Find(fmt.Appendf(nil, "h%d", i))
			n.Prepare(true, true)
			n.KeepAnswer(true, []byte(`"h"`), []byte(`{"file_pattern":"h","contents":`+quoted(2000)+`}`))
		}
		return m.Snapshot()
	})
	t.Logf("held %d, heap %d", pool.Held(), grown)
	require.InEpsilon(t, grown, pool.Held(), 0.2)
}
