//go:build soak

package siege

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// noDevices is why this machine lets a test make no file systems; nil: it does.
var noDevices = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "confcenter-device-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &device{image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "mounted")}
	if err := d.make(16 << 20); err != nil {
		return err
	}
	return d.remove()
})

// device is a file system of its own: what a test does to it concerns nothing else.
type device struct {
	t                *testing.T
	image, loop, dir string
}

// newDevice makes an ext4 of that size. It is nil where the machine does not allow it, which
// the test's log says: what is to be proven everywhere has another way.
func newDevice(t *testing.T, size int64) *device {
	t.Helper()
	if err := noDevices(); err != nil {
		t.Logf("not on a file system of its own, because this machine allows none: %v", err)
		return nil
	}
	base := t.TempDir()
	d := &device{t: t, image: filepath.Join(base, "image"), dir: filepath.Join(base, "mounted")}
	t.Cleanup(func() { require.NoError(t, d.remove()) })
	require.NoError(t, d.make(size))
	t.Logf("on a file system of its own, %s", d.loop)
	return d
}

func (d *device) make(size int64) error {
	file, err := os.Create(d.image)
	if err != nil {
		return err
	}
	if err = file.Truncate(size); err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.Mkdir(d.dir, 0o755)
	}
	if err == nil {
		_, err = command("mkfs.ext4", "-q", "-F", d.image)
	}
	if err == nil {
		d.loop, err = command("losetup", "--find", "--show", d.image)
	}
	if err == nil {
		_, err = command("mount", "-o", "errors=remount-ro", d.loop, d.dir)
	}
	return err
}

func (d *device) remove() error {
	_, err := command("umount", d.dir)
	if d.loop != "" {
		_, also := command("losetup", "--detach", d.loop)
		if err == nil {
			err = also
		}
	}
	return err
}

func command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// remount changes the options of the mount, such as ro.
func (d *device) remount(options string) {
	d.t.Helper()
	_, err := command("mount", "-o", "remount,"+options, d.dir)
	require.NoError(d.t, err)
}

// again mounts it anew, as after a repair.
func (d *device) again() {
	d.t.Helper()
	_, err := command("umount", d.dir)
	require.NoError(d.t, err)
	_, _ = command("fsck.ext4", "-p", d.loop) // its code tells that there was something to do
	_, err = command("mount", d.loop, d.dir)
	require.NoError(d.t, err)
}

// fail has the kernel find the file system damaged, which makes it read-only for good. It is
// false if this kernel has no way to ask for that.
func (d *device) fail() bool {
	d.t.Helper()
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(d.loop), "trigger_fs_error")
	err := os.WriteFile(trigger, []byte("1"), 0o200)
	if err != nil {
		d.t.Logf("the file system cannot be made to fail: %v", err)
	}
	return err == nil
}

// freeze has everything that writes there wait, until thaw is called or the test ends.
func (d *device) freeze() (thaw func()) {
	d.t.Helper()
	_, err := command("fsfreeze", "--freeze", d.dir)
	require.NoError(d.t, err)
	thaw = sync.OnceFunc(func() {
		_, err := command("fsfreeze", "--unfreeze", d.dir)
		require.NoError(d.t, err)
	})
	d.t.Cleanup(thaw)
	return thaw
}

