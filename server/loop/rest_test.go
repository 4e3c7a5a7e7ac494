package loop

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// Who rests is not answered meanwhile, whatever else happens, and then gets all of it.
func TestARestingConnectionIsAnsweredAfterwards(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1 << 30
	frame := protocol.AppendFrame(nil, protocol.KeepAlive, 1, nil)
	Rest(c)
	Rest(c)
	require.Len(t, c.Loop.rests.list, 1)
	for range 3 {
		c.Receive(frame)
		c.resume()
		c.Loop.Wake()
	}
	require.Zero(t, w.Got.Len())
	c.Loop.restsOver()
	require.Equal(t, 3*protocol.HeaderSize, w.Got.Len())
	require.Zero(t, c.Loop.rests.n.Load())

	Rest(c)
	w.Close()
	c.Loop.restsOver()
	require.Equal(t, dead, c.state)
}
