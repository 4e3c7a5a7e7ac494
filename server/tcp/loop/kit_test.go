package loop

import (
	"net/netip"
	"testing"
	"time"

	"confcenter/internal/clock/clocktest"
	"confcenter/protocol"
	"confcenter/server/tcp/loop/looptest"
)

// echo is a user that answers every frame with an empty reply.
type echo struct {
	c     *Conn
	known bool // it has said who it is

	foresees bool
	lookUps  int
}

func (e *echo) Gathers([]byte) bool { return e.foresees }

func (e *echo) Foresee([]byte) bool { return e.foresees }
func (e *echo) LookUp()             { e.lookUps++ }

func (e *echo) Decode(b []byte) (taken int) {
	for e.c.Reads() && len(b)-taken >= protocol.HeaderSize {
		h, err := protocol.ParseHeader(b[taken:])
		if size := protocol.HeaderSize + int(h.BodyLen); err != nil || len(b)-taken < size || !e.c.Admit(Strict) {
			break
		}
		e.c.Count(h.Command)
		e.c.Reply(h, nil)
		taken += protocol.HeaderSize + int(h.BodyLen)
		e.c.Took(taken)
	}
	return taken
}

func (e *echo) ReadOn()          {}
func (e *echo) Spoke()           {}
func (e *echo) Ended(error)      {}
func (e *echo) Identified() bool { return e.known }
func (e *echo) Name() string     { return "" }

// newConn is a connection without a socket, on a loop that does not run.
func newConn(t testing.TB, limits Limits) (*Conn, *looptest.Wire) {
	g := NewGroup(Config{Limits: limits.WithDefaults(), SlowRequest: time.Second, Clock: clocktest.NewFake(time.Unix(1_000_000, 0))})
	return addConn(addLoop(t, g))
}

func addLoop(t testing.TB, g *Group) *Loop {
	l := NewLoop(g, func(func()) error { return nil })
	t.Cleanup(l.close)
	return l
}

func addConn(l *Loop) (*Conn, *looptest.Wire) {
	c := &Conn{}
	w := &looptest.Wire{Lost: c.Lost}
	c.Open(l, &echo{c: c}, w, netip.MustParseAddrPort("127.0.0.1:9"), 0)
	l.Add(c)
	return c, w
}

// sweepAll does what the waker's polls come to.
func sweepAll(l *Loop) {
	l.sweep.soon()
	for l.sweep.due() {
		l.Wake()
	}
}
