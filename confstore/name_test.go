package confstore

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

func TestNamesThatAreAllowed(t *testing.T) {
	for _, name := range []string{
		"a.json", "_meta.json", "a b.json", "größe.json", "a/b/c.json", "x.json.json", "a..b.json", "..json/a.json"[2:],
		strings.Repeat("x", 250) + ".json", "-.json", "%2e%2e.json",
		strings.Repeat("d/", 31) + "a.json",
	} {
		require.NoError(t, CheckName(name), name)
	}
}

// What is written must be found again when the directory is read anew.
func TestTheDeepestNameIsServedAfterARestart(t *testing.T) {
	deepest := strings.Repeat("d/", 31) + "a.json"
	m := newMemKit(t, nil)
	m.mustSet(deepest, `{"n":1}`)
	_, err := m.set(SetRequest{Name: "d/" + deepest, Contents: []byte(`{}`)})
	require.ErrorIs(t, err, codes.BadName)
	require.ErrorContains(t, err, "more than 31 directories")
	m.reopen()
	require.Empty(t, m.Problems())
	m.edit(deepest, `{"n":2}`, 2000)
	require.Equal(t, `{"n":2}`, m.text(deepest))
}

func TestNameErrorsSayWhatToDo(t *testing.T) {
	err := CheckName("../x.json")
	require.ErrorIs(t, err, codes.BadName)
	require.ErrorContains(t, err, "filename")
	require.ErrorContains(t, err, "dot")
	require.Less(t, len(CheckName(strings.Repeat("x", 100_000)).Error()), 300)
}

// FuzzCheckName: a name that is allowed stays below the directory, is its own
// clean form and is what a directory listing would give back.
func FuzzCheckName(f *testing.F) {
	for _, seed := range []string{"a.json", "../a.json", "a/../../b.json", "/a.json", "a\x00.json", "a\\..\\b.json", ".a/b.json", "a//b.json", "\xff.json", "a/.json", "\u0085.json"} {
		f.Add(seed)
	}
	base := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		require.True(t, filepath.IsLocal(name))
		require.Equal(t, name, filepath.Clean(name))
		require.True(t, utf8.ValidString(name))
		require.False(t, hidden(name))
		require.True(t, strings.HasSuffix(name, ".json"))
		require.False(t, strings.ContainsAny(name, "\x00\n\r\t\\"))
		rel, err := filepath.Rel(base, filepath.Join(base, name))
		require.NoError(t, err)
		require.Equal(t, name, rel)
		_, err = os.Lstat(filepath.Join(base, name))
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

// A file comes while the store runs: its name is judged as at the start. One that is
// not UTF-8 would make everything that lists names something else than JSON.
func TestFilesOfNamesThatCannotBeAreNotServed(t *testing.T) {
	k := newKit(t, nil)
	shown := map[string]string{"z\xfe.json": "z?.json", "e\x1b[31m.json": "e?[31m.json", "back\\slash.json": "back\\slash.json", "d\xff/x.json": "d?/x.json"}
	reported := func() (names []string) {
		for _, p := range k.Problems() {
			require.Equal(t, OfDirectory, p.Kind)
			require.Contains(t, p.Text, "is not served: its name ")
			names = append(names, p.Name)
		}
		return names
	}
	require.NoError(t, os.Mkdir(k.path("d\xff"), 0o755))
	k.await("the directory to be watched", func() bool {
		watched := false
		k.inside(func() { _, watched = k.intake.tree.dirs["d\xff"] })
		return watched
	})
	for name := range shown {
		k.put(name, `{}`)
	}
	k.put("good.json", `{}`)
	k.all("good.json")
	k.await("the names to be reported", func() bool { return len(reported()) == len(shown) })
	require.ElementsMatch(t, slices.Collect(maps.Values(shown)), reported())
	require.Equal(t, []string{"good.json"}, k.Snapshot().Names())
	k.reopen()
	require.ElementsMatch(t, slices.Collect(maps.Values(shown)), reported(), "as at the start")
	require.Equal(t, []string{"good.json"}, k.Snapshot().Names())

	for name := range shown {
		require.NoError(t, os.Remove(k.path(name)))
	}
	k.await("the names to be gone", func() bool { return len(reported()) == 0 })
}
