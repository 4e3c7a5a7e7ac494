package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// process is a server started by the benchmark.
type process struct {
	name string
	addr string // where it listens
	pid  int
	log  string // file with what it has printed
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	quit context.CancelFunc
}

const (
	// readyLimit is how long a server may take to start.
	readyLimit = time.Minute
	// stopLimit is how long it may take to end before it is killed.
	stopLimit = 10 * time.Second
)

// startProcess starts a program on one core, or on any if core is below 0. The caller
// stops it.
func startProcess(core int, logDir, name, addr string, argv []string) (*process, error) {
	log, err := os.CreateTemp(logDir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	argv = pinned(core, argv)
	ctx, quit := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{name: name, addr: addr, log: log.Name(), cmd: cmd, gone: make(chan struct{}), quit: quit}
	// Pdeathsig is tied to the thread that starts the child, which must live on, so
	// that thread also waits for the child.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(p.gone)
		}
	}()
	if err := <-started; err != nil {
		quit()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = cmd.Process.Pid
	return p, nil
}

// pinned runs argv under taskset.
func pinned(core int, argv []string) []string {
	if core < 0 {
		return argv
	}
	return append([]string{"taskset", "-c", strconv.Itoa(core)}, argv...)
}

// stop ends the process and waits for its end.
func (p *process) stop() {
	p.quit()
	<-p.gone
}

// printed is the end of the process's output, for an error.
func (p *process) printed() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// knock checks whether a server is up. connect suffices for other programs; ours opens
// its port for a moment to probe it before it serves, so it needs greet.
type knock func(ctx context.Context, addr string) error

func connect(_ context.Context, addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// greet connects and identifies itself.
func greet(ctx context.Context, addr string) error {
	l, err := newLoop(ctx, 0)
	if err != nil {
		return err
	}
	defer l.close()
	_, err = l.identify(addr, 1, false)
	return err
}

// ready waits until knock succeeds at addr, an address of the process.
func (p *process) ready(ctx context.Context, addr string, knock knock) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, errTimeout)
	defer cancel()
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		err := knock(ctx, addr)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w, %w\n%s", p.name, context.Cause(ctx), err, p.printed())
		case <-p.gone:
			return fmt.Errorf("%s has ended: %s", p.name, p.printed())
		case <-retry.C:
		}
	}
}

// freeAddr returns a loopback address that nobody listens on. It is not on 127.0.0.1,
// where any outgoing connection may take the port before the server does.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254)))
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// pinSelf moves every thread of this process, and so those to come, to one core.
func pinSelf(core int) error {
	runtime.GOMAXPROCS(1)
	// Twice, because a thread that was not moved yet may have started another.
	for range 2 {
		out, err := exec.Command("taskset", "--all-tasks", "--pid", "--cpu-list", strconv.Itoa(core), strconv.Itoa(os.Getpid())).CombinedOutput()
		if err != nil {
			return fmt.Errorf("core %d: %w: %s", core, err, out)
		}
	}
	return nil
}
