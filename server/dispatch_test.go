package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/kvstore/kvtest"
	"confcenter/protocol"
)

func TestRoutesAreTheTable(t *testing.T) {
	srv := New(Config{}, Stores{State: kvtest.NewMemory(kvtest.MemoryConfig{})})
	for _, row := range protocol.Commands {
		routed := srv.gate.Handles(row.ID)
		switch row.Role {
		case protocol.Served, protocol.Routed, protocol.Reserved:
			require.True(t, routed, "%s has no handler", row.Name)
		default:
			require.False(t, routed, "%s is %s and must not be obeyed", row.Name, row.Role)
		}
	}
}
