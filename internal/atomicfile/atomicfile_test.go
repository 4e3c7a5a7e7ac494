package atomicfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"confcenter/internal/atomicfile"
	"confcenter/internal/atomicfile/atomicfiletest"

	"github.com/stretchr/testify/require"
)

// roots are the real file system and the one in memory, which must agree.
func roots(t *testing.T, test func(t *testing.T, root atomicfile.Root)) {
	t.Run("OS", func(t *testing.T) {
		root, err := atomicfile.OS().OpenRoot(t.TempDir())
		require.NoError(t, err)
		defer root.Close()
		test(t, root)
	})
	t.Run("Mem", func(t *testing.T) {
		m := atomicfiletest.NewMem(nil)
		m.MakeDir("/srv")
		root, err := m.OpenRoot("/srv")
		require.NoError(t, err)
		test(t, root)
	})
}

func read(t *testing.T, root atomicfile.Root, name string) string {
	t.Helper()
	data, _, err := atomicfile.ReadFile(root, name, 1<<20)
	require.NoError(t, err)
	return string(data)
}

func entries(t *testing.T, root atomicfile.Root) (names []string) {
	t.Helper()
	list, err := root.ReadDir(".")
	require.NoError(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteReplacesWholeFilesAndSetsTimeAndMode(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		require.NoError(t, atomicfile.Write(root, "a", []byte("first, and longer"), atomicfile.Attr{}))
		stamp := time.Unix(12345, 0)
		require.NoError(t, atomicfile.Write(root, "a", []byte("second"), atomicfile.Attr{Perm: 0o640, ModTime: stamp}))
		require.Equal(t, "second", read(t, root, "a"))
		info, err := root.Stat("a")
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o640), info.Mode())
		require.True(t, info.ModTime().Equal(stamp))
		require.Equal(t, []string{"a"}, entries(t, root))
	})
}

func TestDiscardLeavesNothing(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		p, err := atomicfile.Prepare(root, "a", []byte("x"), atomicfile.Attr{})
		require.NoError(t, err)
		require.Len(t, entries(t, root), 1)
		require.True(t, atomicfile.IsTemp(entries(t, root)[0]))
		require.NoError(t, p.Discard())
		require.NoError(t, p.Discard())
		require.Empty(t, entries(t, root))
	})
}

func TestWriteIntoAMissingDirectoryFails(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		require.ErrorIs(t, atomicfile.Write(root, "no/a", nil, atomicfile.Attr{}), fs.ErrNotExist)
		require.NoError(t, atomicfile.MkdirAll(root, "no/deep", 0o755))
		require.NoError(t, atomicfile.MkdirAll(root, "no/deep", 0o755))
		require.NoError(t, atomicfile.Write(root, "no/deep/a", []byte("x"), atomicfile.Attr{}))
		require.ErrorIs(t, atomicfile.MkdirAll(root, "no/deep/a", 0o755), atomicfile.ErrNotDirectory)
		require.Error(t, atomicfile.MkdirAll(root, "no/deep/a/b", 0o755))
	})
}

func TestReadFileKeepsItsLimits(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		require.NoError(t, atomicfile.Write(root, "a", []byte("12345"), atomicfile.Attr{}))
		_, _, err := atomicfile.ReadFile(root, "a", 4)
		require.ErrorIs(t, err, atomicfile.ErrTooLarge)
		data, info, err := atomicfile.ReadFile(root, "a", 5)
		require.NoError(t, err)
		require.Equal(t, "12345", string(data))
		require.EqualValues(t, 5, info.Size())
		_, _, err = atomicfile.ReadFile(root, "missing", 5)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, root.Mkdir("dir", 0o755))
		_, info, err = atomicfile.ReadFile(root, "dir", 5)
		require.ErrorIs(t, err, atomicfile.ErrNotRegular)
		require.True(t, info.IsDir())
		_, _, err = atomicfile.ReadFile(root, "a/b", 5)
		require.ErrorIs(t, err, syscall.ENOTDIR)
	})
}

func TestLockIsExclusiveAndGivenBack(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		for _, name := range []string{"l", "."} {
			lock, err := root.Lock(name)
			require.NoError(t, err)
			_, err = root.Lock(name)
			require.ErrorIs(t, err, atomicfile.ErrLocked)
			require.NoError(t, lock.Close())
			lock, err = root.Lock(name)
			require.NoError(t, err)
			require.NoError(t, lock.Close())
		}
	})
}

func TestFilesAreReadAndWrittenInPlace(t *testing.T) {
	roots(t, func(t *testing.T, root atomicfile.Root) {
		f, err := root.OpenFile("a", os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte("world"), 6)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("hello "), 0)
		require.NoError(t, err)
		buf := make([]byte, 5)
		_, err = f.ReadAt(buf, 6)
		require.NoError(t, err)
		require.Equal(t, "world", string(buf))
		require.NoError(t, f.Truncate(5))
		require.Equal(t, "hello", read(t, root, "a"))
		_, err = root.OpenFile("a", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		require.ErrorIs(t, err, fs.ErrExist)
		require.NoError(t, root.Rename("a", "b"))
		require.ErrorIs(t, root.Rename("a", "b"), fs.ErrNotExist)
		require.NoError(t, root.Remove("b"))
		require.ErrorIs(t, root.Remove("b"), fs.ErrNotExist)
	})
}

