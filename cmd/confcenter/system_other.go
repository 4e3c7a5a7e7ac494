//go:build !linux

package main

import (
	"runtime"

	"confcenter/server"
)

func raiseFileLimit() (int, error) { return 0, server.RunsOn(runtime.GOOS) }
