//go:build !linux

package job

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// job is a command that runs. It stays in this process's group, so the terminal and the shell treat
// both as one.
type job struct {
	child *exec.Cmd
	ended chan error     // what exitOf says of the command, once
	news  chan os.Signal // nothing
}

// startJob starts child.
func startJob(child *exec.Cmd) (*job, error) {
	if err := child.Start(); err != nil {
		return nil, err
	}
	j := &job{child: child, ended: make(chan error, 1)}
	go func() { j.ended <- exitOf(child, child.Wait()) }()
	return j, nil
}

// obey has nothing to obey.
func (j *job) obey(os.Signal) (goOn bool) { return false }

// resume does nothing: the shell continues both.
func (j *job) resume() {}

// close does nothing: the job has ended.
func (j *job) close() {}

// end has the command end, by force after a while or where it cannot be asked, as on Windows.
func (j *job) end(grace time.Duration) error {
	if j.child.Process.Signal(syscall.SIGTERM) != nil {
		_ = j.child.Process.Kill() // fails only if it has ended
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-j.ended:
		return err
	case <-timer.C:
		_ = j.child.Process.Kill() // fails only if it has ended
		return <-j.ended
	}
}

// exitOf is the exit code that a shell would report for a command.
func exitOf(child *exec.Cmd, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return err
	}
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit(128 + int(status.Signal()))
	}
	return Exit(child.ProcessState.ExitCode())
}
