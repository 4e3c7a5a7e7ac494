package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/internal/clock/clocktest"
	"confcenter/internal/servertest"
	"confcenter/protocol"
	"confcenter/server/tcp"
)

// TestAWrongTokenIsRefusedLaterOverTCP: on a new connection and on one that is in, and what comes behind it
// there waits. No one else waits.
func TestAWrongTokenIsRefusedLaterOverTCP(t *testing.T) {
	now := clocktest.NewFake(time.Unix(1_000_000, 0))
	c := crowd(t, func(rules *control.Config, served *tcp.Config) {
		rules.RefusalDelay, served.Clock = 500*time.Millisecond, now
	})
	waiting := func() int64 { return c.rules.Readings().Get("access_refusals_waiting") }
	const wrong = `{"svrid":0,"token":"cct_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`

	stranger := servertest.Dial(t, c.addr)
	stranger.Send(protocol.Whoami, wrong)
	stranger.Send(protocol.KVGet, `{"ns":"n","key":"k"}`)
	eventually(t, "its refusal waits", func() bool { return waiting() == 1 })
	program, other := c.peer("game"), c.peer("game") // from the same address
	require.Contains(t, program.Call(protocol.KVPut, `{"ns":"n","key":"k","value":"v"}`), `"code":0`)
	program.Send(protocol.Whoami, wrong)
	program.Send(protocol.KVPut, `{"ns":"n","key":"k","value":"w"}`)
	eventually(t, "it waits, too", func() bool { return waiting() == 2 })
	gone := servertest.Dial(t, c.addr)
	gone.Send(protocol.Whoami, wrong)
	eventually(t, "a third waits", func() bool { return waiting() == 3 })
	gone.Close()
	without := servertest.Dial(t, c.addr)
	require.EqualValues(t, 401, whoami(t, without, `{"svrid":0}`).Code, "who gives none does not wait")
	now.Advance(499 * time.Millisecond)
	require.Contains(t, other.Call(protocol.KVGet, `{"ns":"n","key":"k"}`), `"v"`)
	require.EqualValues(t, 3, waiting())

	now.Advance(time.Millisecond)
	for _, p := range []*servertest.Peer{stranger, program} {
		got := p.Next()
		require.Equal(t, protocol.Whoami.Reply(), got.Command)
		require.Contains(t, got.Body, `"code":401`)
		p.Closed()
	}
	eventually(t, "no one waits any more, not for who has gone either", func() bool { return waiting() == 0 })
	require.Contains(t, other.Call(protocol.KVGet, `{"ns":"n","key":"k"}`), `"v"`, "what came behind it is void")
}
