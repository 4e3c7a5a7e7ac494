package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"confcenter/cmd/confcenter/job"
)

// console is a pseudo terminal, and a program that leads a session on it.
type console struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	more *sync.Cond
	text string // guarded by mu: what is shown and has not been awaited
	over bool   // guarded by mu: nothing has the terminal any more
	late bool   // guarded by mu
}

// onConsole starts a program on a terminal of its own.
func onConsole(t *testing.T, words ...string) *console {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	defer screen.Close()
	c := &console{t: t, keys: keys, cmd: exec.Command(words[0], words[1:]...)}
	c.more = sync.NewCond(&c.mu)
	c.cmd.Env = append(os.Environ(), "PS1=> ", "ENV=", "TERM=dumb", "HISTFILE=")
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = screen, screen, screen
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, c.cmd.Start())
	var reading sync.WaitGroup
	reading.Go(c.read)
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // fails if it has ended, which is the rule
		_ = c.cmd.Wait()         // the same
		reading.Wait()           // what is left on the terminal has been told that it is gone
		keys.Close()
	})
	return c
}

func (c *console) read() {
	part := make([]byte, 4096)
	for {
		n, err := c.keys.Read(part)
		c.mu.Lock()
		c.text += string(part[:n])
		c.over = err != nil
		c.more.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return // no process has the terminal any more
		}
	}
}

func (c *console) types(keys string) {
	c.t.Helper()
	_, err := c.keys.WriteString(keys)
	require.NoError(c.t, err)
}

// awaits returns the groups of what is shown at last.
func (c *console) awaits(pattern string) []string {
	c.t.Helper()
	what := regexp.MustCompile(pattern)
	timer := time.AfterFunc(patience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late = true
		c.more.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if at := what.FindStringSubmatchIndex(c.text); at != nil {
			found := what.FindStringSubmatch(c.text)
			c.text = c.text[at[1]:]
			return found
		}
		require.False(c.t, c.over || c.late, "not shown: %q, but %q", pattern, c.text)
		c.more.Wait()
	}
}

// rest is what is shown until no process has the terminal any more.
func (c *console) rest() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.over {
		c.more.Wait()
	}
	return c.text
}

// awaitsForeground waits until the shell has given the terminal to a job.
func (c *console) awaitsForeground() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		group, err := unix.IoctlGetUint32(int(c.keys.Fd()), unix.TIOCGPGRP)
		return err == nil && int(group) != c.cmd.Process.Pid
	}, patience, time.Millisecond)
}

