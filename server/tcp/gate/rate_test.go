package gate_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/memory"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/gate/gatetest"
	"confcenter/server/tcp/loop"
	"confcenter/server/tcp/loop/looptest"
)

// metered is a client that may send so much.
func metered(t *testing.T, b *gatetest.Bench, limits admission.Limits) (*gate.Session, *looptest.Wire) {
	peer := netip.MustParseAddrPort("192.0.2.7:9")
	place, err := admission.New(limits).Front(1, memory.TCPCost).Admit(peer.Addr())
	require.NoError(t, err)
	w := &looptest.Wire{Room: gatetest.Unlimited}
	c := b.Local.Open(w, place, peer, 0)
	w.Lost = c.Lost
	s := gate.SessionOf(c)
	require.NoError(t, s.Identify(0, nil))
	return s, w
}

func TestARequestBeyondTheRateIsRefusedInItsPlace(t *testing.T) {
	b := newBench(t, loop.Limits{})
	s, w := metered(t, b, admission.Limits{Rate: admission.Rate{Requests: 2}})
	const refused = ` {"code":503,"desc":"this connection may send 2 requests per second; nothing was done, try again later","retry_after":500}`
	s.Receive(gatetest.Requests(protocol.GetConfig, "", protocol.SetConfig, "", protocol.SetConfig, "", protocol.GetConfig, ""))
	require.Equal(t, []string{"GETCONFIG_RSP/1 "}, gatetest.Frames(t, w), "a write is on its way")
	s.Fill(0, protocol.AppendFrame(nil, protocol.SetConfig.Reply(), 2, nil))
	gatetest.Sweep(b.Local)
	require.Equal(t, []string{"SETCONFIG_RSP/2 ", "SETCONFIG_RSP/3" + refused, "GETCONFIG_RSP/4" + refused}, gatetest.Frames(t, w))
	b.Clock.Advance(500 * time.Millisecond)
	s.Receive(gatetest.Requests(protocol.GetConfig, "", protocol.GetConfig, ""))
	require.Equal(t, []string{"GETCONFIG_RSP/1 ", "GETCONFIG_RSP/2" + refused}, gatetest.Frames(t, w))
	b.Clock.Advance(250 * time.Millisecond)
	s.Receive(gatetest.Requests(protocol.KeepAlive.Reply(), "", protocol.Command(0x77), ""))
	require.Empty(t, gatetest.Frames(t, w), "these are never answered")
	require.False(t, s.Ending())
}

func TestABytesRateCountsWholeFrames(t *testing.T) {
	b := newBench(t, loop.Limits{})
	s, w := metered(t, b, admission.Limits{AddressRate: admission.Rate{Bytes: 100}})
	s.Receive(gatetest.Requests(protocol.GetConfig, string(make([]byte, 90)), protocol.GetConfig, ""))
	require.Equal(t, []string{"GETCONFIG_RSP/1 ",
		`GETCONFIG_RSP/2 {"code":503,"desc":"this address may send 100 bytes per second; nothing was done, try again later","retry_after":100}`,
	}, gatetest.Frames(t, w))
}

// A frame that had to wait passes the gate again, and is paid for once, also if it is never refused.
func TestAFrameThatComesAgainIsPaidForOnce(t *testing.T) {
	b := gatetest.NewBench(t, loop.Limits{})
	waits := gate.Route{Raw: true, Handle: func(s *gate.Session, h protocol.Header, _ []byte) bool {
		if s.TakePrepared() == nil {
			s.Prepare(h.Command, func() any { return "" })
			return false
		}
		s.Reply(h, nil)
		return true
	}}
	b.Gate.Add(map[protocol.Command]gate.Route{protocol.GetConfig: waits, protocol.KVAlive: waits})
	b.Open()
	for _, first := range []protocol.Command{protocol.GetConfig, protocol.KVAlive} {
		s, w := metered(t, b, admission.Limits{Rate: admission.Rate{Requests: 2}})
		s.Receive(gatetest.Requests(first, "", protocol.GetConfig, ""))
		for b.Group.Jobs() > 0 {
			b.Group.DoJob(0)
			gatetest.Sweep(b.Local)
		}
		require.Equal(t, []string{first.String() + "_RSP/1 ", "GETCONFIG_RSP/2 "}, gatetest.Frames(t, w))
	}
}

// A refusal costs nearly as much as an answer: who floods the server is not refused as fast as he
// can send.
func TestWhoIsRefusedAgainAndAgainHasToRest(t *testing.T) {
	b := newBench(t, loop.Limits{})
	s, w := metered(t, b, admission.Limits{Rate: admission.Rate{Requests: 2}})
	var flood []any
	for range 200 {
		flood = append(flood, protocol.GetConfig, "")
	}
	s.Receive(gatetest.Requests(flood...))
	answered := len(gatetest.Frames(t, w))
	require.Equal(t, 32, answered, "a turn of who has a limit is short")
	require.False(t, s.Reads())
	require.False(t, w.Deaf)
	gatetest.Sweep(b.Local)
	answered += len(gatetest.Frames(t, w))
	require.Equal(t, 2+50+1, answered, "a second's worth of patience, and the one with which it was over")
	require.False(t, s.Reads())
	require.True(t, w.Deaf, "it is not read until it has rested")
	for deadline := time.Now().Add(10 * time.Second); answered < 200 && time.Now().Before(deadline); {
		b.Clock.Advance(20 * time.Millisecond)
		gatetest.Sweep(b.Local)
		answered += len(gatetest.Frames(t, w))
	}
	require.Equal(t, 200, answered, "all of it is answered")
	require.False(t, s.Ending())
}
