package integration

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
	"confcenter/protocol"
)

// buildDump builds ccdump beside the binary under test.
var buildDump = sync.OnceValues(func() (string, error) {
	beside, err := process.Binary()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(beside), "ccdump")
	return path, process.Build(path, "tools", "./ccdump")
})

// dumping is a running ccdump.
type dumping struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr chan string // lines; closed at their end
	once           sync.Once
}

func startDump(t *testing.T, args ...string) *dumping {
	t.Helper()
	path, err := buildDump()
	require.NoError(t, err)
	d := &dumping{t: t, cmd: exec.Command(path, args...)}
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	status, err := d.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	d.stdout, d.stderr = linesOf(out), linesOf(status)
	t.Cleanup(func() { d.end(syscall.SIGKILL) })
	return d
}

func linesOf(r io.Reader) chan string {
	lines := make(chan string, 10000)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	return lines
}

// wait returns the first line with text in it.
func (d *dumping) wait(lines chan string, text string) string {
	d.t.Helper()
	limit := time.After(servertest.Patience)
	for {
		select {
		case line, more := <-lines:
			require.True(d.t, more, "it ended without %q", text)
			if strings.Contains(line, text) {
				return line
			}
		case <-limit:
			require.FailNow(d.t, "no line", "with %q", text)
		}
	}
}

// end sends a signal, waits for the end and returns the exit code.
func (d *dumping) end(signal syscall.Signal) int {
	d.once.Do(func() {
		_ = d.cmd.Process.Signal(signal)
		for range d.stdout {
		}
		for range d.stderr {
		}
		_ = d.cmd.Wait()
	})
	return d.cmd.ProcessState.ExitCode()
}

// dump runs ccdump to its end.
func dump(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := buildDump()
	require.NoError(t, err)
	cmd := exec.Command(path, args...)
	var out, status strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &status
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), status.String()
}

var latencyText = regexp.MustCompile(` in [0-9.]+(ns|µs|ms|s)$`)

func TestDumpLive(t *testing.T) {
	srv := start(t, family())
	port := fmt.Sprint(srv.Addr().(*net.TCPAddr).Port)
	file := filepath.Join(t.TempDir(), "live.pcapng")
	live := startDump(t, "live", "--interface", "lo", "--port", port, "--body", "whole", "--write", file)
	first, more := <-live.stderr
	require.True(t, more)
	if strings.Contains(first, "needs root") && os.Getenv("CI") != "true" {
		t.Log("not allowed to capture: only the refusal was tested")
		require.Equal(t, 1, live.end(syscall.SIGTERM))
		return
	}
	require.Contains(t, first, "capturing on lo")
	p := dial(t, srv)
	p.Identify(`{"svrid":0,"svrname":"watched"}`)
	p.Call(protocol.GetConfig, `{"file_pattern":"dev","incbase":1}`)
	large := `{"filename":"large.json","contents":{"k":"` + strings.Repeat("x", 300_000) + `"}}`
	require.Zero(t, result(t, p.Call(protocol.SetConfig, large)).Code)

	require.Contains(t, live.wait(live.stdout, "# opened"), " > "+srv.Addr().String())
	require.Contains(t, live.wait(live.stdout, " > WHOAMI seq=1"), `{"svrid":0,"svrname":"watched"}`)
	require.Contains(t, live.wait(live.stdout, " < WHOAMI_RSP"), "watched/2001")
	require.Contains(t, live.wait(live.stdout, " > GETCONFIG seq=2"), `{"file_pattern":"dev","incbase":1}`)
	require.Regexp(t, latencyText, live.wait(live.stdout, " < GETCONFIG_RSP seq=2"))
	require.Contains(t, live.wait(live.stdout, " > SETCONFIG seq=3"), large[len(large)-100:])
	require.Contains(t, live.wait(live.stdout, " < SETCONFIG_RSP seq=3"), `"code":0`)
	p.Close()
	live.wait(live.stdout, "# closed by the client")
	require.Zero(t, live.end(syscall.SIGINT))

	// The file it has written shows the same.
	code, out, stderr := dump(t, file, "--body", "whole")
	require.Zero(t, code, stderr)
	require.Contains(t, out, large)
	require.NotContains(t, out, " ! ")
}