// ends returns the exit code of the program, or 128 plus the signal that ended it.
func (c *console) ends() int {
	_ = c.cmd.Wait() // the state says it too
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// locker is a server and the beginning of a command line that takes a lock there.
func locker(t *testing.T) (addr string, lock []string) {
	t.Helper()
	addr = store(t)
	t.Setenv("CONFCENTER_ADDR", addr)
	file, err := binary()
	require.NoError(t, err)
	return addr, []string{file, "kv", "lock", "ns", "job"}
}

// inFront is a script that says so as soon as it has the foreground, which it is given when it runs.
const inFront = `until read -r _ _ _ _ group _ _ front _ </proc/$$/stat; [ $group = $front ]; do :; done; echo rea""dy; `

func requireFree(t *testing.T, addr string) {
	t.Helper()
	require.Equal(t, exitNotFound, call(t, "", at(addr, "kv", "get", "ns", "job")...).code, "the lock is free")
}

// awaitGone waits until a process has ended. It may still be there for its parent.
func awaitGone(t *testing.T, pid string) {
	t.Helper()
	require.Eventually(t, func() bool { return !lives(pid) }, patience, 5*time.Millisecond, pid)
}

func lives(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

// A command that runs under a lock has the terminal as if the shell had started it.
func TestKVLockAtATerminal(t *testing.T) {
	addr, lock := locker(t)
	with := func(script string, flags ...string) []string {
		return append(append(append([]string(nil), lock...), flags...), "--", "sh", "-c", script)
	}
	t.Run("it reads, in the foreground, in a group of its own", func(t *testing.T) {
		c := onConsole(t, with(`read x; read -r _ _ _ _ group _ _ front _ </proc/$$/stat; echo "got-$x $$ $group $front"`)...)
		c.types("line\r")
		found := c.awaits(`got-line (\d+) (\d+) (\d+)`)
		require.Equal(t, found[1], found[2])
		require.Equal(t, found[1], found[3])
		require.Equal(t, exitOK, c.ends())
		requireFree(t, addr)
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		c := onConsole(t, with(`trap 'echo in""terrupted; exit 7' INT; trap 'exit 8' TERM; `+inFront+`while :; do sleep 0.01; done`)...)
		c.awaits("ready")
		c.types("\x03")
		c.awaits("interrupted")
		require.Equal(t, 7, c.ends())
		requireFree(t, addr)
		c = onConsole(t, with(inFront+`exec sleep 1000`)...)
		c.awaits("ready")
		c.types("\x03")
		require.Equal(t, 128+int(syscall.SIGINT), c.ends())
		requireFree(t, addr)
	})
	t.Run("Ctrl-C in a script", func(t *testing.T) {
		line := strings.Join(lock, " ") + ` -- sh -c '` + inFront + `exec sleep 1000'; echo went-on`
		c := onConsole(t, "dash", "-c", line)
		c.awaits("ready")
		c.types("\x03")
		require.Equal(t, 128+int(syscall.SIGINT), c.ends())
		require.NotContains(t, c.rest(), "went-on")
		requireFree(t, addr)
	})
	t.Run("Ctrl-Z without a shell stops nothing", func(t *testing.T) {
		c := onConsole(t, with(inFront+`while read x; do echo got-$x; done`)...)
		c.awaits("ready")
		c.types("one\r\x1atwo\r")
		c.awaits("got-two")
		c.types("\x04")
		require.Equal(t, exitOK, c.ends())
	})
	t.Run("TERM to us", func(t *testing.T) {
		c := onConsole(t, with(`trap 'exit 8' TERM; sleep 1000 & echo other $!; wait`)...)
		other := c.awaits(`other (\d+)`)[1]
		require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, 8, c.ends())
		require.False(t, lives(other), "the whole group has ended before the lock is released")
		requireFree(t, addr)
	})
	t.Run("the lock is lost", func(t *testing.T) {
		c := onConsole(t, with(`sleep 1000 & echo other $!; wait`)...)
		other := c.awaits(`other (\d+)`)[1]
		require.Equal(t, exitOK, call(t, "", at(addr, "kv", "del", "ns", "job")...).code)
		c.awaits("the lock was lost")
		require.Equal(t, exitRefused, c.ends())
		require.False(t, lives(other))
	})
}

// Ctrl-Z gives the shell its prompt, and fg the terminal back to the command.
func TestKVLockUnderJobControl(t *testing.T) {
	addr, lock := locker(t)
	line := func(script, after string, flags ...string) string {
		return strings.Join(append(lock, flags...), " ") + " -- sh -c '" + script + "'" + after + "\r"
	}
	for name, shell := range map[string][]string{"bash": {"bash", "--norc", "--noprofile", "-i"}, "dash": {"dash", "-i"}} {
		t.Run(name, func(t *testing.T) {
			c := onConsole(t, shell...)
			leave := func() {
				c.types("exit 3\r")
				require.Equal(t, 3, c.ends())
				requireFree(t, addr)
			}
			fg := func() {
				c.types("fg\r")
				c.awaits(`fg\r\n(?s:.*)kv lock.*\n`)
				c.awaitsForeground()
			}
			c.awaits("> ")
			c.types(line(`echo be"gun"; while read x; do echo got-"$x"; done`, ""))
			c.awaits("begun")
			for _, word := range []string{"one", "two"} {
				c.types(word + "\r")
				c.awaits("got-" + word)
				c.types("\x1a")
				c.awaits("Stopped")
				c.types("echo shell-$((1+1))\r")
				c.awaits("shell-2")
				fg()
			}
			c.types("\x04")
			c.awaits("> ")

			c.types(line(`echo be"gun"; read x; echo got-"$x"`, " &"))
			c.awaits("begun")
			for state := ""; state != "Stopped"; {
				c.types("jobs\r")
				state = c.awaits(`(Running|Stopped).*kv lock`)[1]
			}
			fg()
			c.types("late\r")
			c.awaits("got-late")
			c.awaits("> ")

			c.types(line(`echo be"gun" >&2; exec sleep 1000`, " | cat"))
			c.awaits("begun")
			c.types("\x1a")
			c.awaits("Stopped")
			fg()
			c.types("\x03")
			c.awaits("> ")
			leave()
		})
	}
}

// What was stopped for longer than the lock lasts ends when it is continued.
func TestKVLockLapsesWhileItIsStopped(t *testing.T) {
	addr, lock := locker(t)
	c := onConsole(t, "bash", "--norc", "--noprofile", "-i")
	c.awaits("> ")
	c.types(strings.Join(lock, " ") + ` --ttl 200ms -- sh -c '` + inFront + `while read x; do echo got-"$x"; done'` + "\r")
	c.awaits("ready")
	c.types("\x1a")
	c.awaits("Stopped")
	require.Eventually(t, func() bool {
		return call(t, "", at(addr, "kv", "get", "ns", "job")...).code == exitNotFound
	}, patience, 20*time.Millisecond)
	c.types("fg\r")
	c.awaits("the lock was lost")
	c.types("echo code-$?\r")
	c.awaits(fmt.Sprintf("code-%d", exitRefused))
	c.types("exit 3\r")
	require.Equal(t, 3, c.ends())
}

// What ignores SIGTERM is killed after a while, with all that it has started; what a command that ends
// by itself leaves behind goes on.
func TestKVLockEndsAGroup(t *testing.T) {
	// hold returns the word that the script says, once that has been said and end called.
	hold := func(ctx context.Context, h job.Terms, script string, end func()) (said string, err error) {
		in, out, failed := os.Pipe()
		require.NoError(t, failed)
		defer in.Close()
		var reading sync.WaitGroup
		reading.Go(func() {
			_, failed = fmt.Fscan(in, &said)
			end()
		})
		h.TTL = time.Hour
		child := exec.Command("sh", "-c", script)
		child.Stdout, child.Stderr = out, os.Stderr
		err = job.Run(ctx, h, child)
		out.Close()
		reading.Wait()
		require.NoError(t, failed)
		return said, err
	}
	const deaf = `trap "" TERM; sh -c 'while :; do sleep 0.01; done' & echo $!; while :; do sleep 0.01; done`
	ctx, cancel := context.WithCancel(t.Context())
	other, err := hold(ctx, job.Terms{Grace: 50 * time.Millisecond}, deaf, cancel)
	require.Equal(t, job.Exit(128+9), err)
	awaitGone(t, other)

	lost := make(chan struct{})
	other, err = hold(t.Context(), job.Terms{Lost: lost, Grace: 50 * time.Millisecond}, deaf, func() { close(lost) })
	require.ErrorContains(t, err, "the lock was lost")
	awaitGone(t, other)

	other, err = hold(t.Context(), job.Terms{Grace: time.Hour}, `sleep 1000 & echo $!; exit 4`, func() {})
	require.Equal(t, job.Exit(4), err)
	require.True(t, lives(other))
	pid, failed := strconv.Atoi(other)
	require.NoError(t, failed)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
}

// Without a terminal a command is ended with its group, and Ctrl-C's signal to us is its SIGTERM.
func TestKVLockWithoutATerminal(t *testing.T) {
	addr, lock := locker(t)
	signals := []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}
	for _, sig := range signals { // what these tests were started to ignore, as by nohup, the command would ignore too
		signal.Notify(make(chan os.Signal, 1), sig)
		defer signal.Reset(sig)
	}
	for _, sig := range signals {
		cmd := exec.Command(lock[0], append(lock[1:], "--", "sh", "-c", `trap 'exit 8' TERM; sleep 1000 & echo $!; wait`)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		var other string
		_, err = fmt.Fscan(out, &other)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(sig))
		_ = cmd.Wait() // the exit code says it too
		require.Equal(t, 8, cmd.ProcessState.ExitCode(), sig)
		require.False(t, lives(other))
		requireFree(t, addr)
	}
}
