//go:build !linux

package main

import (
	"os"
	"runtime"
	"syscall"

	"confcenter/server"
)

func raiseFileLimit() (int, error) { return 0, server.RunsOn(runtime.GOOS) }

// endsWithUs are no attributes: only Linux ends a command with the process that started it.
func endsWithUs() *syscall.SysProcAttr { return nil }

// askToStop ends a process where it cannot be asked, as on Windows.
func askToStop(p *os.Process) {
	if p.Signal(syscall.SIGTERM) != nil {
		_ = p.Kill()
	}
}