func TestDumpTap(t *testing.T) {
	srv := start(t, family())
	file := filepath.Join(t.TempDir(), "tap.pcap")
	tap := startDump(t, "tap", "--listen", "127.0.0.1:0", "--to", srv.Addr().String(), "--write", file)
	addr := strings.Fields(strings.SplitN(tap.wait(tap.stderr, "listening on"), "listening on ", 2)[1])[0]

	p := servertest.Dial(t, addr)
	p.Identify(`{"svrid":0,"svrname":"tapped"}`)
	require.Zero(t, book(t, p, `{"file_pattern":"dev","incbase":1}`).Code)
	other := servertest.Dial(t, addr)
	other.Identify(`{"svrid":0,"svrname":"other"}`)
	large := `{"k":"` + strings.Repeat("y", 3_000_000) + `"}`
	require.Zero(t, set(t, other, "dev", large, "").Code)
	p.Push()
	require.JSONEq(t, large, string(get(t, p, "dev.json", false).Contents), "whatever passes is not changed")
	p.Close()
	other.Close()

	require.Contains(t, tap.wait(tap.stdout, "> BOOKCFGCHANGE"), "tapped/2001")
	require.Contains(t, tap.wait(tap.stdout, "> SETCONFIG"), "other/2002")
	require.Contains(t, tap.wait(tap.stdout, "EVNOTIFY"), `"cfg_change"`)
	for range 2 {
		tap.wait(tap.stdout, "# closed by the client")
	}
	require.Zero(t, tap.end(syscall.SIGTERM))

	// The conversation can be replayed to another server, which answers alike.
	again := servertest.Start(t, family())
	code, out, stderr := dump(t, "replay", file, "--to", again.Addr().String(), "--pace", "10x", "--timeout", servertest.Patience.String())
	require.Zero(t, code, out+stderr)
	require.Contains(t, out, "5 replies and 1 pushes alike, 0 different")
	// By then it is another server.
	code, out, stderr = dump(t, "replay", file, "--to", again.Addr().String(), "--timeout", "200ms")
	require.Equal(t, 3, code, out+stderr)
	require.Contains(t, out, "EVNOTIFY")
	require.Contains(t, out, "does not come within 200ms", "contents that are there already are not pushed")
}

func TestDumpTapWithoutAServer(t *testing.T) {
	t.Parallel()
	// No one else here listens on this address, so the port stays free.
	server, err := net.Listen("tcp", "127.0.0.2:0")
	require.NoError(t, err)
	require.NoError(t, server.Close())
	tap := startDump(t, "tap", "--listen", "127.0.0.1:0", "--to", server.Addr().String())
	addr := strings.Fields(strings.SplitN(tap.wait(tap.stderr, "listening on"), "listening on ", 2)[1])[0]
	for range 50 {
		servertest.Dial(t, addr).Closed()
	}
	server, err = net.Listen("tcp", server.Addr().String())
	require.NoError(t, err)
	defer server.Close()
	for range 3 {
		program, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer program.Close()
		passed, err := server.Accept()
		require.NoError(t, err)
		defer passed.Close()
	}
	require.Contains(t, <-tap.stderr, "the server cannot be reached")
	require.Contains(t, <-tap.stderr, "the server can be reached again; 50 connections were closed")
	require.Zero(t, tap.end(syscall.SIGINT))
}

// A tap ends even if connections are open.
func TestDumpTapEndsWithItsConnections(t *testing.T) {
	srv := start(t, family())
	tap := startDump(t, "tap", "--listen", "127.0.0.1:0", "--to", srv.Addr().String(), "-o", "json")
	addr := strings.Fields(strings.SplitN(tap.wait(tap.stderr, "listening on"), "listening on ", 2)[1])[0]
	p := servertest.Dial(t, addr)
	p.Identify(`{"svrid":0,"svrname":"tapped"}`)
	require.Contains(t, tap.wait(tap.stdout, `"command":"WHOAMI_RSP"`), `"svrname":"tapped"`)
	require.Zero(t, tap.end(syscall.SIGINT))
	p.Closed()
}
