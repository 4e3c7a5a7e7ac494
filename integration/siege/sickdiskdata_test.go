//go:build soak

package siege

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestFileSystemThatFailsUnderLoad: the kernel takes a damaged file system for read-only. The
// server goes on serving, also after a restart, and what it had acknowledged is there when
// the file system is repaired.
func TestFileSystemThatFailsUnderLoad(t *testing.T) {
	d := newDevice(t, 400<<20)
	if d == nil {
		failUnderLoad(t, "", limitFileSize)
		return
	}
	s, acks := failUnderLoad(t, filepath.Join(d.dir, "data"), func(s *sick) {
		if !d.fail() {
			limitFileSize(s)
		}
	})
	s.Kill()
	s.Start()
	require.Equal(t, "1", s.key("a"), "acknowledged")
	require.Equal(t, edited, s.file("a.json"))
	s.refuses("read_only")
	s.edit("a.json", again)
	s.await("the edit", func() bool { return s.file("a.json") == again })

	s.Kill()
	d.again()
	s.Start()
	require.Equal(t, "1", s.key("a"))
	require.Equal(t, again, s.file("a.json"))
	s.takes("repaired")
	t.Logf("%d writes were acknowledged under load", acks)
}

// TestFilesThatCannotGrowUnderLoad is the same with a limit that any machine has.
func TestFilesThatCannotGrowUnderLoad(t *testing.T) {
	s, acks := failUnderLoad(t, "", limitFileSize)
	require.NoError(t, unix.Prlimit(s.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, nil))
	s.restartWhenAsked()
	s.takes("again")
	s.Kill()
	s.Start()
	require.Equal(t, "1", s.key("a"))
	require.Equal(t, "again", s.key("b"))
	require.Equal(t, edited, s.file("a.json"))
	t.Logf("%d writes were acknowledged under load", acks)
}

// limitFileSize has all of the server's writes to files fail.
func limitFileSize(s *sick) {
	s.t.Helper()
	require.NoError(s.t, unix.Prlimit(s.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, nil))
}

func failUnderLoad(t *testing.T, data string, fall func(*sick)) (*sick, int64) {
	s := nurse(t, confDir(t), data)
	s.Start()
	reader, w := s.reader(), watch(t, s.Process)
	s.takes("1")
	require.Equal(t, http.StatusOK, s.setKey("a", "1").status)
	l := s.load()
	defer l.end()
	s.await("the load", func() bool { return l.acks.Load() > 20 })
	fall(s)
	s.edit("a.json", edited)
	reader.pushed(edited)
	s.refuses()
	require.Equal(t, "1", s.key("a"))
	l.end()
	w.relieve()
	return s, l.acks.Load()
}

// TestDataDirectoryMountedReadOnly: a server that can only read its data serves it, and takes
// writes once it was restarted where it can.
func TestDataDirectoryMountedReadOnly(t *testing.T) {
	d := newDevice(t, 400<<20)
	var s *sick
	var close, open func()
	if d != nil {
		s = nurse(t, confDir(t), filepath.Join(d.dir, "data"))
		close, open = func() { d.remount("ro") }, func() { d.remount("rw") }
	} else {
		s = nurse(t, confDir(t), "")
		close = func() { s.permit(0o500, 0o400) }
		open = func() { s.permit(0o700, 0o600) }
	}
	s.another()
	s.Start()
	s.takes("1")
	s.Stop()
	close()
	t.Cleanup(open)
	s.Start()
	require.Equal(t, "1", s.key("b"))
	require.Equal(t, `"1"`, s.file("b.json"))
	s.refuses("read_only", s.Data)
	reader := s.reader()
	s.edit("a.json", edited)
	reader.pushed(edited)
	open()
	s.restartWhenAsked()
	s.takes("2")
	s.Kill()
	s.Start()
	require.Equal(t, edited, s.file("a.json"))
	require.Equal(t, "2", s.key("b"))
}

// permit changes the permissions of everything in the data directory.
func (s *sick) permit(dir, file os.FileMode) {
	s.t.Helper()
	require.NoError(s.t, filepath.WalkDir(s.Data, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	}))
	require.NoError(s.t, filepath.WalkDir(s.Data, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return os.Chmod(path, file)
	}))
	var dirs []string
	require.NoError(s.t, filepath.WalkDir(s.Data, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	}))
	for i := range dirs {
		require.NoError(s.t, os.Chmod(dirs[len(dirs)-1-i], dir))
	}
}

// TestDataDirectoryWithoutPermissionToWrite is the same by permissions, on any machine.
func TestDataDirectoryWithoutPermissionToWrite(t *testing.T) {
	s := nurse(t, confDir(t), "")
	s.another()
	s.Start()
	s.takes("1")
	s.Stop()
	s.permit(0o500, 0o400)
	t.Cleanup(func() { s.permit(0o700, 0o600) })
	s.Start()
	require.Equal(t, "1", s.key("b"))
	require.Equal(t, `"1"`, s.file("b.json"))
	s.refuses("read_only")
	s.permit(0o700, 0o600)
	s.restartWhenAsked()
	s.takes("2")
}
