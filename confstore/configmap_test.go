package confstore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/atomicfile"
)

// TestKubernetesConfigMapSwap does what the kubelet does, with few files and with
// more than are looked at without an event.
func TestKubernetesConfigMapSwap(t *testing.T) {
	for _, n := range []int{2, maxLinked + 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { swapConfigMap(t, n) })
	}
}

func swapConfigMap(t *testing.T, n int) {
	k, all := newConfigMap(t, n, nil)
	require.NoError(t, os.Symlink("..2026_02", k.path("..data_tmp")))
	require.NoError(t, os.Rename(k.path("..data_tmp"), k.path("..data")))
	require.NoError(t, os.RemoveAll(k.path("..2026_01")))
	require.Equal(t, all, names(k.next()))
	require.Equal(t, `{"v":2}`, k.text(all[n-1]))
}

// TestConfigMapSwappedWhileItIsLookedAt: its files change in one batch all the same.
func TestConfigMapSwappedWhileItIsLookedAt(t *testing.T) {
	disk := &swappingDisk{FS: atomicfile.OS()}
	k, all := newConfigMap(t, maxLinked+10, disk)
	made := time.Now()
	k.await("files old enough to be known by their times", func() bool { return time.Since(made) > tick })
	k.Reload()
	k.inside(func() {
		swap := func() { require.NoError(t, os.Rename(k.path("..data_tmp"), k.path("..data"))) }
		disk.left.Store(100)
		disk.then.Store(&swap)
		require.NoError(t, os.Symlink("..2026_02", k.path("..data_tmp")))
		k.intake.settle.links = true
		k.intake.settle.soon()
	})
	require.Equal(t, all, names(k.next()))
}

// swappingDisk does something when the store's goroutine is in the middle of looking at files; that
// is who opens the directory first.
type swappingDisk struct {
	atomicfile.FS
	opened atomic.Bool
	left   atomic.Int32 // how many files are looked at before
	then   atomic.Pointer[func()]
}

func (d *swappingDisk) OpenRoot(dir string) (atomicfile.Root, error) {
	root, err := d.FS.OpenRoot(dir)
	if err != nil || filepath.Base(dir) != "conf" || d.opened.Swap(true) {
		return root, err
	}
	return swappingRoot{root, d}, nil
}

type swappingRoot struct {
	atomicfile.Root
	disk *swappingDisk
}

func (r swappingRoot) Stat(name string) (fs.FileInfo, error) {
	if then := r.disk.then.Load(); then != nil && strings.HasPrefix(name, "f") && r.disk.left.Add(-1) == 0 {
		(*then)()
	}
	return r.Root.Stat(name)
}

// newConfigMap is a directory as the kubelet makes it, with two versions of n files, and those names.
func newConfigMap(t *testing.T, n int, disk atomicfile.FS) (k *kit, all []string) {
	base := t.TempDir()
	k = &kit{t: t, cfg: Config{Dir: filepath.Join(base, "conf"), DataDir: filepath.Join(base, "data"), FS: disk}}
	require.NoError(t, os.Mkdir(k.cfg.DataDir, 0o755))
	for i := range n {
		all = append(all, fmt.Sprintf("f%03d.json", i))
		k.put("..2026_01/"+all[i], `{"v":1}`)
		k.put("..2026_02/"+all[i], `{"v":2}`)
		require.NoError(t, os.Symlink("..data/"+all[i], k.path(all[i])))
	}
	require.NoError(t, os.Symlink("..2026_01", k.path("..data")))
	k.open()
	require.Equal(t, `{"v":1}`, k.text(all[0]))
	return k, all
}
