package job

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupPoll is how often is looked whether any process of a group is left: no one tells it.
const groupPoll = 20 * time.Millisecond

// job is a command in a process group of its own. To the terminal and to the shell that started us both
// are one job: the command has the foreground when we would have it, and when it is stopped, so are we.
type job struct {
	child    *exec.Cmd
	group    int
	terminal int            // a descriptor of the terminal that controls us; -1: there is none
	front    bool           // whether the command is to have the foreground when we have it
	asked    bool           // whether we have sent the command a SIGTSTP that we got
	ended    chan error     // what exitOf says of the command, once
	news     chan os.Signal // SIGTSTP and SIGCONT to us; a stop: what has stopped the command
}

// startJob starts child. The kernel sends child SIGTERM when the calling thread ends.
func startJob(child *exec.Cmd) (*job, error) {
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	j := &job{child: child, terminal: -1, front: !piped(child), ended: make(chan error, 1), news: make(chan os.Signal, 4)}
	j.listen()
	if err := child.Start(); err != nil {
		signal.Stop(j.news)
		return nil, err
	}
	j.group = child.Process.Pid
	// Ignored from here on, since child would inherit it: what we do with the terminal while the command
	// has its foreground must not stop us.
	signal.Ignore(unix.SIGTTOU)
	if tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		j.terminal = tty
	}
	// The command may have read from the terminal before it has its foreground: then it is stopped, and
	// goes on by what wait tells of it.
	j.give()
	go j.wait()
	return j, nil
}

// piped reports whether a command stands in a pipeline, whose other commands may need the foreground
// that is ours.
func piped(child *exec.Cmd) bool {
	for _, stream := range []any{child.Stdin, child.Stdout} {
		file, ok := stream.(*os.File)
		if !ok {
			return true
		}
		if info, err := file.Stat(); err != nil || info.Mode()&os.ModeNamedPipe != 0 {
			return true
		}
	}
	return false
}

// listen makes news of what the shell and the terminal tell us.
func (j *job) listen() { signal.Notify(j.news, unix.SIGTSTP, unix.SIGCONT) }

// wait waits for the end of the command, and makes news of its stops.
func (j *job) wait() {
	for {
		var status unix.WaitStatus
		switch _, err := unix.Wait4(j.group, &status, unix.WUNTRACED, nil); {
		case err == unix.EINTR:
		case err != nil:
			j.ended <- fmt.Errorf("the command cannot be waited for: %w", err)
			return
		case status.Stopped():
			j.news <- stop(status.StopSignal())
		default:
			_ = j.child.Wait() // it has ended, so what is waited for is the copying of its output
			j.interrupt(status)
			j.ended <- exitOf(status)
			return
		}
	}
}

// interrupt tells our own group what the terminal would have told it if the command were no group of its
// own: a script that has started us, and the rest of a pipeline, are to end with the command.
func (j *job) interrupt(status unix.WaitStatus) {
	sig := status.Signal() // -1: it ended by itself
	if (sig == unix.SIGINT || sig == unix.SIGQUIT) && j.takeBack() && unix.Getpgrp() != os.Getpid() {
		_ = unix.Kill(0, sig) // we are in it
	}
}

// stop is a signal that has stopped the command.
type stop syscall.Signal

// Signal implements os.Signal.
func (stop) Signal() {}

// String implements os.Signal.
func (s stop) String() string { return "stopped by " + syscall.Signal(s).String() }

// exitOf is the exit code that a shell would report for a command.
func exitOf(status unix.WaitStatus) error {
	switch {
	case status.Signaled():
		return Exit(128 + int(status.Signal()))
	case status.ExitStatus() != 0:
		return Exit(status.ExitStatus())
	}
	return nil
}

// obey does what news demand. It returns after a time during which we were stopped, if that is what they
// demand, and reports whether the command is to go on.
func (j *job) obey(sig os.Signal) (goOn bool) {
	switch sig {
	case unix.SIGCONT:
		return true
	case unix.SIGTSTP:
		j.asked = true
		j.signal(unix.SIGTSTP) // if it stops, so do we
		return false
	}
	foreground := j.foreground()
	switch syscall.Signal(sig.(stop)) {
	case unix.SIGTTIN, unix.SIGTTOU:
		j.front = true
		if foreground == j.group || foreground == unix.Getpgrp() {
			return true
		}
	default:
		if foreground != j.group && !j.asked {
			return false // someone holds it still and will let it go on: the lock stays held
		}
	}
	j.asked = false
	j.stopUs()
	return true
}

