package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// buildBinary builds the program once, for whichever test asks first.
var buildBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "confcenter-integration-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "confcenter")
	if out, err := exec.Command("go", "build", "-o", path, "confcenter/cmd/confcenter").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return path, nil
})

// Process is a running `confcenter serve`, on its own directories and a port that
// stays the same across restarts.
type Process struct {
	// Conf and Data are its directories, Addr and HTTP are its addresses.
	Conf, Data, Addr, HTTP string

	t      *testing.T
	flags  []string
	cmd    *exec.Cmd
	log    chan string // what it wrote to standard error, line by line; closed at its end
	exited chan error
}

// StartProcess serves conf until the test ends.
func StartProcess(t *testing.T, conf string, flags ...string) *Process {
	t.Helper()
	p := &Process{Conf: conf, Data: filepath.Join(t.TempDir(), "data"), Addr: "127.0.0.1:0", HTTP: "127.0.0.1:0", t: t, flags: flags}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// sampleConf is a copy of the sample configuration that a test may change.
func sampleConf(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "conf"))))
	return dir
}

func (p *Process) command() *exec.Cmd {
	p.t.Helper()
	path, err := buildBinary()
	require.NoError(p.t, err)
	cmd := exec.Command(path, append([]string{"serve", "--listen", p.Addr, "--http", p.HTTP, "--conf", p.Conf, "--data", p.Data}, p.flags...)...)
	cmd.Env = []string{"TZ=UTC"} // nothing of what the tests run under
	return cmd
}

// Start starts it and returns when it says that it is ready.
func (p *Process) Start() {
	p.t.Helper()
	p.cmd = p.command()
	stderr, err := p.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	p.log, p.exited = make(chan string, 1000), make(chan error, 1)
	go p.follow(bufio.NewScanner(stderr), p.log, p.exited, p.cmd)
	line := p.Line("ready")
	var ready struct{ Address, HTTP string }
	require.NoError(p.t, json.Unmarshal([]byte(line), &ready), line)
	p.Addr, p.HTTP = ready.Address, ready.HTTP
}

func (p *Process) follow(lines *bufio.Scanner, log chan<- string, exited chan<- error, cmd *exec.Cmd) {
	for lines.Scan() {
		select {
		case log <- lines.Text():
		default: // nobody looks for so much
		}
	}
	close(log)
	exited <- cmd.Wait()
}

// Line waits for a line of the log that contains text.
func (p *Process) Line(text string) string {
	p.t.Helper()
	timeout := time.After(servertest.Patience)
	var seen []string
	for {
		select {
		case line, ok := <-p.log:
			if !ok {
				require.FailNow(p.t, "the process ended", "%s", strings.Join(seen, "\n"))
			}
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
		case <-timeout:
			require.FailNow(p.t, "no such line: "+text, "%s", strings.Join(seen, "\n"))
		}
	}
}

// Signal sends a signal.
func (p *Process) Signal(signal os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(signal))
}

// wait returns how it ended.
func (p *Process) wait() error {
	p.t.Helper()
	select {
	case err := <-p.exited:
		p.cmd = nil
		return err
	case <-time.After(servertest.Patience):
		require.FailNow(p.t, "the process does not end")
		return nil
	}
}

// Kill ends it, if it runs, as a power cut would.
func (p *Process) Kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.wait()
	}
}

// Stop asks it to end, which it must do with exit code 0.
func (p *Process) Stop() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	require.NoError(p.t, p.wait())
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
