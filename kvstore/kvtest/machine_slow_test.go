//go:build !race || soak

package kvtest

import (
	"testing"
)

// The suite holds whichever keeps the leases, the replica or its log.
func TestSuiteOnALogThatKeepsLeases(t *testing.T) {
	Run(t, func(_ testing.TB, opts Options) Instance {
		m := newMachine(opts)
		m.keeping = newKeepingLog(m.log, m.clock)
		return m.instance()
	})
}

func TestSuiteOnMemory(t *testing.T) {
	Run(t, func(_ testing.TB, opts Options) Instance { return newMachine(opts).instance() })
}
