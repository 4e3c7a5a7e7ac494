//go:build !linux

package sse

import "errors"

// No server runs here: see tcp.RunsOn.
func holdLittle(uintptr)                    {}
func transmit(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
