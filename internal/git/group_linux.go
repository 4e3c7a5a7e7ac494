package git

import (
	"os/exec"
	"syscall"
)

// endTogether has a command that is cancelled end with all that it has started.
func endTogether(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
