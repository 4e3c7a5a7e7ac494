package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/kvstore/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

func TestRoutesAreTheTable(t *testing.T) {
	srv := New(Config{}, Stores{State: memory.New(memory.Config{})})
	for _, row := range protocol.Commands {
		routed := srv.gate.Handles(row.ID)
		switch row.Role {
		case protocol.Served, protocol.Routed, protocol.Reserved:
			require.True(t, routed, "%s has no handler", row.Name)
		case protocol.Accepted:
			require.Equal(t, row.ID == protocol.SvrStat, routed, "%s is for a registry that is not there, and only logged", row.Name)
		default:
			require.False(t, routed, "%s is %s and must not be obeyed", row.Name, row.Role)
		}
	}
}

// A command without a decision would be open to everyone: each is refused to those who have no
// rights at all, unless its row says that everyone may use it.
func TestEachCommandIsRefusedToThoseWithoutRights(t *testing.T) {
	for _, row := range protocol.Commands {
		if row.Right == access.Anyone || row.Right == access.Nobody {
			continue
		}
		s, w, _ := newHeldWire(t, Config{})
		s.Rights = new(guard.Caller)
		s.Receive(gatetest.Requests(row.ID, `{}`))
		got := gatetest.Frames(t, w)
		require.Len(t, got, 1, row.Name)
		require.Contains(t, got[0], `"code":1025`, row.Name)
		s.Receive(gatetest.Requests(row.ID.Reply(), `{}`))
		require.Empty(t, gatetest.Frames(t, w), "%s: replies are never answered", row.Name)
	}
}