// fill uses up all space, what is kept for root included; empty gives it back.
func (d *device) fill() {
	d.t.Helper()
	file, err := os.OpenFile(d.filler(), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(d.t, err)
	defer file.Close()
	at, err := file.Seek(0, io.SeekEnd)
	require.NoError(d.t, err)
	for step := int64(16 << 20); step >= 4096; {
		if err := unix.Fallocate(int(file.Fd()), 0, at, step); err != nil {
			require.ErrorIs(d.t, err, syscall.ENOSPC)
			step /= 4
			continue
		}
		at += step
	}
}

func (d *device) empty() {
	d.t.Helper()
	require.NoError(d.t, os.Remove(d.filler()))
}

func (d *device) filler() string { return filepath.Join(d.dir, "filler") }

// sick is a server whose disk falls ill.
type sick struct {
	*process.Process
	t   *testing.T
	web *http.Client
}

// nurse prepares a server on conf, with its data in data or, if that is "", on a disk that is
// well.
func nurse(t *testing.T, conf, data string, flags ...string) *sick {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s := &sick{process.New(t, conf, append([]string{"--kv-reserve", "64MiB", "--http-access-log=false"}, flags...)...), t, &http.Client{Transport: transport, Timeout: servertest.Patience}}
	if data != "" {
		s.Data = data
	}
	return s
}

type answer struct {
	status int
	body   string
}

// ask is a request over HTTP that must be answered.
func (s *sick) ask(method, path, body string) answer {
	s.t.Helper()
	r, err := http.NewRequest(method, "http://"+s.HTTP+path, strings.NewReader(body))
	require.NoError(s.t, err)
	reply, err := s.web.Do(r)
	if err != nil {
		s.Lives()
	}
	require.NoError(s.t, err, "%s", s.Said())
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(s.t, err)
	return answer{reply.StatusCode, string(text)}
}

func (s *sick) setFile(name, text string) answer {
	s.t.Helper()
	return s.ask(http.MethodPut, "/v1/config/file?name="+name, text)
}

func (s *sick) setKey(key, value string) answer {
	s.t.Helper()
	return s.ask(http.MethodPut, "/v1/store/key?ns=n&key="+key, fmt.Sprintf(`{"type":"string","value":%q}`, value))
}

// key is a value, or what is answered instead.
func (s *sick) key(key string) string {
	s.t.Helper()
	var entry struct{ Value string }
	got := s.ask(http.MethodGet, "/v1/store/key?ns=n&key="+key, "")
	if got.status != http.StatusOK || json.Unmarshal([]byte(got.body), &entry) != nil {
		return got.body
	}
	return entry.Value
}

// file is a configuration as programs get it.
func (s *sick) file(name string) string {
	s.t.Helper()
	peer := s.Peer()
	defer peer.Close()
	return string(peer.Get(name).Contents)
}

// isReady waits until /readyz agrees.
func (s *sick) isReady(want bool) string {
	s.t.Helper()
	var got answer
	s.await(fmt.Sprintf("ready is %v", want), func() bool {
		got = s.ask(http.MethodGet, "/readyz?verbose", "")
		return (got.status == http.StatusOK) == want
	})
	return got.body
}

// restartWhenAsked does what a supervisor does for a server that says that a restart helps.
func (s *sick) restartWhenAsked() {
	s.t.Helper()
	s.await("a restart helps", func() bool { return s.ask(http.MethodGet, "/livez", "").status == http.StatusServiceUnavailable })
	s.Kill()
	s.Start()
}

// await waits for a fact that nothing announces.
func (s *sick) await(what string, fact func() bool) {
	s.t.Helper()
	deadline := time.After(servertest.Patience)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !fact() {
		select {
		case <-poll.C:
		case <-deadline:
			require.FailNow(s.t, "waited in vain: "+what, "%s", s.Said())
		}
	}
}

// metric is a number of /metrics.
func (s *sick) metric(name string) float64 {
	s.t.Helper()
	for line := range strings.Lines(s.ask(http.MethodGet, "/metrics", "").body) {
		if value, is := strings.CutPrefix(line, "confcenter_"+name+" "); is {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			require.NoError(s.t, err)
			return n
		}
	}
	require.FailNow(s.t, "no such metric: "+name)
	return 0
}

// cpu is the processor time that the server has used.
func (s *sick) cpu() time.Duration {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	require.NoError(s.t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.Atoi(fields[11])
	require.NoError(s.t, err)
	system, err := strconv.Atoi(fields[12])
	require.NoError(s.t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// edit changes a file by hand.
func (s *sick) edit(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.Conf, name)
	require.NoError(s.t, os.WriteFile(path+".new", []byte(text), 0o644))
	require.NoError(s.t, os.Rename(path+".new", path))
}

// reader is a program that follows a.json.
type reader struct {
	*servertest.Peer
	t *testing.T
}

func (s *sick) reader() *reader {
	s.t.Helper()
	r := &reader{s.Peer(), s.t}
	r.Call(protocol.BookCfgChange, `{"file_pattern":"a.json"}`)
	return r
}

// pushed waits until the program is told of a change and reads it.
func (r *reader) pushed(text string) {
	r.t.Helper()
	for r.Push(); string(r.Get("a.json").Contents) != text; {
		r.Push()
	}
}
