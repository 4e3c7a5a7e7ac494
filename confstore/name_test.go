package confstore

import (
	"os"
	"path/filepath"
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
	} {
		require.NoError(t, CheckName(name), name)
	}
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
