package gatetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/kvstore/memory"
)

// Documents is a store of files, by name, in directories of the test's own. It is closed
// when the test ends.
func Documents(t testing.TB, files map[string]string) *confstore.Store {
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	require.NoError(t, os.Mkdir(conf, 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(conf, name), []byte(text), 0o644))
	}
	store, err := confstore.Open(confstore.Config{Dir: conf, DataDir: filepath.Join(dir, "data"), State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}
