//go:build !race

package confstore

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
	"confcenter/kvstore/disk"
)

// Small contents can make large files, and replace them.
func TestAGroupOfWritesIsBoundedByItsFiles(t *testing.T) {
	m := newMemKit(t, nil)
	deep := strings.Repeat("[", 300) + strings.Repeat("1,", 5000) + "1" + strings.Repeat("]", 300)
	var jobs []*setJob
	for i := range 12 {
		jobs = append(jobs, newSet(SetRequest{Name: fmt.Sprintf("%d.json", i), Contents: []byte(deep)}, nil))
	}
	var groups [][]step
	m.inside(func() {
		for rest := jobs; len(rest) > 0; rest = rest[len(groups[len(groups)-1]):] {
			group := m.writer.group(rest)
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
			cfg := Config{Dir: t.TempDir(), DataDir: filepath.Join(t.TempDir(), "data"), Clock: clocktest.NewFake(noon)}
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
				engine, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: filepath.Join(filepath.Dir(cfg.DataDir), "kv")}})
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
	pool := m.Store.cfg.Caches
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
