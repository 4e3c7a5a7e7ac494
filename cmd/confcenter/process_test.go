package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binary builds the program once for all tests that need a process.
var binary = sync.OnceValues(func() (string, error) { return buildBinary("confcenter") })

func buildBinary(name string, flags ...string) (string, error) {
	file := filepath.Join(buildDir, name)
	args := append([]string{"build", "-ldflags", "-X main.version=v0-test", "-o", file}, flags...)
	build := exec.Command("go", append(args, ".")...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	build.Stderr = os.Stderr
	return file, build.Run()
}

// process is a running server.
type process struct {
	cmd *exec.Cmd
	log *serverLog
}

// startServer starts the binary. The test has to wait for its end.
func startServer(t *testing.T, flags ...string) *process {
	t.Helper()
	file, err := binary()
	require.NoError(t, err)
	p := &process{cmd: exec.Command(file, append([]string{"serve", "--loops", "1", "--http", "127.0.0.1:0"}, flags...)...)}
	stderr, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	p.log = readLog(stderr)
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // fails if it has ended, which is the rule
	return p
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
}

// end waits for the process and returns its exit code.
func (p *process) end() int {
	for range p.log.lines { // until it has closed its standard error
	}
	p.log.all.Wait()
	_ = p.cmd.Wait() // the exit code says it too
	return p.cmd.ProcessState.ExitCode()
}

// home makes the directories of a server and returns the flags that name them.
func home(t *testing.T) (conf string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	conf = filepath.Join(dir, "conf")
	write(t, conf, "a.json", `{"v": 1}`)
	write(t, conf, "b.json", `{}`)
	return conf, []string{"--conf", conf, "--data", filepath.Join(dir, "data")}
}

func TestLifeOfAServerProcess(t *testing.T) {
	conf, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0", "--server-id", "7", "--log-level", "error")...)
	ready := p.log.await(t, "ready")
	require.Equal(t, logLine{Level: "info", Message: "ready", Address: ready.Address, HTTP: ready.HTTP, Version: "v0-test", Files: 2, ServerID: 7}, ready)

	r := call(t, `{"v": 2}`, at(ready.Address, "set", "a")...)
	require.Equal(t, exitOK, r.code, r.stderr)
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())

	text, err := os.ReadFile(filepath.Join(conf, "a.json"))
	require.NoError(t, err)
	require.JSONEq(t, `{"v": 2}`, string(text))

	again := startServer(t, append(flags, "--listen", ready.Address)...)
	require.Equal(t, ready.Address, again.log.await(t, "ready").Address, "a restart on the same port works at once")
	again.signal(t, syscall.SIGINT)
	require.Equal(t, exitOK, again.end())
}

// GNU timeout signals its child and then the group the child is in. Two different
// signals stand for that: of two equal ones the kernel may deliver one.
func TestDoubledSIGTERMDoesNotCutTheDrain(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	web, err := net.Dial("tcp", p.log.await(t, "ready").HTTP)
	require.NoError(t, err)
	defer web.Close()
	_, err = fmt.Fprintf(web, "PUT /v1/config/file?name=a.json HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
	require.NoError(t, err)
	answer := bufio.NewReader(web)
	first, err := answer.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, "100 Continue", "the request is being served: the drain waits for it")

	p.signal(t, syscall.SIGTERM)
	p.signal(t, syscall.SIGINT)
	p.log.await(t, "stopping")
	_, err = fmt.Fprint(web, `{"v": 9}`)
	require.NoError(t, err)
	rest, err := io.ReadAll(answer)
	require.NoError(t, err)
	require.Contains(t, string(rest), "HTTP/1.1 200 OK")
	require.Equal(t, exitOK, p.end())
}

func TestWatchesSayWhenTheyAreBack(t *testing.T) {
	_, flags := home(t)
	flags = append(flags, "--listen", "127.0.0.1:0")
	p := startServer(t, flags...)
	addr := p.log.await(t, "ready").Address
	lease := strings.TrimSpace(call(t, "", at(addr, "kv", "lease", "grant", "1h")...).stdout)
	var told []*serverLog
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, verb := range []string{"watch app1", "kv watch jobs --state", "kv lease keep " + lease + " --every 10ms"} {
		reader, writer := io.Pipe()
		log := readLog(reader)
		told = append(told, log)
		shown, stdout := io.Pipe()
		all.Go(func() {
			assert.Equal(t, exitOK, run(ctx, at(addr, strings.Fields(verb)...), strings.NewReader(""), stdout, writer))
			stdout.Close()
			writer.Close()
			for range log.lines {
			}
			log.all.Wait()
		})
		_, err := shown.Read(make([]byte, 1)) // it is under way
		require.NoError(t, err, verb)
		all.Go(func() { io.Copy(io.Discard, shown) })
	}
	p.signal(t, syscall.SIGKILL)
	p.end()
	for _, log := range told {
		log.await(t, "lost the connection to "+addr)
	}
	flags[len(flags)-1] = addr
	p = startServer(t, flags...)
	for _, log := range told {
		log.await(t, "connected to "+addr+" again")
	}
	cancel()
	all.Wait()
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

func TestHangupReadsTheFilesAgain(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	addr := p.log.await(t, "ready").Address
	p.signal(t, syscall.SIGHUP)
	p.log.await(t, "SIGHUP")
	require.Equal(t, exitOK, call(t, "", at(addr, "get", "a")...).code, "the server goes on")
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

func TestWhatASecondServerMustNotShare(t *testing.T) {
	conf, flags := home(t)
	p := startServer(t, append(flags, "--listen", "127.0.0.1:0")...)
	addr := p.log.await(t, "ready").Address
	data := flags[3]
	cases := []struct {
		name, want string
		flags      []string
	}{
		{"its data", data, append(flags, "--listen", "127.0.0.1:0")},
		{"its port", "address already in use", []string{"--conf", conf, "--data", t.TempDir(), "--listen", addr}},
		{"conf and data", "inside", []string{"--conf", conf, "--data", filepath.Join(conf, "data"), "--listen", "127.0.0.1:0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file, err := binary()
			require.NoError(t, err)
			second := exec.Command(file, append([]string{"serve", "--http="}, c.flags...)...)
			out, err := second.CombinedOutput()
			require.Error(t, err)
			require.Equal(t, exitFailed, second.ProcessState.ExitCode(), string(out))
			require.Contains(t, string(out), c.want)
		})
	}
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}

func TestOpenAccessIsAnnouncedLoudly(t *testing.T) {
	_, flags := home(t)
	p := startServer(t, append(flags, "--listen", "0.0.0.0:0", "--allow-open")...)
	warning := p.log.await(t, "OPEN ACCESS")
	require.Equal(t, "warn", warning.Level)
	require.Contains(t, warning.Message, "may read and write")
	_, port, err := net.SplitHostPort(p.log.await(t, "ready").Address)
	require.NoError(t, err)
	require.Equal(t, exitOK, call(t, "", at("127.0.0.1:"+port, "ls")...).code)
	p.signal(t, syscall.SIGTERM)
	require.Equal(t, exitOK, p.end())
}
