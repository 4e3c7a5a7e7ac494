// Package process runs the real binary for end-to-end tests: it is built once, started,
// killed, stopped and started again, under limits that a test chooses.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// binaryDir is where the binary under test is built; empty until then.
var binaryDir string

// Binary builds the program once, for whichever test asks first, and returns its path.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "confcenter-integration-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // others may have to run it
		return "", err
	}
	path := filepath.Join(dir, "confcenter")
	return path, Build(path, ".", "./cmd/confcenter")
})

// Build builds a program in a module below the root, "." or "tools", as that module would: static, with
// the versions that it names and not those of the tests.
func Build(path, module, dir string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-C", filepath.Join(root, module), "-o", path, dir)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of %s: %w\n%s", dir, module, err, out)
	}
	return nil
}

// Root is the directory of the module confcenter.
func Root() (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "confcenter").Output()
	if err != nil {
		return "", fmt.Errorf("find the module confcenter: %w", err)
	}
	return strings.TrimSpace(string(dir)), nil
}

// RemoveBinary removes what Binary has built, at the end of all tests.
func RemoveBinary() { _ = os.RemoveAll(binaryDir) }

// Process is a running `confcenter serve`, on its own directories and a port that
// stays the same across restarts.
type Process struct {
	*Program
	// Conf and Data are its directories, Addr and HTTP are its addresses.
	Conf, Data, Addr, HTTP string
	// TLS and HTTPS are its addresses with TLS, empty if there are none.
	TLS, HTTPS string
}

// New prepares to serve conf. The caller starts it; it ends with the test.
func New(t testing.TB, conf string, flags ...string) *Process {
	t.Helper()
	p := &Process{Conf: conf, Data: filepath.Join(t.TempDir(), "data"), Addr: "127.0.0.1:0", HTTP: "127.0.0.1:0"}
	p.Program = NewProgram(t) // which is killed before its directory is removed
	p.args = func() []string {
		return append([]string{"serve", "--listen", p.Addr, "--http", p.HTTP, "--conf", p.Conf, "--data", p.Data}, flags...)
	}
	return p
}

// Start serves conf until the test ends.
func Start(t testing.TB, conf string, flags ...string) *Process {
	t.Helper()
	p := New(t, conf, flags...)
	p.Start()
	return p
}

// Start starts it and returns when it says that it is ready.
func (p *Process) Start() {
	p.t.Helper()
	p.Program.Start()
	line := p.Line("ready")
	var ready struct{ Address, HTTP, TLS, HTTPS string }
	require.NoError(p.t, json.Unmarshal([]byte(line), &ready), line)
	p.Addr, p.HTTP, p.TLS, p.HTTPS = ready.Address, ready.HTTP, ready.TLS, ready.HTTPS
}

// Restart stops it and starts it on the same port at once.
func (p *Process) Restart() {
	p.t.Helper()
	p.Stop()
	p.Start()
}

// Peer is an identified connection.
func (p *Process) Peer() *servertest.Peer {
	p.t.Helper()
	peer := servertest.Dial(p.t, p.Addr)
	peer.Identify(`{"svrid":0,"svrname":"peer"}`)
	return peer
}

// Memory is the resident memory of a process, in bytes.
type Memory struct{ Now, Peak int64 }

// Memory reads what the process has, and the most it had since it began or since
// ForgetPeak.
func (p *Process) Memory() Memory {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	require.NoError(p.t, err)
	now, err := kibibytes(string(text), "VmRSS:")
	peak, also := kibibytes(string(text), "VmHWM:")
	require.NoError(p.t, errors.Join(err, also), "%s", text)
	return Memory{Now: now << 10, Peak: peak << 10}
}

func kibibytes(status, name string) (int64, error) {
	_, rest, _ := strings.Cut(status, name)
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
}

// ForgetPeak has Memory's peak begin anew.
func (p *Process) ForgetPeak() {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0o600))
}

// Restored serves a restored data directory on its own configuration directory.
func Restored(t testing.TB, data, conf string) *Process {
	t.Helper()
	p := New(t, conf)
	p.Data = data
	p.Start()
	return p
}

// Files reads a configuration directory.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range list {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(text)
	}
	return files
}

// SampleConf is a copy of the sample configuration that a test may change.
func SampleConf(t testing.TB) string {
	t.Helper()
	root, err := Root()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "conf"))))
	return dir
}
