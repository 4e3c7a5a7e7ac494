package confstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// bigText is an object of about size bytes with members m0, m1, ...
func bigText(size int) string {
	var b strings.Builder
	b.WriteString(`{"m0":0`)
	for i := 1; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,"m%d":{"v":[%d,"x"]}`, i, i)
	}
	b.WriteString("}")
	return b.String()
}

func TestFindTriesTheNameThenTheNameWithSuffix(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `1`, "a.json.json": `2`, "sub/b.json": `3`})
	s := m.Snapshot()
	for asked, want := range map[string]string{
		"a.json": "a.json", "a": "a.json", "a.json.json": "a.json.json", "sub/b": "sub/b.json",
		"b": "", "A": "", "./a.json": "", "a.jso": "", "": "", ".json": "", strings.Repeat("x", 2000): "",
	} {
		n := s.Find([]byte(asked))
		if want == "" {
			require.Nil(t, n, asked)
		} else {
			require.Equal(t, want, n.Name(), asked)
		}
	}
}

func TestReadsDoNotAllocate(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"small.json":"base.json","big.json":"base.json"}}`,
		"base.json":  `{"k":{"s":["v"]}}`, "small.json": `{"x":1}`, "big.json": bigText(100_000),
	})
	m.Snapshot().Node("big.json").Prepare(true, true)
	m.Snapshot().Node("big.json").Prepare(false, true)
	m.Snapshot().Node("small.json").Prepare(true, false)
	name, big, path, bigPath, unknown := []byte("small"), []byte("big.json"), []byte("/k/s/0"), []byte("/m77/v/0"), []byte("nobody")
	allocs := testing.AllocsPerRun(100, func() {
		s := m.Snapshot()
		for _, inherit := range []bool{false, true} {
			n := s.Find(name)
			text, ready := n.Contents(inherit)
			_, found, readyToo := n.Lookup(inherit, path)
			if !ready || !readyToo || len(text) == 0 || found != inherit || n.Mtime(inherit) == 0 {
				t.Fail()
			}
			if _, found, ready := s.Find(big).Lookup(inherit, bigPath); !found || !ready {
				t.Fail()
			}
		}
		if s.Find(unknown) != nil {
			t.Fail()
		}
	})
	require.Zero(t, allocs)
}

func TestLargeMergesAndIndexesWaitForPrepare(t *testing.T) {
	m := newMemKit(t, map[string]string{
		"_meta.json": `{"conf_inherit":{"heir.json":"big.json"}}`, "big.json": bigText(100_000), "heir.json": `{"h":1}`,
	})
	n := m.Snapshot().Node("heir.json")
	_, ready := n.Contents(true)
	require.False(t, ready)
	_, _, ready = n.Lookup(true, []byte("/h"))
	require.False(t, ready)
	_, ready = n.Contents(false)
	require.True(t, ready)
	var group sync.WaitGroup
	for range 4 { // any goroutine, idempotent
		group.Go(func() { n.Prepare(true, true) })
	}
	group.Wait()
	text, ready := n.Contents(true)
	require.True(t, ready)
	require.Contains(t, string(text), `"h":1`)
	value, found, ready := n.Lookup(true, []byte("/m9/v/0"))
	require.True(t, found && ready)
	require.Equal(t, "9", string(value))
	_, found, ready = n.Lookup(true, []byte("/m9/none"))
	require.True(t, ready)
	require.False(t, found)
}

func TestLookupRows(t *testing.T) {
	m := newMemKit(t, map[string]string{"a.json": `{"k":{"s":[10,{"x":1.50}]},"1":"one"}`, "gone.json": `{"k":1}`})
	m.remove("gone.json")
	for pattern, want := range map[string]string{
		"": `{"k":{"s":[10,{"x":1.50}]},"1":"one"}`, "/": `{"k":{"s":[10,{"x":1.50}]},"1":"one"}`,
		"k/s/0": "10", "/k/s/01/x/": "1.50", "//1": `"one"`, "/k/9": "", "/k/s/2": "", "/k/s/-1": "",
	} {
		value, found, ready := m.Snapshot().Find([]byte("a")).Lookup(false, []byte(pattern))
		require.True(t, ready)
		require.Equal(t, want != "", found, pattern)
		require.Equal(t, want, string(value), pattern)
	}
	gone := m.Snapshot().Find([]byte("gone"))
	value, found, _ := gone.Lookup(false, []byte("/"))
	require.True(t, found)
	require.Equal(t, "{}", string(value))
	_, found, _ = gone.Lookup(false, []byte("/k"))
	require.False(t, found)
}

func TestReadersAndAWriterAtTheSameTime(t *testing.T) {
	m := newMemKit(t, family())
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			last := int32(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := m.Snapshot().Find([]byte("app1-dev"))
				if v := n.Mtime(true); v < last {
					t.Error("a version fell")
				} else {
					last = v
				}
				if textOf(n, true) == "" || len(m.Snapshot().NameList()) == 0 {
					t.Error("nothing there")
				}
			}
		})
	}
	for i := range 200 {
		m.mustSet("common.json", fmt.Sprintf(`{"i":%d}`, i))
	}
	close(stop)
	group.Wait()
}
