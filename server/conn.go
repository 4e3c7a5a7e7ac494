package server

import (
	"net/netip"
	"sync/atomic"

	"confcenter/protocol"
)

// conn is one connection: what arrives, the order of its replies, what its peer has
// not read yet. Everything in it belongs to its loop. What its frames mean is its
// user's.
type conn struct {
	// set at open
	loop   *loop
	t      transport
	user   user
	peer   netip.AddrPort
	fd     int
	opened int64 // unix ns

	// loop only
	state    inputState
	in       input
	out      output
	replies          // in the order of the requests
	prepared any     // what a worker has made for the frame that comes again
	index    int     // in loop.conns
	on       listing // the loop's lists it is on
	deadline int64   // unix ns by which it has identified, or once closing is gone

	// any goroutine
	active atomic.Int64 // unix ns of the last complete frame, from the loop's clock
}

// listing says on which lists of its loop a connection is, one bit each.
type listing uint8

const (
	onTimed   listing = 1 << iota // it has a deadline
	onBlocked                     // its peer has not read everything
	onHungry                      // a store's queue was full
	onFilled                      // its next reply was filled in this turn
)

// join reports whether it was not on that list before.
func (on *listing) join(list listing) bool {
	joined := *on&list == 0
	*on |= list
	return joined
}

func (on *listing) leave(list listing) { *on &^= list }

// user is whom a connection's frames are for. All methods are called on the loop.
type user interface {
	// decode handles the complete frames in b, as far as they may be taken now, and
	// returns how many bytes they took.
	decode(b []byte) (taken int)
	// readOn is called when the peer has read, so that more can be sent.
	readOn()
	// ended is called once, when the connection is gone.
	ended(err error)
	// identified is false until the peer has said who it is.
	identified() bool
	// name is what logs call the peer, empty if it has not said.
	name() string
}

// open joins a new connection to its loop, and has u act on its frames.
func (c *conn) open(l *loop, u user, t transport, peer netip.AddrPort, fd int) {
	c.loop, c.user, c.t, c.peer, c.fd, c.opened = l, u, t, peer, fd, l.now
	c.out.c, c.replies.c = c, c
	c.active.Store(l.now)
}

// reads is true while frames are taken.
func (c *conn) reads() bool { return c.state == reading }

// ending is true once no frame is taken any more; what is on its way is still sent.
func (c *conn) ending() bool { return c.state.over() }

// gone is true once nothing can be sent any more.
func (c *conn) gone() bool { return c.state == dead }

// needs notes how many bytes the next frame takes, 0 if its header is not known.
func (c *conn) needs(n int) { c.in.need = n }

func (c *conn) limits() *Limits { return &c.loop.srv.limits }

func (c *conn) group() *group { return c.loop.srv }

// receive takes what arrived. data is only valid during the call.
func (c *conn) receive(data []byte) {
	l := c.loop
	if c.state.over() || l.srv.draining.Load() {
		return
	}
	l.meter.beginBurst()
	if c.in.waiting() > 0 {
		if !c.keep(data) {
			return
		}
		c.decodeKept()
	} else if n := c.user.decode(data); n < len(data) && !c.state.over() {
		c.keep(data[n:])
	}
	c.flushReplies()
	l.meter.endBurst(c)
	l.meter.addCounts()
}

// keep appends to the undecoded input, within its limit.
func (c *conn) keep(data []byte) bool {
	g := c.loop.srv
	if c.in.waiting()+len(data) > c.limits().Input {
		g.count.InputLimit.Add(1)
		c.abort("too much input waits behind requests that cannot go on")
		return false
	}
	before := c.in.holds()
	c.in.keep(data)
	g.memory.add(c.in.holds() - before)
	c.loop.relief.relieve(c)
	return c.state != dead
}

func (c *conn) decodeKept() {
	if c.in.whole() {
		n := c.user.decode(c.in.front())
		before := c.in.holds()
		c.in.took(n)
		c.loop.srv.memory.sub(before - c.in.holds())
	}
}

func (c *conn) forgetInput() {
	c.loop.srv.memory.sub(c.in.holds())
	c.in = input{}
}

// turnBytes is how much input a connection decodes before others get a turn.
const turnBytes = 256 << 10

// took is told of the frames decoded so far in one go, in bytes, and ends a turn that
// has been long enough.
func (c *conn) took(bytes int) {
	if bytes > turnBytes && c.state.become(forTurn) {
		c.loop.post(mailFunc(func(*loop) { c.resume() }))
	}
}

// admit says whether a request may be handled now; otherwise it waits. A request
// sees every earlier write of its connection, so all but writes wait for writes; and
// nobody gets more replies while those he has are not read.
func (c *conn) admit(write bool) bool {
	limits := c.limits()
	switch {
	case c.out.bytes >= limits.Pending:
		c.wait(forReader)
		return false
	case len(c.slots) > 0 && !(write && len(c.slots) < limits.Writes):
		c.wait(forReplies)
		return false
	}
	return true
}

// wait stops decoding until resume. The frame it stopped at is decoded again.
func (c *conn) wait(reason inputState) bool {
	if !c.state.become(reason) {
		return false
	}
	c.loop.srv.count.Parked.Add(1)
	return true
}

// starve waits for a store's queue to have room.
func (c *conn) starve() {
	if c.wait(forRoom) {
		c.loop.hungry.add(c)
	}
}

// resume goes on decoding, if it waits for anything but a worker.
func (c *conn) resume() {
	if c.state.parked() {
		c.goOn()
	}
}

func (c *conn) goOn() {
	if !c.state.become(reading) {
		return
	}
	c.loop.meter.known = false
	c.decodeKept()
	c.flushReplies()
	c.loop.meter.addCounts()
}

