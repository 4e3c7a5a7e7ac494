package sse

import (
	"os"
	"syscall"
	"time"

	"confcenter/internal/admission"
)

// Conn is a connection that can carry streams, one after the other.
type Conn struct {
	*admission.Conn
	raw syscall.RawConn // set at open
	out *outlet         // of the stream that it carries; nil: none. Its handler's
}

// NewConn has the kernel hold little of what its peer does not read.
func NewConn(accepted *admission.Conn) *Conn {
	c := &Conn{Conn: accepted}
	c.raw, _ = c.SyscallConn() // fails only for what is no connection
	_ = c.raw.Control(holdLittle)
	return c
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if c.out == nil {
		return c.Conn.Write(b)
	}
	return c.out.write(b)
}

// lastWrite is how long a peer may take to read what is being written when the
// server stops.
const lastWrite = time.Second

// Hurry shortens the time for writing to a connection, or to the one of an answer. Any goroutine
// may call it.
func Hurry(to interface{ SetWriteDeadline(at time.Time) error }) {
	_ = to.SetWriteDeadline(time.Now().Add(lastWrite))
}

// unsentBytes is how much the kernel holds of an answer or stream beyond what it has sent.
// By default that is megabytes for each peer that does not read.
const unsentBytes = 64 << 10

// outlet writes a stream to its socket, in turns. While the socket is full the stream
// has no turn, and is listed with those that wait for their peer.
type outlet struct {
	// set at open
	turn   *Turn
	raw    syscall.RawConn
	try    func(fd uintptr) bool // attempt, made once
	stalls *stalls
	size   func() stalled // what the stream holds while it waits

	b    []byte // left of what is being written
	err  error
	wait *wait // nil: it is not waiting
}

// open makes the outlet write to a connection until the connection's out is taken away.
func (o *outlet) open(c *Conn) { o.raw, o.try, c.out = c.raw, o.attempt, o }

func (o *outlet) write(b []byte) (int, error) {
	o.b, o.err = b, nil
	err := o.raw.Write(o.try)
	o.goOn() // also if the deadline was what ended it
	if o.err != nil {
		err = o.err
	}
	n := len(b) - len(o.b)
	o.b = nil
	return n, err
}

// attempt writes as much as the socket takes. It returns false if the peer has to
// read first.
func (o *outlet) attempt(fd uintptr) bool {
	o.turn.Begin()
	o.goOn()
	for len(o.b) > 0 {
		n, err := transmit(fd, o.b[:min(len(o.b), turnBytes)])
		switch err { //nolint:errorlint // as the kernel says
		case nil:
			o.b = o.b[n:]
			o.turn.Spend(n)
		case syscall.EINTR:
		case syscall.EAGAIN:
			o.turn.End()
			o.wait = o.stalls.enter(o.size())
			o.stalls.relieve()
			return false
		default:
			o.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}

// goOn ends the wait for the peer.
func (o *outlet) goOn() {
	if o.wait != nil {
		o.stalls.leave(o.wait)
		o.wait = nil
	}
}
