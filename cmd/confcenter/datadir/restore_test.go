package datadir

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore/backup"
	"confcenter/kvstore/disk"
)

// dataWithKeys makes a data directory with a state store.
func dataWithKeys(t *testing.T, keys ...string) string {
	t.Helper()
	data := t.TempDir()
	store, err := disk.Open(disk.StoreConfig{Disk: disk.Config{Dir: State(data), ReserveBytes: 1}})
	require.NoError(t, err)
	for _, key := range keys {
		_, err := kv.Commit(t.Context(), store, &kv.Txn{Then: []kv.Op{{Kind: kv.OpPut, NS: "ns", Key: key, Value: kv.StringValue(key)}}})
		require.NoError(t, err)
	}
	require.NoError(t, store.Close())
	return data
}

// A restore to a directory that another one fills leaves it alone, and does not advise to empty it.
func TestASecondRestoreToOneDirectory(t *testing.T) {
	data, dir := dataWithKeys(t, "a"), filepath.Join(t.TempDir(), "dir")
	file := filepath.Join(t.TempDir(), "all.backup")
	_, err := WriteBackup(file, func(to io.Writer) (backup.Totals, error) { return Copy(t.Context(), data, to, "test") })
	require.NoError(t, err)
	v, err := VerifyBackup(t.Context(), file, nil, io.Discard)
	require.NoError(t, err)
	restore := func() error {
		_, err := Restore(t.Context(), file, dir, v, disk.Point{}, io.Discard)
		return err
	}
	first, err := newTarget(dir)
	require.NoError(t, err)
	err = restore()
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "is in use: another restore to it")
	require.FileExists(t, filepath.Join(dir, restoreMark))

	// The second has found it empty before the first one began.
	require.NoError(t, os.Remove(filepath.Join(dir, restoreMark)))
	_, err = newTarget(dir)
	require.ErrorIs(t, err, codes.Busy)
	require.NoFileExists(t, filepath.Join(dir, restoreMark))
	require.FileExists(t, filepath.Join(dir, lockName))
	require.NoError(t, first.clear())
	require.NoDirExists(t, dir)

	require.NoError(t, os.Mkdir(dir, 0o700)) // a restore that was killed
	require.NoError(t, os.WriteFile(filepath.Join(dir, restoreMark), nil, 0o600))
	err = restore()
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, "did not finish: remove what is in it")
}

// A kill at any moment of a restore leaves the mark, and what has it is not taken for a data directory.
func TestADirectoryOfAnUnfinishedRestoreIsRefused(t *testing.T) {
	data := dataWithKeys(t, "a")
	require.NoError(t, os.WriteFile(filepath.Join(data, restoreMark), nil, 0o600))
	_, err := take(data, clock.Real(), 0)
	require.ErrorIs(t, err, codes.Storage)
	require.ErrorContains(t, err, "did not finish")
	_, err = newTarget(data)
	require.ErrorContains(t, err, "did not finish")
	require.FileExists(t, filepath.Join(data, restoreMark))
	require.DirExists(t, State(data))
}