func TestNoNameAndNoSymlinkLeavesTheRoot(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(base, "in"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(base, "secret"), []byte("s"), 0o600))
	require.NoError(t, os.Symlink("../secret", filepath.Join(base, "in", "link")))
	require.NoError(t, os.Symlink("..", filepath.Join(base, "in", "up")))
	root, err := atomicfile.OS().OpenRoot(filepath.Join(base, "in"))
	require.NoError(t, err)
	defer root.Close()
	for _, name := range []string{"../secret", "link", "up/secret", "/etc/passwd", filepath.Join(base, "secret")} {
		_, _, err := atomicfile.ReadFile(root, name, 100)
		require.Error(t, err, name)
		require.Error(t, atomicfile.Write(root, name+"/x", nil, atomicfile.Attr{}), name)
	}
	require.Error(t, atomicfile.Write(root, "up/new", []byte("x"), atomicfile.Attr{}))
	require.NoError(t, atomicfile.Write(root, "link", []byte("x"), atomicfile.Attr{}), "the link is replaced, not followed")
	data, err := os.ReadFile(filepath.Join(base, "secret"))
	require.NoError(t, err)
	require.Equal(t, "s", string(data))
}

func TestTraceRecordsTheOrder(t *testing.T) {
	m := atomicfiletest.NewMem(nil)
	m.MakeDir("/srv")
	trace := &atomicfiletest.Trace{FS: m}
	root, err := trace.OpenRoot("/srv")
	require.NoError(t, err)
	require.NoError(t, atomicfile.Write(root, "a", []byte("x"), atomicfile.Attr{ModTime: time.Unix(1, 0)}))
	var got []string
	for _, op := range trace.Ops() {
		got = append(got, op.String())
	}
	require.Equal(t, []string{"create srv/.tmp", "write srv/.tmp", "chtimes srv/.tmp", "fsync srv/.tmp", "rename srv/a", "fsync srv/"}, got)
}

// TestFailureAtEachStepOfWrite: the old file, whole, and no temporary one; only
// after the rename the new one.
func TestFailureAtEachStepOfWrite(t *testing.T) {
	for _, step := range []string{"create", "write", "chtimes", "fsync srv/.tmp", "rename", "fsync srv/"} {
		t.Run(step, func(t *testing.T) {
			m := atomicfiletest.NewMem(nil)
			m.MakeDir("/srv")
			require.NoError(t, m.Put("/srv/a", []byte("old"), time.Now()))
			trace := &atomicfiletest.Trace{FS: m, Hook: func(op atomicfiletest.Op) error {
				if strings.HasPrefix(op.String(), step) && (step != "fsync srv/" || op.Name == "srv/") {
					return syscall.ENOSPC
				}
				return nil
			}}
			root, err := trace.OpenRoot("/srv")
			require.NoError(t, err)
			err = atomicfile.Write(root, "a", []byte("new"), atomicfile.Attr{ModTime: time.Unix(1, 0)})
			require.ErrorIs(t, err, syscall.ENOSPC)
			want := "old"
			if step == "fsync srv/" {
				want = "new"
			}
			require.Equal(t, want, read(t, root, "a"))
			require.Equal(t, []string{"a"}, entries(t, root))
		})
	}
}

func TestCrashKeepsWhatWasFsynced(t *testing.T) {
	m := atomicfiletest.NewMem(nil)
	m.MakeDir("/srv")
	root, err := m.OpenRoot("/srv")
	require.NoError(t, err)
	require.NoError(t, atomicfile.Write(root, "safe", []byte("safe"), atomicfile.Attr{}))
	f, err := root.OpenFile("safe", os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.Write([]byte(" and not"))
	require.NoError(t, err)
	_, err = atomicfile.Prepare(root, "b", []byte("b"), atomicfile.Attr{})
	require.NoError(t, err)

	after := func(keep bool) atomicfile.Root {
		root, err := m.Crash(func() bool { return keep }).OpenRoot("/srv")
		require.NoError(t, err)
		return root
	}
	require.Equal(t, "safe", read(t, after(false), "safe"))
	require.Equal(t, []string{"safe"}, entries(t, after(false)), "a name is durable only with its directory")
	require.Equal(t, "safe and not", read(t, after(true), "safe"))
	require.Len(t, entries(t, after(true)), 2)
}

func TestStopAtEachStepOfWrite(t *testing.T) {
	errStopped := errors.New("stopped")
	for step := range 7 {
		for _, keep := range []bool{false, true} {
			m := atomicfiletest.NewMem(nil)
			m.MakeDir("/srv")
			require.NoError(t, m.Put("/srv/a", []byte("old"), time.Now()))
			seen := 0
			trace := &atomicfiletest.Trace{FS: m, Hook: func(atomicfiletest.Op) error {
				if seen++; seen > step {
					return errStopped
				}
				return nil
			}}
			root, err := trace.OpenRoot("/srv")
			require.NoError(t, err)
			err = atomicfile.Write(root, "a", []byte("new"), atomicfile.Attr{ModTime: time.Unix(1, 0)})
			left, openErr := m.Crash(func() bool { return keep }).OpenRoot("/srv")
			require.NoError(t, openErr)
			text := read(t, left, "a")
			require.Contains(t, []string{"old", "new"}, text)
			if err == nil {
				require.Equal(t, "new", text, "acknowledged is durable")
			}
		}
	}
}
