package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a server that the benchmark has started.
type process struct {
	name string
	addr string // where it listens
	pid  int
	log  string // file with what it has printed
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
}

const (
	// readyLimit is how long a server may take to start.
	readyLimit = time.Minute
	// stopLimit is how long it may take to end before it is killed.
	stopLimit = 10 * time.Second
)

// startProcess starts a program on one core; core below 0 is any. The caller
// stops it.
func startProcess(core int, logDir, name, addr string, argv []string) (*process, error) {
	log, err := os.CreateTemp(logDir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	argv = pinned(core, argv)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := &process{name: name, addr: addr, log: log.Name(), cmd: cmd, gone: make(chan struct{})}
	// Pdeathsig goes by thread: the one that starts the child must live on, so the
	// child is waited for on it.
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
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
}

// printed is the end of what the process has written, for an error.
func (p *process) printed() string {
	text, _ := os.ReadFile(p.log)
	return string(text[max(0, len(text)-2000):])
}

// knock asks a server whether it is there.
type knock func(ctx context.Context, addr string) error

// greet connects once and is identified.
func greet(ctx context.Context, addr string) error {
	l, err := newLoop(ctx, 0)
	if err != nil {
		return err
	}
	defer l.close()
	_, err = l.identify(addr, 1, false)
	return err
}

// connect connects once.
func connect(_ context.Context, addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ready waits until knock is answered.
func (p *process) ready(ctx context.Context, knock knock) error {
	deadline := time.Now().Add(readyLimit)
	retry := time.NewTicker(time.Millisecond)
	defer retry.Stop()
	for {
		err := knock(ctx, p.addr)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s is not ready after %v: %w\n%s", p.name, readyLimit, err, p.printed())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-p.gone:
			return fmt.Errorf("%s has ended: %s", p.name, p.printed())
		case <-retry.C:
		}
	}
}

// freeAddr is a loopback address nobody listens on now.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// pinSelf moves every thread of this process, and by inheritance those to come,
// to one core.
func pinSelf(core int) error {
	runtime.GOMAXPROCS(1)
	var set unix.CPUSet
	set.Set(core)
	// Twice: a thread may have been started by one not yet moved.
	for range 2 {
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(filepath.Base(task))
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("core %d: %w", core, err)
			}
		}
	}
	return nil
}