// away has a worker do job; nothing of this connection is handled until then has run
// on the loop.
func (c *conn) away(job func(), then func(l *loop)) {
	if !c.state.become(forWorker) {
		return
	}
	c.loop.srv.workers.submit(func() {
		job()
		c.loop.post(mailFunc(func(l *loop) {
			then(l)
			if c.state == forWorker {
				c.goOn()
			}
		}))
	})
}

// prepare has a worker make what the present frame needs. The frame is not consumed:
// it comes again with what was made in prepared.
func (c *conn) prepare(cmd protocol.Command, make func() any) {
	var made any
	began := c.loop.meter.moment()
	c.away(func() { made = make() }, func(l *loop) {
		c.prepared = made
		l.meter.observe(c, atWorker, cmd, l.srv.elapsed()-began, 1)
	})
}

// prepareAgain keeps what was prepared for the next time the present frame comes.
func (c *conn) prepareAgain(made any) { c.prepared = made }

// takePrepared is what prepare has made for this frame, nil if nothing was asked for.
func (c *conn) takePrepared() any {
	made := c.prepared
	c.prepared = nil
	return made
}

// later has a worker make the reply's body; nothing of this connection is handled
// until it is sent.
func (c *conn) later(h protocol.Header, body func(dst []byte) []byte) {
	var frame []byte
	began := c.loop.meter.moment()
	c.away(func() {
		frame = protocol.FinishFrame(body(protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)), 0)
	}, func(l *loop) {
		l.srv.count.Replies.Add(1)
		c.out.sendFrame(frame)
		l.meter.observe(c, atWorker, h.Command, l.srv.elapsed()-began, 1)
	})
}

// count notes a request.
func (c *conn) count(cmd protocol.Command) { c.loop.meter.count(cmd) }

// touch notes a complete frame.
func (c *conn) touch() {
	if now := c.loop.now; c.active.Load() != now {
		c.active.Store(now)
	}
}

// dismiss closes a peer that may be reading what it has been sent: at once if
// there is nothing more to read, and never in the middle of a frame, where a
// Python client would spin for ever.
func (c *conn) dismiss(reason string) {
	c.flushReplies()
	if c.state.over() {
		return
	}
	if c.out.owing() == 0 && len(c.slots) == 0 {
		c.abort(reason)
		return
	}
	c.logClose(reason)
	c.finish()
}

// abort closes at once. The reason is for the log.
func (c *conn) abort(reason string) {
	if c.state == dead {
		return
	}
	c.logClose(reason)
	c.hangUp()
}

func (c *conn) logClose(reason string) {
	c.loop.srv.peerLog.Warn().Stringer("peer", c.peer).Str("client", c.user.name()).Str("reason", reason).Msg("connection closed by the server")
}

// hangUp closes the transport; lost does the rest.
func (c *conn) hangUp() {
	if c.state != dead {
		c.t.Close()
	}
}

// finish reads no more and closes as soon as the peer has read what is on its
// way. A frame is never cut.
func (c *conn) finish() {
	if !c.state.become(closing) {
		return
	}
	c.forgetInput()
	c.linger()
	c.flushReplies()
	c.drained()
}

// linger gives a peer that is to close its end some time for it.
func (c *conn) linger() { c.expire(c.loop.now + c.limits().Linger.Nanoseconds()) }

// drained is called when the peer has read everything.
func (c *conn) drained() {
	switch {
	case c.state == dead || c.out.owing() > 0:
	case !c.state.over():
		c.resume()
		c.user.readOn()
	case len(c.slots) > 0:
	case c.state.become(shut):
		// Closing a socket with unread input resets the connection and can take
		// the last reply with it, so the peer closes first or runs out of time.
		c.linger()
		c.t.CloseWrite()
	}
}

// lost is called by the transport when the connection is gone, whoever ended it,
// also in the middle of a Send.
func (c *conn) lost(err error) {
	if !c.state.become(dead) {
		return
	}
	c.out.discard()
	c.forgetInput()
	c.slots = nil
	c.user.ended(err)
	c.loop.remove(c)
}

// expire sets the deadline, which the loop's ticks look at.
func (c *conn) expire(deadline int64) {
	c.deadline = deadline
	if c.on.join(onTimed) {
		c.loop.timed = append(c.loop.timed, c)
	}
}

// checkDeadline closes who has run out of time.
func (c *conn) checkDeadline(now int64) {
	switch {
	case c.state == dead || now < c.deadline:
	case c.state.over():
		if c.out.owing() == 0 || now-c.out.progress >= c.limits().Linger.Nanoseconds() {
			c.hangUp()
		} // otherwise the peer reads on
	case !c.user.identified():
		c.loop.srv.count.Unidentified.Add(1)
		c.abort("no WHOAMI in time")
	}
}

// holds is what is held for the connection, in bytes.
func (c *conn) holds() int { return c.out.bytes + c.in.holds() }

// moved is when its peer last read, if it owes to read, or completed a frame.
func (c *conn) moved() int64 {
	if c.out.bytes > 0 {
		return c.out.progress
	}
	return c.active.Load()
}

// quiet says that nothing is being done for the connection and its peer has read
// everything.
func (c *conn) quiet() bool { return len(c.slots) == 0 && c.state != forWorker && c.out.owing() == 0 }

// fillOrder gives out the finished replies and lets the connection go on.
func (c *conn) fillOrder() {
	c.giveReplies()
	c.resume() // what it answers at once leaves in the same write
	c.flushReplies()
	c.loop.meter.addCounts()
	if c.state.over() {
		c.drained()
	}
}
