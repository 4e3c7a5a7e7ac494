package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"confcenter/protocol"
)

// stage is where a group of the benchmark runs: a loop with its connections, and servers. A
// group opens what it needs; clear closes everything.
type stage struct {
	*loop
	core    int    // the servers'; below 0 if there is only one
	binary  string // confcenter
	work    string // directory for the servers' files
	servers []*process
}

// clear closes all connections and stops all servers.
func (g *stage) clear() {
	g.hangUp()
	for _, p := range slices.Backward(g.servers) {
		p.end()
	}
	g.servers = nil
}

// launch starts a program on the servers' core and waits until knock succeeds at addr.
func (g *stage) launch(addr string, knock knock, argv ...string) *process {
	p := startProcess(g.ctx, g.core, argv)
	p.addr = addr
	g.servers = append(g.servers, p)
	check(p.ready(addr, knock))
	return p
}

// served is a real server with its directories.
type served struct {
	*process
	conf, data string
	flags      []string
	under      []string // program and arguments that start it
	web        string   // address for HTTP; empty: none
}

// prepare makes the directories of a server with n small documents, without starting
// it.
func (g *stage) prepare(n int, flags ...string) *served {
	dir := must(os.MkdirTemp(g.work, "server-"))
	s := &served{conf: filepath.Join(dir, "conf"), data: filepath.Join(dir, "data"), flags: flags}
	writeFiles(s.conf, n)
	return s
}

// start starts a prepared server and waits until it answers.
func (g *stage) start(s *served) *served {
	addr := freeAddr()
	argv := append(slices.Clone(s.under), g.binary, "serve", "--listen", addr, "--http="+s.web, "--conf", s.conf, "--data", s.data, "--log-level", "warn")
	s.process = g.launch(addr, greet, append(argv, s.flags...)...)
	if s.web != "" {
		check(s.ready(s.web, connect))
	}
	return s
}

// serve prepares and starts a server.
func (g *stage) serve(n int, flags ...string) *served {
	return g.start(g.prepare(n, flags...))
}

// serveHTTP is serve with HTTP.
func (g *stage) serveHTTP(flags ...string) *served {
	s := g.prepare(1, flags...)
	s.web = freeAddr()
	return g.start(s)
}

// bare starts a ceiling server.
func (g *stage) bare(knock knock, flags ...string) *process {
	addr := freeAddr()
	return g.launch(addr, knock, append([]string{must(os.Executable()), "ceiling", "--listen", addr}, flags...)...)
}

// bareOf is bare with replies of size bytes.
func (g *stage) bareOf(size int) *process { return g.bare(greet, "--reply-size", strconv.Itoa(size)) }

// process is a program started by the benchmark.
type process struct {
	*exec.Cmd
	addr string // where it listens
	pid  int
	gone chan struct{} // closed when it has ended
	out  *os.File      // without a name: what it prints
	stop context.CancelFunc
}

const (
	// readyLimit is how long a server may take to start.
	readyLimit = time.Minute
	// stopLimit is how long it may take to end before it is killed.
	stopLimit = 10 * time.Second
)

// startProcess starts a program, which ends with ctx or when it is stopped. It is killed if
// the thread ends that has started it, which Go's threads do with the program only.
func startProcess(ctx context.Context, core int, argv []string) *process {
	p := &process{gone: make(chan struct{}), out: must(os.CreateTemp("", "ccload-"))}
	check(os.Remove(p.out.Name()))
	ctx, p.stop = context.WithCancel(ctx)
	argv = pinned(core, argv)
	p.Cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = stopLimit
	p.Stdout, p.Stderr = p.out, p.out
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(p.Start())
	p.pid = p.Process.Pid
	go func() {
		_ = p.Wait()
		close(p.gone)
	}()
	return p
}

// pinned runs argv under taskset.
func pinned(core int, argv []string) []string {
	if core < 0 {
		return argv
	}
	return append([]string{"taskset", "-c", strconv.Itoa(core)}, argv...)
}

// end ends the process and waits for its end.
func (p *process) end() {
	p.stop()
	<-p.gone
}

// printed is what it has printed.
func (p *process) printed() []byte { return must(io.ReadAll(io.NewSectionReader(p.out, 0, 1<<30))) }

// memory is the resident memory of a process, and its peak so far, in bytes.
func (p *process) memory() (now, peak int64) {
	status := must(must(procfs.NewProc(p.pid)).NewStatus())
	return int64(status.VmRSS), int64(status.VmHWM)
}

// peak is the peak of its memory so far, in MiB.
func (p *process) peak() float64 {
	_, peak := p.memory()
	return mebibytes(peak)
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// knock checks whether a server is up. connect suffices for other programs; ours opens
// its port for a moment to probe it before it serves, so it needs greet.
type knock func(addr string) error

func connect(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// greet connects and identifies itself.
func greet(addr string) error {
	c, err := net.DialTimeout("tcp", addr, readyLimit)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(readyLimit))
	if _, err = c.Write(protocol.AppendFrame(nil, protocol.Whoami, 0, protocol.AppendIdentify(nil, protocol.Identify{Name: "ccload"}))); err == nil {
		_, err = io.ReadFull(c, make([]byte, protocol.HeaderSize))
	}
	return err
}

// ready waits until knock succeeds at addr, an address of the process.
func (p *process) ready(addr string, knock knock) error {
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		err := knock(addr)
		if err == nil {
			return nil
		}
		select {
		case <-p.gone:
			return fmt.Errorf("%v has ended: %s", p.Args, p.printed())
		default:
		}
		if time.Since(begun) > readyLimit {
			return fmt.Errorf("%v is not ready: %w", p.Args, err)
		}
	}
}

// freeAddr returns a loopback address that no one listens on. It is not on 127.0.0.1,
// where any outgoing connection may take the port before the server does.
func freeAddr() string {
	ln := must(net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))))
	defer ln.Close()
	return ln.Addr().String()
}

// pinSelf moves every thread of this process, and so those to come, to one core.
func pinSelf(core int) error {
	runtime.GOMAXPROCS(1)
	out, err := exec.Command("taskset", "--all-tasks", "--pid", "--cpu-list", strconv.Itoa(core), strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("core %d: %w: %s", core, err, out)
	}
	return nil
}
