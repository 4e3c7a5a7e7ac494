package kills

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
)

const backupWriters, keysPerBackupWriter = 4, 8

// While writers go on, a backup is as of one revision: each key in it is what the old server says
// it was then, and so are the documents.
func TestSoakBackupUnderLoadIsOneRevision(t *testing.T) {
	rounds := whole(60, 2)
	p := process.Start(t, t.TempDir(), "--kv-history-versions=1000000")
	store := process.StoreOf(t, p)
	var writing sync.WaitGroup
	var stop atomic.Bool
	var writes atomic.Int64
	var pause sync.RWMutex // held for writing while a backup is looked at, so that the next one is no larger than it has to be
	// put is false if the server is gone. A disk that is too busy to answer in time refuses some writes.
	put := func(path, body string) bool {
		pause.RLock()
		defer pause.RUnlock()
		status, text, err := store.Try(http.MethodPut, path, body)
		return assert.NoError(t, err) && assert.Contains(t, []int{http.StatusOK, http.StatusGatewayTimeout, http.StatusInsufficientStorage}, status, text)
	}
	for w := range backupWriters {
		writing.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if n%10 == 9 && !put(fmt.Sprintf("/v1/config/file?name=doc%d.json", w), fmt.Sprintf(`{"n":%d}`, n)) {
					return
				}
				key := fmt.Sprintf("/v1/store/key?ns=load&key=%d/%d", w, n%keysPerBackupWriter)
				if !put(key, fmt.Sprintf(`{"value":"%d%s"}`, n, strings.Repeat("x", n%5000))) {
					return
				}
				writes.Add(1)
			}
		})
	}
	defer writing.Wait()
	defer stop.Store(true)
	for range rounds {
		for before := writes.Load(); writes.Load() < before+50; {
			require.False(t, t.Failed())
			store.Revision() // which takes a moment
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "all.backup")
		said := process.Must(t, "backup", "--http", p.HTTP, "-o", "json", file)
		var made struct{ Revision, Rows int64 }
		require.NoError(t, json.Unmarshal([]byte(said), &made), said)
		func() {
			pause.Lock()
			defer pause.Unlock()
			compareBackup(t, store, file, dir, made.Revision)
		}()
		require.NoError(t, os.RemoveAll(dir))
	}
}

// compareBackup restores a backup of a revision below dir, and compares it with the store that it is of.
func compareBackup(t *testing.T, store process.Store, file, dir string, revision int64) {
	t.Helper()
	require.NoFileExists(t, file+".partial")
	require.Contains(t, process.Must(t, "verify", file), "no faults")
	data := filepath.Join(dir, "data")
	process.Must(t, "restore", file, data)
	require.Contains(t, process.Must(t, "verify", data), "no faults")
	other := process.Restored(t, data, t.TempDir())
	restored := process.StoreOf(t, other)
	for w := range backupWriters {
		for k := range keysPerBackupWriter {
			key := fmt.Sprintf("%d/%d", w, k)
			require.Equal(t, store.KeyAt(key, revision), restored.KeyAt(key, 0), "revision %d", revision)
		}
	}
	require.Greater(t, restored.Revision(), store.Revision(), "no revision of the old life comes again")
	for name, text := range process.Files(t, other.Conf) {
		_, asked := restored.Ask(http.MethodGet, "/v1/config/file?name="+name, "")
		require.JSONEq(t, text, process.Document(t, asked), name)
	}
	require.Len(t, process.Files(t, other.Conf), backupWriters)
	other.Stop()
}
