package process

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/servertest"
)

// Program is the real binary with its arguments, which may run again and again.
type Program struct {
	// Before are shell commands that run in the process before it becomes the program, to
	// put it under a limit. A change counts from the next start.
	Before string
	// As is the user it runs as, nil for the one who tests.
	As *syscall.Credential

	t    testing.TB
	args func() []string
	*run // nil while there is none
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

// NewProgram prepares to run the binary. The caller starts it; it ends with the test.
func NewProgram(t testing.TB, args ...string) *Program {
	t.Helper()
	p := &Program{t: t, args: func() []string { return args }}
	t.Cleanup(p.Kill)
	return p
}

// Command is how it is started.
func (p *Program) Command() *exec.Cmd {
	p.t.Helper()
	path, err := Binary()
	require.NoError(p.t, err)
	argv := append([]string{path}, p.args()...)
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

// Start starts it.
func (p *Program) Start() {
	p.t.Helper()
	r := &run{cmd: p.Command(), log: make(chan string, 1000), done: make(chan struct{})}
	stderr, err := r.cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, r.cmd.Start())
	p.run = r
	go r.follow(bufio.NewScanner(stderr))
}

func (r *run) follow(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.keep(lines.Text())
		select {
		case r.log <- lines.Text():
		default: // no one looks for so much
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
func (p *Program) Lines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines
}

// Said is the end of its log, if it runs.
func (p *Program) Said() string {
	if p.run == nil {
		return ""
	}
	return p.said()
}

func (r *run) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.last, "\n")
}

// Line waits for a line of the log that contains text.
func (p *Program) Line(text string) string {
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
func (p *Program) Lives() {
	p.t.Helper()
	select {
	case <-p.done:
		require.FailNow(p.t, "the process ended", "%v\n%s", p.err, p.Said())
	default:
	}
}

// PID is its process id.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal.
func (p *Program) Signal(signal os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(signal))
}

// Wait returns how it ended.
func (p *Program) Wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		err := p.err
		p.run = nil
		return err
	case <-time.After(servertest.Patience):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // its last lines then say where it hangs
		<-p.done
		require.FailNow(p.t, "the process does not end", "%s", p.run.said())
		return nil
	}
}

// Kill ends it, if it runs, as a power cut would.
func (p *Program) Kill() {
	if p.run != nil {
		_ = p.cmd.Process.Kill()
		_ = p.Wait()
	}
}

// Stop asks it to end, which it must do with exit code 0.
func (p *Program) Stop() {
	p.t.Helper()
	r := p.run
	p.Signal(syscall.SIGTERM)
	require.NoError(p.t, p.Wait(), "%s", r.said())
}

// StartLander has a lander of that name at work for a server.
func StartLander(t testing.TB, p *Process, dsn, name string) *Program {
	t.Helper()
	lander := NewProgram(t, "landing", "--addr", p.Addr, "--dsn", dsn, "--name", name)
	lander.Start()
	lander.Line("ready")
	return lander
}
