package loop

import (
	"bytes"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
	"confcenter/server/tcp/loop/looptest"
)

// liveHeap is what is reachable, in bytes.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC() // also what the first one left in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Whatever peers make the server hold: what is counted is what the heap has, and nothing
// of it stays when they have read or gone.
func TestWhatIsHeldForPeersIsWhatTheHeapHas(t *testing.T) {
	half := protocol.AppendHeader(nil, protocol.SetConfig, 1, 1<<20)
	requests := protocol.AppendFrame(nil, protocol.KeepAlive, 1, make([]byte, 40))
	for name, fill := range map[string]func(c *Conn){
		"half a frame, piece by piece": func(c *Conn) {
			c.Receive(half)
			for range 40 {
				c.Receive(make([]byte, 1000))
			}
		},
		"requests that wait": func(c *Conn) {
			c.state.become(forReplies)
			for range 20 {
				c.Receive(bytes.Repeat(requests, 40))
			}
		},
		"requests that waited, of which some are left": func(c *Conn) {
			c.state.become(forReplies)
			c.Receive(bytes.Repeat(requests, 1000))
			n := c.in.waiting() - 100*len(requests)
			before := c.in.holds()
			c.in.took(n)
			c.Out.count(c.in.holds() - before)
		},
		"short frames": func(c *Conn) {
			for range 500 {
				c.Out.SendFrame([]byte("routed"))
			}
		},
		"frames with spare room": func(c *Conn) {
			for range 5 {
				c.Out.SendFrame(make([]byte, 3000, 8000))
			}
		},
		"long output": func(c *Conn) { c.Out.SendOwn(make([]byte, 30_000)) },
		"a body of its own": func(c *Conn) {
			c.Out.SendShared([]byte("head"), make([]byte, 70_000), "}")
		},
		"pushes": func(c *Conn) {
			c.Out.SendOwn(make([]byte, armSize+1))
			for i := range 50 {
				c.Out.SendPush(make([]byte, 200+i), PushKey{File: string(rune('a' + i%10))})
			}
		},
		"replies behind a write": func(c *Conn) {
			c.Reserve(protocol.KVPut)
			for range 40 {
				c.Result(protocol.Header{Command: protocol.KVPut}, 400, string(make([]byte, 500)))
			}
		},
		"replies that came too early": func(c *Conn) {
			c.Reserve(protocol.KVPut)
			for range 40 {
				c.Fill(c.Reserve(protocol.KVPut), make([]byte, 500))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const conns = 200
			c, w := newConn(t, Limits{})
			list, wires := []*Conn{c}, []*looptest.Wire{w}
			for range conns - 1 {
				c, w := addConn(c.Loop)
				list, wires = append(list, c), append(wires, w)
			}
			for _, c := range list {
				c.User.(*echo).known = true
			}
			before := liveHeap()
			for _, c := range list {
				fill(c)
			}
			c.Loop.buffer = buffer{}
			held, live := c.Group().Memory.Held(), liveHeap()-before
			require.InEpsilon(t, live, held, 0.2, "held %d, live %d", held, live)
			for _, w := range wires {
				w.Close()
				*w = looptest.Wire{}
			}
			c.Loop.buffer, c.Loop.filled, c.Loop.sweep.blocked = buffer{}, nil, nil
			require.Zero(t, c.Group().Memory.Held())
			require.Less(t, liveHeap()-before, live/20)
			runtime.KeepAlive(list)
		})
	}
}

func TestAPieceIsAsLargeAsItIsCounted(t *testing.T) {
	require.EqualValues(t, pieceSize, reflect.TypeFor[piece]().Size())
	require.EqualValues(t, slotSize, reflect.TypeFor[slot]().Size())
}
