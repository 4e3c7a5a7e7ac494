//go:build !race || soak

package server_test

import (
	"testing"

	"confcenter/internal/servertest"
)

// Whatever a session does, it does on every transport.
func TestOnEveryTransport(t *testing.T) { servertest.OnOtherTransports(t, ".") }
