//go:build !linux

package serving

import (
	"runtime"

	"confcenter/server/tcp"
)

func raiseFileLimit() (int, error) { return 0, tcp.RunsOn(runtime.GOOS) }
