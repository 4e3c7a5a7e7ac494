package player

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop/looptest"
)

func getting(names ...string) string {
	return fmt.Sprintf(`{%s,"names":["%s"]}`, owner, strings.Join(names, `","`))
}

// What is asked for in one pipeline is looked up at once, whatever the requests look like.
func TestAPipelineOfGetsIsLookedUpTogether(t *testing.T) {
	k := newKit(t)
	spread := `{ "names": ["gold"], "versions": 1, "ownerId": "4\u0032", "logicType": "bag" }`
	got := k.asks(protocol.StGet, getting("gold"), protocol.StGet, spread, protocol.StGet, getting("none"), protocol.StGet, `{`+owner+`,"names":[]}`,
		protocol.StGet, `{"logicType":"bag","names":["gold"]}`, protocol.StGet, getting("gold", "pic"))
	require.Equal(t, []string{
		`STGET_RSP/1 {"code":0,"fields":{"gold":"10"}}`,
		`STGET_RSP/2 {"code":0,"fields":{"gold":"10"},"versions":{"gold":20}}`,
		`STGET_RSP/3 {"code":0,"fields":{}}`,
		`STGET_RSP/4 {"code":0,"fields":{}}`,
		`STGET_RSP/5 {"code":1010,"desc":"owner_id is empty"}`,
		`STGET_RSP/6 {"code":0,"fields":{"gold":"10"},"bytes":{"pic":"/w=="}}`,
	}, got)
	require.Equal(t, []int{6}, k.player.runs)
}

// What cannot be read stands alone, and so does what asks for more than the loop looks up.
func TestARunEndsBeforeWhatItCannotTake(t *testing.T) {
	k := newKit(t)
	many := slices.Repeat([]string{"gold"}, loopFields)
	got := k.asks(protocol.StGet, getting("gold"), protocol.StGet, `{"names":1}`, protocol.StGet, getting("gold"), protocol.StGet, getting(many...),
		protocol.StGet, getting(append(many, "pic")...), protocol.StGet, getting("pic"))
	require.Len(t, got, 6)
	require.Contains(t, got[1], `"names\" is not an array`)
	require.Equal(t, `STGET_RSP/4 {"code":0,"fields":{"gold":"10"}}`, got[3])
	require.Equal(t, `STGET_RSP/5 {"code":0,"fields":{"gold":"10"},"bytes":{"pic":"/w=="}}`, got[4])
	require.Equal(t, []int{1, 1, 1, 1}, k.player.runs)
}

// A run is looked up together, but it is no way past the gate.
func TestEachGetOfARunIsAskedForItsRight(t *testing.T) {
	k := newKit(t)
	asked := 0
	k.Bench.Gate.Permits = func(*gate.Session, *gate.Route) error {
		if asked++; asked == 2 {
			return codes.Forbidden
		}
		return nil
	}
	got := k.asks(protocol.StGet, getting("gold"), protocol.StGet, getting("gold"), protocol.StGet, getting("gold"))
	require.Equal(t, 3, asked)
	require.Len(t, got, 3)
	require.Contains(t, got[0], `"gold":"10"`)
	require.Contains(t, got[1], `"code":1025`)
	require.Contains(t, got[2], `"gold":"10"`)
}

func TestGetsOfSeveralPeersAreLookedUpTogether(t *testing.T) {
	k := newKit(t)
	for range 3 {
		k.player.runs = nil
		var wires []*looptest.Wire
		for _, name := range []string{"gold", "none", "gold"} {
			peer, w := k.Peer(gatetest.Unlimited)
			peer.Arrive(gatetest.Requests(protocol.StGet, getting(name)))
			wires = append(wires, w)
		}
		k.player.fields[0].Value = []byte("11")
		k.Loop.Wake()
		require.Equal(t, []int{3}, k.player.runs)
		require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"11"}}`}, gatetest.Frames(t, wires[0]), "it was looked up when all were there")
		require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{}}`}, gatetest.Frames(t, wires[1]))
		require.Equal(t, []string{`STGET_RSP/1 {"code":0,"fields":{"gold":"11"}}`}, gatetest.Frames(t, wires[2]))
	}
}

// A get behind a write that is not answered yet is looked up again when it is.
func TestAGatheredGetSeesTheWritesBeforeIt(t *testing.T) {
	k := newKit(t)
	k.player.outcome = &field.Outcome{}
	k.Arrive(gatetest.Requests(protocol.StUpdate, `{`+owner+`,"fields":{"gold":"11"}}`))
	k.Arrive(gatetest.Requests(protocol.StGet, getting("gold")))
	k.Loop.Wake()
	require.Empty(t, gatetest.Frames(t, k.w))
	k.player.fields[0].Value = []byte("11")
	k.player.held[0]()
	k.Loop.Wake()
	got := gatetest.Frames(t, k.w)
	require.Len(t, got, 2)
	require.Contains(t, got[1], `"gold":"11"`)
}
