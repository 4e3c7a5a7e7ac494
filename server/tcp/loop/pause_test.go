package loop

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
	"confcenter/server/tcp/loop/looptest"
)

// paused is a connection that is paused for so long, the clock of its loop, and a request.
func paused(t *testing.T, long time.Duration) (*Conn, *looptest.Wire, *clocktest.Fake, []byte) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1 << 30
	Pause(c, long)
	return c, w, c.Group().clock.(*clocktest.Fake), protocol.AppendFrame(nil, protocol.KeepAlive, 1, nil)
}

// Who pauses is not read and not answered meanwhile, whatever else happens, and then gets all of it.
func TestARestingConnectionIsAnsweredAfterwards(t *testing.T) {
	c, w, now, frame := paused(t, 100*time.Millisecond)
	l := c.Loop
	other, heard := addConn(l)
	other.User.(*echo).known, heard.Room = true, 1<<30
	Pause(c, time.Minute)
	require.Len(t, l.pauses.list, 1)
	readings := l.Group.Readings()
	require.EqualValues(t, 1, readings.Get("server_sessions_resting"))
	require.EqualValues(t, 1, readings.Get("server_sessions_rested_total"))
	require.True(t, w.Deaf, "what the peer sends stays with it")
	for range 3 {
		w.Deaf = false // as when output has left that waited
		c.Receive(frame)
		require.True(t, w.Deaf)
		c.resume()
		now.Advance(30 * time.Millisecond)
		l.pausesOver()
		l.Wake()
		other.Receive(frame)
	}
	require.Zero(t, w.Got.Len())
	require.Equal(t, 3*protocol.HeaderSize, heard.Got.Len(), "others are answered")
	now.Advance(10 * time.Millisecond)
	l.pausesOver()
	require.Zero(t, w.Got.Len(), "it has a turn like others")
	l.Wake()
	require.Equal(t, 3*protocol.HeaderSize, w.Got.Len())
	require.False(t, w.Deaf)
	require.Zero(t, l.Group.Readings().Get("server_sessions_resting"))
	require.Zero(t, l.Group.Readings().Get("server_limits_met_total", "input"), "that is about something else")
}

func TestARestIsNeitherTooShortNorTooLong(t *testing.T) {
	for long, want := range map[time.Duration]time.Duration{0: pauseStep, 300 * time.Millisecond: 300 * time.Millisecond, time.Hour: pauseMost} {
		c, w, now, frame := paused(t, long)
		c.Receive(frame)
		now.Advance(want - 1)
		c.Loop.pausesOver()
		require.Equal(t, forPause, c.state, long)
		now.Advance(1)
		c.Loop.pausesOver()
		c.Loop.Wake()
		require.Equal(t, protocol.HeaderSize, w.Got.Len(), long)
	}
}

func TestARestingConnectionCanEnd(t *testing.T) {
	for name, end := range map[string]func(c *Conn, w *looptest.Wire){
		"the peer has gone":        func(_ *Conn, w *looptest.Wire) { w.Close() },
		"the server closes":        func(c *Conn, _ *looptest.Wire) { c.Finish() },
		"the server resets":        func(c *Conn, _ *looptest.Wire) { c.Reset() },
		"the server takes no more": func(c *Conn, _ *looptest.Wire) { c.Group().Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			c, w, now, frame := paused(t, 0)
			c.Receive(frame)
			end(c, w)
			require.True(t, c.quiet(), "nobody waits for it")
			if c.state == closing || c.state == shut {
				require.False(t, w.Deaf, "its end must be seen")
			}
			now.Advance(pauseMost)
			c.Loop.pausesOver()
			for c.Loop.Busy() {
				c.Loop.Wake()
			}
			require.Zero(t, w.Got.Len())
			require.Zero(t, c.Loop.pauses.n.Load())
		})
	}
}

// A connection whose next turn has enough to do is not read until then: it would keep more and more.
func TestWhoWaitsForATurnThatHasEnoughToDoIsNotRead(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1 << 30
	frame := protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, turnBytes))
	c.Receive(append(frame[:len(frame):len(frame)], frame[:100]...))
	require.Equal(t, forTurn, c.state)
	require.False(t, w.Deaf, "what comes next is not all there")
	c.Receive(frame[100:])
	require.True(t, w.Deaf)
	for c.Loop.Busy() {
		c.Loop.Wake()
	}
	require.False(t, w.Deaf)
	require.Equal(t, 2*protocol.HeaderSize, w.Got.Len())
	require.Zero(t, c.Group().Memory.Held())
	require.Zero(t, c.Group().Readings().Get("server_limits_met_total", "input"))
}

// TestADelayedFrameComesAgain: with what is behind it, and it is no rest of who sends too much.
func TestADelayedFrameComesAgain(t *testing.T) {
	c, w := newConn(t, Limits{})
	c.User.(*echo).known = true
	w.Room = 1 << 30
	require.True(t, Delay(c, 100*time.Millisecond))
	require.False(t, Delay(c, time.Millisecond), "it waits already")
	frame := protocol.AppendFrame(nil, protocol.KeepAlive, 1, nil)
	c.Receive(append(frame[:len(frame):len(frame)], frame...))
	require.Zero(t, w.Got.Len())
	require.Zero(t, c.Group().Readings().Get("server_sessions_rested_total"))
	require.EqualValues(t, 1, c.Group().Readings().Get("server_sessions_resting"))
	c.Group().clock.(*clocktest.Fake).Advance(100 * time.Millisecond)
	c.Loop.pausesOver()
	c.Loop.Wake()
	require.Equal(t, 2*protocol.HeaderSize, w.Got.Len())
}
