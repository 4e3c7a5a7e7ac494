//go:build !race

package tcp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/protocol"
	"confcenter/server/tcp/gate/gatetest"
)

// However requests arrive, and whatever is ready first, they are answered as if each
// had come alone.
func TestRequestsTogetherAreAnsweredLikeRequestsAlone(t *testing.T) {
	store := gatetest.Documents(t, map[string]string{"_meta.json": `{"conf_inherit":{"a.json":"b.json"}}`})
	reset := gatetest.Requests(protocol.SetConfig, `{"filename":"a.json","contents":{"k":0}}`, protocol.SetConfig, `{"filename":"b.json","contents":1}`)
	rapid.Check(t, func(rt *rapid.T) {
		burst := reset
		n := 2 + rapid.IntRange(1, 40).Draw(rt, "requests")
		for seq := 3; seq <= n; seq++ {
			cmd, body := drawRequest(rt)
			burst = protocol.AppendFrame(burst, cmd, uint16(seq), []byte(body))
		}

		alone := converse(t, store)
		for rest := burst; len(rest) > 0; {
			h, err := protocol.ParseHeader(rest)
			require.NoError(rt, err)
			size := protocol.HeaderSize + int(h.BodyLen)
			alone.s.Receive(bytes.Clone(rest[:size]))
			alone.settle()
			rest = rest[size:]
		}
		want := alone.said(rt)
		alone.close()
		require.Len(rt, want, n)

		c := converse(t, store)
		c.state.Room, c.config.room = rapid.IntRange(1, 4).Draw(rt, "room"), rapid.IntRange(1, 4).Draw(rt, "room")
		c.w.Room = rapid.SampledFrom([]int{0, 1 << 40}).Draw(rt, "read")
		for rest := burst; len(rest) > 0; {
			switch rapid.IntRange(0, 7).Draw(rt, "step") {
			case 0:
				cut := min(1<<rapid.IntRange(0, 24).Draw(rt, "cut"), len(rest))
				c.s.Arrive(bytes.Clone(rest[:cut]))
				rest = rest[cut:]
			case 1:
				c.turn()
			case 2:
				c.finishState()
			case 3:
				c.finishConfig()
			case 4:
				c.finishPlayers()
			case 5:
				c.work(func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "job") })
			default:
				c.read(1 << rapid.IntRange(0, 24).Draw(rt, "bytes"))
			}
		}
		c.settle()
		got := c.said(rt)
		c.close()
		require.Equal(rt, brief(want), brief(got))
		require.True(rt, fmt.Sprint(want) == fmt.Sprint(got), "they differ behind their beginnings")
	})
}
