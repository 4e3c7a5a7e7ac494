// Package process runs the real binary for end-to-end tests: it is built once, started,
// killed, stopped and started again, under limits that a test chooses.
package process

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
	build := exec.Command("go", "build", "-o", path, "confcenter/cmd/confcenter")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // static, as it is shipped
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, nil
})

// RemoveBinary removes what Binary has built, at the end of all tests.
func RemoveBinary() { _ = os.RemoveAll(binaryDir) }

// Process is a running `confcenter serve`, on its own directories and a port that
// stays the same across restarts.
type Process struct {
	// Conf and Data are its directories, Addr and HTTP are its addresses.
	Conf, Data, Addr, HTTP string
	// Before are shell commands that run in the process before it becomes the server, to
	// put it under a limit. A change counts from the next start.
	Before string
	// As is the user it runs as, nil for the one who tests.
	As *syscall.Credential

	t     testing.TB
	flags []string
	*run  // nil while there is none
}

// run is one run of the binary.
type run struct {
	cmd  *exec.Cmd
	log  chan string   // what it writes to standard error, line by line; closed at its end
	done chan struct{} // closed when it has ended

	mu    sync.Mutex
	last  []string // guarded by mu: the newest lines
	lines int      // guarded by mu: how many there were
	err   error    // set before done is closed
}

// lastLines is how many lines of a run's log are kept to explain a failure.
const lastLines = 40

// New prepares to serve conf. The caller starts it; it ends with the test.
func New(t testing.TB, conf string, flags ...string) *Process {
	t.Helper()
	p := &Process{Conf: conf, Data: filepath.Join(t.TempDir(), "data"), Addr: "127.0.0.1:0", HTTP: "127.0.0.1:0", t: t, flags: flags}
	t.Cleanup(p.Kill)
	return p
}

// Start serves conf until the test ends.
func Start(t testing.TB, conf string, flags ...string) *Process {
	t.Helper()
	p := New(t, conf, flags...)
	p.Start()
	return p
}

// Command is how it is started.
func (p *Process) Command() *exec.Cmd {
	p.t.Helper()
	path, err := Binary()
	require.NoError(p.t, err)
	argv := append([]string{path, "serve", "--listen", p.Addr, "--http", p.HTTP, "--conf", p.Conf, "--data", p.Data}, p.flags...)
	if p.Before != "" {
		argv = append([]string{"/bin/sh", "-ec", p.Before + `; exec "$0" "$@"`}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"TZ=UTC"} // nothing of what the tests run under
	if p.As != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.As}
	}
	return cmd
}

// Start starts it and returns when it says that it is ready.
func (p *Process) Start() {
	p.t.Helper()
	r := &run{cmd: p.Command(), log: make(chan string, 1000), done: make(chan struct{})}
	stderr, err := r.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, r.cmd.Start())
	p.run = r
	go r.follow(bufio.NewScanner(stderr))
	line := p.Line("ready")
	var ready struct{ Address, HTTP string }
	require.NoError(p.t, json.Unmarshal([]byte(line), &ready), line)
	p.Addr, p.HTTP = ready.Address, ready.HTTP
}

func (r *run) follow(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.keep(lines.Text())
		select {
		case r.log <- lines.Text():
		default: // nobody looks for so much
		}
	}
	close(r.log)
	r.err = r.cmd.Wait()
	close(r.done)
}

func (r *run) keep(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) == lastLines {
		r.last = r.last[1:]
	}
	r.last = append(r.last, line)
	r.lines++
}

// Lines is how many lines its log has.
func (p *Process) Lines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines
}

// Said is the end of its log.
func (p *Process) Said() string { return p.said() }

func (r *run) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.last, "\n")
}

// Line waits for a line of the log that contains text.
func (p *Process) Line(text string) string {
	p.t.Helper()
	timeout := time.After(servertest.Patience)
	for {
		select {
		case line, ok := <-p.log:
			if !ok {
				require.FailNow(p.t, "the process ended", "%s", p.Said())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			require.FailNow(p.t, "no such line: "+text, "%s", p.Said())
		}
	}
}

// Lives fails the test if the process has ended.
func (p *Process) Lives() {
	p.t.Helper()
	select {
	case <-p.done:
		require.FailNow(p.t, "the process ended", "%v\n%s", p.err, p.Said())
	default:
	}
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Process) Signal(signal os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(signal))
}

// Wait returns how it ended.
func (p *Process) Wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		err := p.err
		p.run = nil
		return err
	case <-time.After(servertest.Patience):
		require.FailNow(p.t, "the process does not end")
		return nil
	}
}

// Kill ends it, if it runs, as a power cut would.
func (p *Process) Kill() {
	if p.run != nil {
		_ = p.cmd.Process.Kill()
		_ = p.Wait()
	}
}

// Stop asks it to end, which it must do with exit code 0.
func (p *Process) Stop() {
	p.t.Helper()
	r := p.run
	p.Signal(syscall.SIGTERM)
	require.NoError(p.t, p.Wait(), "%s", r.said())
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
