package server

import (
	"net/netip"
	"testing"
	"time"

	"confcenter/internal/clock"
	"confcenter/protocol"
)

// echo is a user that answers every frame with an empty reply.
type echo struct {
	c     *conn
	known bool // it has said who it is
}

func (e *echo) decode(b []byte) (taken int) {
	for e.c.reads() && len(b)-taken >= protocol.HeaderSize {
		h, err := protocol.ParseHeader(b[taken:])
		if size := protocol.HeaderSize + int(h.BodyLen); err != nil || len(b)-taken < size || !e.c.admit(false) {
			break
		}
		e.c.count(h.Command)
		e.c.reply(h, nil)
		taken += protocol.HeaderSize + int(h.BodyLen)
	}
	return taken
}

func (e *echo) readOn()          {}
func (e *echo) ended(error)      {}
func (e *echo) identified() bool { return e.known }
func (e *echo) name() string     { return "" }

// newConn is a connection without a socket, on a loop that nobody runs.
func newConn(t testing.TB, limits Limits) (*conn, *Wire) {
	g := newGroup(groupConfig{Limits: limits.WithDefaults(), SlowRequest: time.Second, Clock: clock.NewFake(time.Unix(1_000_000, 0))})
	return addConn(addLoop(t, g))
}

func addLoop(t testing.TB, g *group) *loop {
	l := newLoop(g, func(func()) error { return nil })
	t.Cleanup(l.close)
	return l
}

func addConn(l *loop) (*conn, *Wire) {
	c := &conn{}
	w := &Wire{Lost: c.lost}
	c.open(l, &echo{c: c}, w, netip.MustParseAddrPort("127.0.0.1:9"), 0)
	l.add(c)
	return c, w
}

// sweepAll does what the waker's polls come to.
func sweepAll(l *loop) {
	l.sweep.soon()
	for l.sweep.due() {
		l.wake()
	}
}
