package loop

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// However much a peer has pipelined, its loop looks at its sockets after each part of it,
// and others who wait have their turns in between.
func TestATurnHandlesABoundedAmountOfAPipeline(t *testing.T) {
	one, wireOne := newConn(t, Limits{})
	two, wireTwo := addConn(one.Loop)
	l := one.Loop
	requests := bytes.Repeat(protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 90)), 10_000)
	for _, c := range []*Conn{one, two} {
		c.User.(*echo).known = true
		require.True(t, c.state.become(forReplies))
		c.Receive(requests)
	}
	wireOne.Room, wireTwo.Room = 1<<30, 1<<30
	const most = turnBytes/100 + 1
	answered := func() (int, int) {
		return wireOne.Got.Len() / protocol.HeaderSize, wireTwo.Got.Len() / protocol.HeaderSize
	}
	one.resume()
	two.resume()
	for turns := 1; l.Busy(); turns++ {
		a, b := answered()
		require.LessOrEqual(t, a+b, (turns+1)*most)
		require.InDelta(t, a, b, most)
		one.resume() // by something else that it may have waited for
		l.AfterTraffic()
		sameA, sameB := answered()
		require.Equal(t, []int{a, b}, []int{sameA, sameB}, "a turn is only had in turn")
		l.Wake()
	}
	a, b := answered()
	require.Equal(t, []int{10_000, 10_000}, []int{a, b})
	require.Zero(t, l.Group.Memory.Held())
}

func TestAConnectionThatIsGoneHasNoMoreTurns(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1 << 30
	c.Receive(bytes.Repeat(protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 90)), 2000))
	require.Equal(t, forTurn, c.state)
	w.Close()
	c.Loop.Wake()
	require.Equal(t, dead, c.state)
	require.False(t, c.Loop.Busy())
}
