package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
	"confcenter/server/tcp/loop/looptest"
)

// gathering is n connections on one loop that foresee whatever they are sent, and how
// often the loop was asked for a turn.
func gathering(t *testing.T, n int) (conns []*Conn, wires []*looptest.Wire, turns *int) {
	g := NewGroup(Config{Limits: Limits{}.WithDefaults(), SlowRequest: time.Second, Clock: clocktest.NewFake(time.Unix(1_000_000, 0))})
	turns = new(int)
	l := NewLoop(g, func(func()) error { *turns++; return nil })
	t.Cleanup(l.close)
	for range n {
		c, w := addConn(l)
		c.User.(*echo).foresees = true
		w.Room = 1 << 20
		conns, wires = append(conns, c), append(wires, w)
	}
	return conns, wires, turns
}

func request(seq uint16) []byte { return protocol.AppendFrame(nil, protocol.KVGet, seq, []byte("{}")) }

func TestWhatSeveralPeersAskForIsLookedUpOnce(t *testing.T) {
	conns, wires, turns := gathering(t, 3)
	for i, c := range conns {
		data := request(uint16(i))
		c.Arrive(data)
		clear(data) // it is the socket's
	}
	require.Equal(t, 1, *turns)
	require.True(t, conns[0].Loop.Busy())
	for _, w := range wires {
		require.Zero(t, w.Got.Len())
	}
	conns[0].Loop.Wake()
	require.False(t, conns[0].Loop.Busy())
	require.Equal(t, 1, conns[0].User.(*echo).lookUps)
	for i, w := range wires {
		require.Equal(t, protocol.AppendFrame(nil, protocol.KVGet.Reply(), uint16(i), nil), w.Got.Bytes())
	}
}

func TestReadsWaitForNothingButReads(t *testing.T) {
	conns, wires, _ := gathering(t, 3)
	conns[0].Arrive(request(1))
	conns[1].Arrive(request(1))
	conns[2].User.(*echo).foresees = false
	conns[2].Arrive(request(1))
	for _, w := range wires {
		require.Equal(t, protocol.HeaderSize, w.Got.Len())
	}
}

func TestAConnectionThatSendsMoreKeepsItsOrder(t *testing.T) {
	conns, wires, _ := gathering(t, 2)
	conns[0].Arrive(request(1))
	conns[1].Arrive(request(1))
	conns[0].Arrive(request(2))
	conns[0].Arrive(append(request(3), make([]byte, maxForeseen)...))
	require.Equal(t, append(append(protocol.AppendFrame(nil, protocol.KVGet.Reply(), 1, nil), protocol.AppendFrame(nil, protocol.KVGet.Reply(), 2, nil)...),
		protocol.AppendFrame(nil, protocol.KVGet.Reply(), 3, nil)...), wires[0].Got.Bytes()[:3*protocol.HeaderSize])
	require.Equal(t, protocol.HeaderSize, wires[1].Got.Len())
}

func TestGatheredFramesAreLimited(t *testing.T) {
	conns, wires, _ := gathering(t, MaxGathered)
	for _, c := range conns {
		require.Zero(t, wires[0].Got.Len())
		c.Arrive(request(1))
	}
	require.Equal(t, protocol.HeaderSize, wires[0].Got.Len())
}

func TestAPeerThatIsAloneDoesNotWaitForOthers(t *testing.T) {
	conns, wires, turns := gathering(t, 1)
	for range 10 * (aloneRest + 1) {
		conns[0].Arrive(request(1))
		conns[0].Loop.Wake()
	}
	require.Equal(t, 10, *turns)
	require.Equal(t, 10*(aloneRest+1)*protocol.HeaderSize, wires[0].Got.Len())
}

func TestWhoIsGoneIsNotAnsweredWhatWasGathered(t *testing.T) {
	conns, wires, _ := gathering(t, 2)
	conns[0].Arrive(request(1))
	conns[1].Arrive(request(1))
	conns[0].Lost(nil)
	conns[1].Loop.HandOn()
	require.Zero(t, wires[0].Got.Len())
	require.Equal(t, protocol.HeaderSize, wires[1].Got.Len())
}
