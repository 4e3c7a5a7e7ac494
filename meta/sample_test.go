package meta_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/meta"
)

// The design document's example B: app1-dev.json with what it inherits.
func TestSampleMerges(t *testing.T) {
	var docs [][]byte
	for _, name := range []string{"common.json", "app1.json", "app1-dev.json"} {
		text, err := os.ReadFile(filepath.Join("../conf", name))
		require.NoError(t, err)
		docs = append(docs, text)
	}
	for _, deep := range []bool{false, true} {
		require.JSONEq(t, `{"key1":"key1 in app1-dev","key2":"key2 in app1-dev","key3":{"subkey3":"value3"},"hojl":"hejinlong"}`,
			string(jsonpath.Merge(docs, deep)))
	}
}

// The sample configuration is what the README runs on: it names only files that
// exist and has nothing to complain about.
func TestSampleConfiguration(t *testing.T) {
	const dir = "../conf"
	text, err := os.ReadFile(filepath.Join(dir, meta.FileName))
	require.NoError(t, err)
	m := parse(t, string(text))
	require.Empty(t, m.Check(func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}))
	for _, name := range m.Names() {
		require.FileExists(t, filepath.Join(dir, name))
	}
	bases, ok := m.Bases("app1-dev")
	require.True(t, ok)
	require.Equal(t, []string{"common.json", "app1.json"}, bases)
	require.Equal(t, meta.Profile{MainConf: "web.json", IDC: 1, Rack: 2, HasIDC: true, HasRack: true}, m.Profile("", "192.168.228.10", "Web-Ctrl"))
	require.Equal(t, meta.Profile{MainConf: "app1-default.json"}, m.Profile("", "127.0.0.1", "app1"))
}