// stopUs stops our own group until someone continues it, unless no one would.
func (j *job) stopUs() {
	j.takeBack()
	// The others of our group get what the terminal would send them. We stop by a signal to this very
	// thread, so it is here that we stand still: what comes next happens when we go on.
	signal.Ignore(unix.SIGTSTP, unix.SIGCONT)
	_ = unix.Kill(0, unix.SIGTSTP)
	if continued() {
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	}
	j.listen()
}

// continued reports whether there is a shell that can continue us: a process of our session outside of
// our group that has started us, or what started us. The kernel asks the same before a terminal stops
// a group.
func continued() bool {
	for pid := os.Getppid(); pid > 0; {
		session, err := unix.Getsid(pid)
		own, _ := unix.Getsid(0) // cannot fail
		if err != nil || session != own {
			return false
		}
		if group, err := unix.Getpgid(pid); err != nil || group != unix.Getpgrp() {
			return err == nil
		}
		// The parent is the second word after the name, which may have any characters in it.
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		words := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(words) < 2 {
			return false
		}
		pid, _ = strconv.Atoi(string(words[1])) // the kernel's
	}
	return false
}

// resume lets the command go on.
func (j *job) resume() {
	j.give()
	j.signal(unix.SIGCONT)
}

// foreground is the group that the terminal's keys reach; 0: there is none.
func (j *job) foreground() int {
	group, _ := unix.IoctlGetUint32(j.terminal, unix.TIOCGPGRP) // fails without a terminal
	return int(group)
}

// give gives the command the foreground if it is ours.
func (j *job) give() {
	if j.front && j.foreground() == unix.Getpgrp() {
		_ = unix.IoctlSetPointerInt(j.terminal, unix.TIOCSPGRP, j.group) // fails if the command has ended
	}
}

// takeBack takes the foreground back from the command, and reports whether it had it.
func (j *job) takeBack() bool {
	group := j.foreground()
	// A command may have left it to a group of its own that has ended.
	if group == 0 || group != j.group && unix.Kill(-group, 0) != unix.ESRCH {
		return false
	}
	_ = unix.IoctlSetPointerInt(j.terminal, unix.TIOCSPGRP, unix.Getpgrp()) // fails if the terminal has gone
	return true
}

// signal sends all processes of the group a signal, and reports whether there are any.
func (j *job) signal(sig syscall.Signal) bool { return unix.Kill(-j.group, sig) == nil }

// left reports whether a process of the group is left. The command has been waited for.
func (j *job) left() bool {
	for {
		if pid, err := unix.Wait4(-j.group, nil, unix.WNOHANG, nil); err != nil || pid == 0 {
			return j.signal(0)
		}
	}
}

// end has all processes of the group end, by force after a while.
func (j *job) end(grace time.Duration) (err error) {
	// What loses its parent from here on becomes our child, so that we know when it has ended: no one
	// else may wait for it for long, or at all.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // without it this takes longer
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	j.signal(unix.SIGTERM)
	j.signal(unix.SIGCONT) // what is stopped would not notice
	timer, tick := time.NewTimer(grace), time.NewTicker(groupPoll)
	defer timer.Stop()
	defer tick.Stop()
	killed := false
	for ended := j.ended; ended != nil || !killed && j.left(); {
		select {
		case err = <-ended:
			ended = nil
		case <-timer.C:
			j.signal(unix.SIGKILL)
			killed = true
		case <-j.news:
			j.signal(unix.SIGCONT)
		case <-tick.C:
		}
	}
	return err
}

// close gives back what startJob has taken. The command has ended.
func (j *job) close() {
	j.takeBack()
	signal.Stop(j.news)
	if j.terminal >= 0 {
		_ = unix.Close(j.terminal)
	}
}
