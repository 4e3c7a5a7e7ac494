//go:build !race || soak

package pebblekv

import (
	"testing"

	"confcenter/kvstore/kvtest"
)

// The suite runs on the real disk below, in a file system that loses what was not
// synced when it crashes.
func TestSuite(t *testing.T) { kvtest.Run(t, openForSuite) }
