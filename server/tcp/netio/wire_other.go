//go:build !linux

package netio

import "errors"

// No server runs here: see tcp.RunsOn.
func receive(int, []byte) (int, error)  { return 0, errors.ErrUnsupported }
func transmit(int, []byte) (int, error) { return 0, errors.ErrUnsupported }
func peek(int) error                    { return errors.ErrUnsupported }
