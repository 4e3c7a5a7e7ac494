package tcp

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/confstore"
	"confcenter/internal/atomicfile/atomicfiletest"
	"confcenter/kvstore/memory"
)

// memoryStore is a store of documents on a disk in memory.
func memoryStore(t *testing.T) *confstore.Store {
	mem := atomicfiletest.NewMem(nil)
	mem.MakeDir("/srv/conf")
	mem.MakeDir("/srv/data")
	store, err := confstore.Open(confstore.Config{Dir: "/srv/conf", DataDir: "/srv/data", FS: mem, State: memory.ForTest(t), SetTimeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// setAll changes ten documents in turn, n changes in all.
func setAll(t *testing.T, store *confstore.Store, n int) {
	const together = 500
	done := make(chan error, together)
	for i := 0; i < n; i += together {
		some := min(together, n-i)
		for j := range some {
			req := confstore.SetRequest{Name: fmt.Sprintf("%d.json", j%10), Contents: fmt.Append(nil, i+j)}
			require.NoError(t, store.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
		}
		for range some {
			require.NoError(t, <-done)
		}
	}
}
