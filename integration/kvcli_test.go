package integration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/process"
	"confcenter/internal/servertest"
)

// cli runs the binary's verbs against one server.
type cli struct {
	t    *testing.T
	addr string
	path string
	verb string // the group of verbs

	patience time.Duration // with each line
}

func newCLI(t *testing.T, server *Process) *cli {
	t.Helper()
	path, err := process.Binary()
	require.NoError(t, err)
	return &cli{t: t, addr: server.Addr, path: path, verb: "kv", patience: servertest.Patience}
}

func (c *cli) command(args ...string) *exec.Cmd {
	cmd := exec.Command(c.path, append([]string{c.verb}, args...)...)
	cmd.Env = []string{"CONFCENTER_ADDR=" + c.addr, "PATH=" + os.Getenv("PATH"), "CC=" + c.path}
	return cmd
}

// run returns the exit code and the output.
func (c *cli) run(stdin string, args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	cmd := c.command(args...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		require.NoError(c.t, e)
	}
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// ok runs a command that must succeed and returns its output.
func (c *cli) ok(args ...string) string {
	c.t.Helper()
	code, stdout, stderr := c.run("", args...)
	require.Zero(c.t, code, "%v: %s", args, stderr)
	return strings.TrimSuffix(stdout, "\n")
}

// lines starts a verb and returns its lines and end, which sends a signal and returns the
// exit code.
func (c *cli) lines(args ...string) (next func() string, end func(syscall.Signal) int) {
	c.t.Helper()
	cmd := c.command(args...)
	stdout, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	found := make(chan string, 1000)
	go func() {
		defer close(found)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			found <- scanner.Text()
		}
	}()
	next = func() string {
		c.t.Helper()
		select {
		case line, more := <-found:
			require.True(c.t, more, "%v ended", args)
			return line
		case <-time.After(c.patience):
			require.FailNow(c.t, "no line", "%v", args)
			return ""
		}
	}
	var once sync.Once
	end = func(signal syscall.Signal) int {
		once.Do(func() {
			_ = cmd.Process.Signal(signal)
			for range found {
			}
			_ = cmd.Wait()
		})
		return cmd.ProcessState.ExitCode()
	}
	c.t.Cleanup(func() { end(syscall.SIGKILL) })
	return next, end
}

func TestKVVerbsOfTheBinary(t *testing.T) {
	t.Parallel()
	server := StartProcess(t, sampleConf(t))
	c := newCLI(t, server)
	for _, step := range []struct {
		line string
		code int
	}{
		{"put ns a 1 --type int", 0}, {"get ns a", 0}, {"get ns none", 3}, {"get ns", 2}, {"put ns a x --type int", 5}, {"put ns a 2 --if-mod 0", 5},
		{"incr ns a --max 0", 5}, {"txn ns /none", 1}, {"lease info 7777", 3}, {"drop ns", 2}, {"stat --addr 127.0.0.1:1", 4},
		{"lock ns l --no-wait -- true", 0}, {"lock ns l -- false", 1}, {"watch ns --from 99999999", 5}, {"restore ns a --rev 99999999", 5},
	} {
		code, _, stderr := c.run("", strings.Fields(step.line)...)
		require.Equal(t, step.code, code, "%s: %s", step.line, stderr)
		require.Equal(t, step.code == 0 || step.line == "lock ns l -- false", stderr == "", "%s: %s", step.line, stderr)
	}

	octets := make([]byte, 256<<10)
	for i := range octets {
		octets[i] = byte(i * 7)
	}
	code, _, stderr := c.run(string(octets), "put", "ns", "blob", "-", "--type", "bytes")
	require.Zero(t, code, stderr)
	code, got, _ := c.run("", "get", "ns", "blob", "-o", "raw")
	require.Zero(t, code)
	require.True(t, string(octets) == got, "octets come back as they were")

	before := c.ok("stat", "-o", "json")
	history := c.ok("history", "ns", "a")
	server.Restart()
	require.Equal(t, "1", c.ok("get", "ns", "a"))
	require.Equal(t, history, c.ok("history", "ns", "a"))
	require.Contains(t, before, `"keys":2,`)
	server.Kill()
	code, _, stderr = c.run("", "get", "ns", "a", "--timeout", "200ms")
	require.Equal(t, 4, code, stderr)
	server.Start()
	require.Equal(t, "1", c.ok("get", "ns", "a"))
}

