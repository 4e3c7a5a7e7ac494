//go:build !race || soak

package tcp_test

import (
	"testing"

	"confcenter/internal/servertest"
)

// Whatever a session does, it does on every transport.
func TestOnEveryTransport(t *testing.T) { servertest.OnOtherTransports(t, ".") }
