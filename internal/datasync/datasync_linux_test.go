package datasync

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// diskFile is a file whose SyncData must not be called.
type diskFile struct {
	*os.File
	t testing.TB
}

func (f diskFile) SyncData() error {
	f.t.Error("SyncData was called")
	return nil
}

func TestFilesAreSyncedWhileOthersRun(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		file, err := os.Create(filepath.Join(t.TempDir(), "file"))
		require.NoError(t, err)
		all.Go(func() {
			defer file.Close()
			for i := range 50 {
				_, err := file.Write(make([]byte, 100*i))
				if err == nil {
					err = Aside(diskFile{file, t})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestASyncThatFailsSaysWhy(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.ErrorIs(t, Aside(diskFile{w, t}), syscall.EINVAL, "a pipe cannot be synced")
}

// memoryFile is not one of the system's.
type memoryFile struct{ err error }

func (memoryFile) Fd() uintptr       { return ^uintptr(0) }
func (f memoryFile) SyncData() error { return f.err }

func TestOtherFilesSyncThemselves(t *testing.T) {
	require.NoError(t, Aside(memoryFile{}))
	require.Equal(t, os.ErrClosed, Aside(memoryFile{os.ErrClosed}))
}