// A pipe that is closed early ends the verb instead of hanging it.
func TestKVOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	c := newCLI(t, StartProcess(t, sampleConf(t)))
	for i := range 50 {
		c.ok("put", "ns", fmt.Sprint(i), strings.Repeat("x", 8<<10))
	}
	cmd := exec.Command("sh", "-c", `"$CC" kv list ns --all -o json | head -c 1 >/dev/null`)
	cmd.Env = c.command().Env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestKVWatchSurvivesARestart(t *testing.T) {
	t.Parallel()
	server := StartProcess(t, sampleConf(t))
	c := newCLI(t, server)
	c.ok("put", "ns", "a", "1")
	next, end := c.lines("watch", "ns", "--state")
	require.Regexp(t, ` state a "1"$`, next())
	require.Regexp(t, ` synced$`, next())
	c.ok("put", "ns", "a", "2")
	require.Regexp(t, ` put a "2"$`, next())
	server.Restart()
	for i := 3; i < 20; i++ {
		c.ok("put", "ns", "a", fmt.Sprint(i))
	}
	server.Kill()
	server.Start()
	c.ok("del", "ns", "a")
	for i := 3; i < 20; i++ {
		require.Regexp(t, fmt.Sprintf(` put a "%d"$`, i), next(), "nothing is missed and nothing repeated")
	}
	require.Regexp(t, ` delete a$`, next())
	require.Zero(t, end(syscall.SIGINT))
}

func TestKVLockOfTheBinary(t *testing.T) {
	t.Parallel()
	server := StartProcess(t, sampleConf(t))
	fence := func(line string) (n int) {
		t.Helper()
		_, err := fmt.Sscanf(line, "fence %d", &n)
		require.NoError(t, err, line)
		return n
	}
	hold := []string{"--", "sh", "-c", `trap 'echo told; exit 9' TERM; echo fence $CONFCENTER_LOCK_FENCE; while :; do sleep 0.02; done`}
	t.Run("the_dead_hand_over_after_their_time", func(t *testing.T) {
		c := newCLI(t, server)
		next, kill := c.lines(append([]string{"lock", "ns", "dead", "--ttl", "2s"}, hold...)...)
		first := fence(next())
		second, end := c.lines(append([]string{"lock", "ns", "dead"}, hold...)...)
		kill(syscall.SIGKILL) // it returns when the command has ended too
		require.Greater(t, fence(second()), first)
		require.Equal(t, 9, end(syscall.SIGTERM), "the command's exit code")
		require.Equal(t, 3, func() int { code, _, _ := c.run("", "get", "ns", "dead"); return code }(), "given back")
	})
	t.Run("a_restart_of_the_server_is_survived", func(t *testing.T) {
		c := newCLI(t, server)
		next, end := c.lines(append([]string{"lock", "ns", "kept"}, hold...)...)
		held := fence(next())
		second, endSecond := c.lines(append([]string{"lock", "ns", "kept"}, hold...)...)
		require.Eventually(t, func() bool { return strings.Contains(c.ok("stat", "-o", "json"), `"leases":2,`) }, servertest.Patience, 20*time.Millisecond)
		server.Restart()
		require.Contains(t, c.ok("get", "ns", "kept", "-o", "json"), fmt.Sprintf(`"create":%d,`, held))
		c.ok("put", "ns", "x", "y", "--if-fence", fmt.Sprintf("kept=%d", held))
		require.Equal(t, 9, end(syscall.SIGTERM))
		after := fence(second())
		require.Greater(t, after, held)
		code, _, _ := c.run("", "put", "ns", "x", "y", "--if-fence", fmt.Sprintf("kept=%d", held))
		require.Equal(t, 5, code)
		require.Equal(t, 9, endSecond(syscall.SIGTERM))
	})
	t.Run("one_at_a_time", func(t *testing.T) {
		c := newCLI(t, server)
		const commands = 8
		var all sync.WaitGroup
		for range commands {
			all.Go(func() {
				cmd := c.command("lock", "ns", "count", "--", "sh", "-c", `n=$("$CC" kv get ns n 2>/dev/null || echo 0); "$CC" kv put ns n $((n+1)) --fenced`)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
			})
		}
		all.Wait()
		require.Equal(t, fmt.Sprint(commands), c.ok("get", "ns", "n"))
	})
}

func TestKVLeaseOfTheBinary(t *testing.T) {
	t.Parallel()
	c := newCLI(t, StartProcess(t, sampleConf(t)))
	// Long enough for programs to start on a busy machine.
	lease := c.ok("lease", "grant", "10s")
	c.ok("put", "ns", "a", "x", "--lease", lease)
	next, end := c.lines("lease", "keep", lease, "--every", "500ms")
	require.Equal(t, lease+" 10s", next())
	watched, _ := c.lines("watch", "ns", "--state")
	require.Regexp(t, ` state a "x"$`, watched())
	require.Regexp(t, ` synced$`, watched())
	c.ok("put", "ns", "b", "y", "--ttl", "11s")
	require.Regexp(t, ` put b "y"$`, watched())
	require.Regexp(t, ` expire b$`, watched(), "the lease is kept all the while")
	require.Zero(t, end(syscall.SIGINT))
	c.patience = 5 * time.Minute // each time that a busy machine has the server stand still the lease begins again
	require.Regexp(t, ` expire a$`, watched())
}
