package loop

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync/atomic"

	"confcenter/protocol"
)

// Conn is one connection: its input, the order of its replies, and its output. It belongs
// to its loop. Its User handles the frames.
type Conn struct {
	// set at open
	Loop   *Loop
	t      Transport
	User   User
	Peer   netip.AddrPort
	FD     int
	Opened int64 // unix ns

	// loop only
	state    inputState
	in       input
	Out      Output
	Replies          // in the order of the requests
	prepared any     // what a worker has made for the frame that comes again
	index    int     // in Loop.conns
	on       listing // the loop's lists that it is on
	deadline int64   // unix ns by which it must identify itself or, when closing, end

	// any goroutine
	Active atomic.Int64 // unix ns of the last complete frame, from the loop's clock
}

// listing is the set of its loop's lists that a connection is on, one bit each.
type listing uint8

const (
	onTimed   listing = 1 << iota // it has a deadline
	onBlocked                     // its peer has not read everything
	onRoom                        // a store's queue was full
	onFilled                      // its next reply was filled in this turn
)

// join returns false if the connection is already on the list.
func (on *listing) join(list listing) bool {
	joined := *on&list == 0
	*on |= list
	return joined
}

func (on *listing) leave(list listing) { *on &^= list }

// User handles a connection's frames. All methods are called on the loop.
type User interface {
	// Decode handles the complete frames in b, as far as they may be handled now, and
	// returns the number of bytes used. b is empty if the connection continues after a
	// wait and nothing has arrived.
	Decode(b []byte) (taken int)
	// Gathers reports whether it is worth asking Foresee about b, which is cheap to say.
	Gathers(b []byte) bool
	// Foresee reports whether b, the whole input, is one frame that is better handled together with such
	// frames of other connections. Then LookUp is called before Decode gets b or a copy of it.
	Foresee(b []byte) bool
	// LookUp is called on one of the users whose Foresee was true, on behalf of all.
	LookUp()
	// ReadOn is called when the peer has read, so that more can be sent.
	ReadOn()
	// Ended is called once, when the connection has ended.
	Ended(err error)
	// Spoke is called when the peer has sent half a frame and nothing else yet.
	Spoke()
	// Identified is false until the peer has identified itself.
	Identified() bool
	// Name is the peer's name in logs, empty before it has identified itself.
	Name() string
}

// Open initializes a new connection of a loop; u handles its frames.
func (c *Conn) Open(l *Loop, u User, t Transport, peer netip.AddrPort, fd int) {
	c.Loop, c.User, c.t, c.Peer, c.FD, c.Opened = l, u, t, peer, fd, l.now
	c.Out.c, c.Replies.c = c, c
	c.Active.Store(l.now)
}

// LeafOf is the certificate of c's peer, which has been verified; nil: it has none.
func LeafOf(c *Conn) *x509.Certificate {
	if has, ok := c.t.(interface{ Leaf() *x509.Certificate }); ok {
		return has.Leaf()
	}
	return nil
}

// Secure reports whether c is a TLS connection.
func Secure(c *Conn) bool {
	has, ok := c.t.(interface{ Secure() bool })
	return ok && has.Secure()
}

// Reads reports whether frames are handled now.
func (c *Conn) Reads() bool { return c.state == reading }

// Held reports whether input waits for what may take long: not for its turn or a rest.
func Held(c *Conn) bool { return c.state.waits() && c.state != forTurn && c.state != forPause }

// Ending reports whether the connection handles no more frames. Pending output is still
// sent.
func (c *Conn) Ending() bool { return c.state.over() }

// Gone reports whether nothing can be sent any more.
func (c *Conn) Gone() bool { return c.state == dead }

// Kept is the size of the waiting input, in bytes.
func (c *Conn) Kept() int { return c.in.waiting() }

// Needs sets the size of the next frame in bytes, 0 if its header has not come.
func (c *Conn) Needs(n int) { c.in.need = n }

// Limits returns the server's limits, which must not be changed.
func (c *Conn) Limits() *Limits { return &c.Loop.Group.Limits }

// Group returns the loop's group.
func (c *Conn) Group() *Group { return c.Loop.Group }

// Receive handles input. data is only valid during the call.
func (c *Conn) Receive(data []byte) {
	l := c.Loop
	if c.state.over() || l.Group.draining.Load() {
		return
	}
	l.meter.beginBurst()
	if c.in.stopped {
		c.t.Listen(false) // output of before has left, and it listened again
	}
	if c.in.waiting() > 0 {
		if !c.keep(data) {
			return
		}
		c.decodeKept()
	} else if n := c.User.Decode(data); n < len(data) && !c.state.over() && c.keep(data[n:]) {
		c.throttle()
	}
	c.FlushReplies()
	l.meter.endBurst(c)
	l.meter.addCounts()
}

// keep appends data to the undecoded input. It returns false if that closed the connection.
func (c *Conn) keep(data []byte) bool {
	g := c.Loop.Group
	if c.in.waiting() == 0 && !c.User.Identified() {
		c.User.Spoke()
	}
	before := c.in.holds()
	c.in.keep(data)
	g.Memory.Add(int64(c.in.holds() - before))
	c.Loop.relief.relieve(c)
	return c.state != dead
}

func (c *Conn) decodeKept() {
	if c.in.whole() {
		n := c.User.Decode(c.in.front())
		before := c.in.holds()
		c.in.took(n)
		c.Loop.Group.Memory.Add(int64(c.in.holds() - before))
	}
	c.throttle()
}

// throttle stops the reading of the socket when much input waits, and lets it go on when
// half of that is gone or what comes next is needed. If memory is scarce less is much. While
// the connection pauses, or waits for a turn that has enough to do, nothing is read.
func (c *Conn) throttle() {
	much, stop := c.Limits().Input, c.in.stopped
	if memory := c.Loop.Group.Memory; !memory.Fits(memory.Limit() / 2) {
		much = min(much, hogBytes)
	}
	waiting := c.in.waiting()
	switch {
	case c.state == forPause, c.state == forTurn && waiting > turnBytes && c.in.whole():
		stop = true
	case !c.state.waits() || waiting < much/2:
		stop = false
	case waiting >= much:
		stop = true
	}
	if stop == c.in.stopped || c.state == dead {
		return
	}
	c.in.stopped = stop
	c.t.Listen(!stop)
	if stop && waiting >= much {
		c.Loop.Group.Count.InputLimit.Add(1)
	}
}

func (c *Conn) forgetInput() {
	c.Loop.Group.Memory.Give(int64(c.in.holds()))
	c.in = input{stopped: c.in.stopped}
}

// turnBytes is how much input a connection decodes before others have a turn.
const turnBytes = 64 << 10

// Took reports the bytes decoded so far in this turn. It ends a turn that is long enough:
// the next one comes after the loop has looked at its sockets, and after those of others
// who wait for one.
func (c *Conn) Took(bytes int) {
	if bytes > turnBytes {
		yield(c)
	}
}

// yield has the connection continue with a turn of its own.
func yield(c *Conn) {
	if c.state.become(forTurn) {
		l := c.Loop
		l.turns = append(l.turns, c)
		l.waker.yieldTurn()
	}
}

// Order is what a request may not wait for.
type Order uint8

// The orders. A request sees every earlier write of its connection, and none that comes later.
const (
	Strict Order = iota // it waits for all requests before it
	Writes              // the store keeps the order of writes, so it does not wait for writes
	Reads               // it only reads, and does not wait for others that do
)

// Admit reports whether a request may be handled now; otherwise the connection waits. A peer
// gets no more replies until it has read those it has.
func (c *Conn) Admit(order Order) bool {
	limits := c.Limits()
	var free bool
	switch order {
	case Writes:
		free = c.owed() < limits.Writes && c.besides.last <= c.left
	case Reads:
		free = c.owed() < limits.Writes && c.besides.write <= c.left
		if c.besides.n >= limits.Besides {
			c.Group().Count.BesidesLimit.Add(1)
			c.wait(forReplies)
			return false
		}
	}
	switch {
	case c.Out.bytes >= limits.Pending:
		c.wait(forReader)
		return false
	case c.owed() > 0 && !free:
		c.wait(forReplies)
		return false
	}
	return true
}

// wait stops decoding until resume. The current frame is then decoded again.
func (c *Conn) wait(reason inputState) bool {
	if !c.state.become(reason) {
		return false
	}
	c.Loop.Group.Count.Parked.Add(1)
	return true
}

// Starve waits until a store's queue has room, even if the connection already waits for
// something else.
func (c *Conn) Starve() {
	c.wait(forRoom)
	if !c.state.over() {
		c.Loop.blocked.add(c)
	}
}

// resume continues decoding, unless the connection waits for a turn or a worker.
func (c *Conn) resume() {
	if c.state.parked() {
		c.goOn()
	}
}

func (c *Conn) goOn() {
	if !c.state.become(reading) {
		return
	}
	c.Loop.meter.known = false
	if c.in.whole() {
		c.decodeKept()
	} else {
		c.User.Decode(nil)
		c.throttle()
	}
	c.FlushReplies()
	c.Loop.meter.addCounts()
}

// Away makes a worker run job. The connection handles nothing until then has run on the
// loop.
func (c *Conn) Away(job func(), then func(l *Loop)) { away(c, &c.Loop.Group.workers, job, then) }

func away(c *Conn, by *workers, job func(), then func(l *Loop)) {
	if !c.state.become(forWorker) {
		return
	}
	by.submit(func() {
		defer func() {
			if what := recover(); what != nil {
				stack := debug.Stack()
				c.Loop.Post(MailFunc(func(*Loop) { panicked(c, what, stack) }))
			}
		}()
		job()
		c.Loop.Post(MailFunc(func(l *Loop) {
			defer Guard(c)
			then(l)
			if c.state == forWorker {
				c.goOn()
			}
		}))
	})
}

// Guard is deferred by what acts for one connection, on its frames or with news for it: a
// panic ends the connection, not the process with everyone else's.
func Guard(c *Conn) {
	if what := recover(); what != nil {
		panicked(c, what, debug.Stack())
	}
}

// Contain is deferred by work for several connections: a panic does not end the process,
// and then instead is called.
func (g *Group) Contain(instead func()) {
	if what := recover(); what != nil {
		g.Count.Panics.Add(1)
		g.Log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("work for several connections panicked")
		instead()
	}
}

func panicked(c *Conn, what any, stack []byte) {
	g := c.Loop.Group
	g.Count.Panics.Add(1)
	g.Log.Error().Stringer("peer", c.Peer).Str("client", c.User.Name()).Str("panic", fmt.Sprint(what)).Bytes("stack", stack).
		Msg("a handler panicked; its connection is closed")
	c.Loop.buffer.out = c.Loop.buffer.out[:0]
	c.Abort("a handler panicked")
}

// Prepare makes a worker make what the current frame needs. The frame is not consumed: it
// comes again, and TakePrepared then returns the result.
func (c *Conn) Prepare(cmd protocol.Command, make func() any) {
	var made any
	began := c.Loop.meter.moment()
	c.Away(func() { made = make() }, func(l *Loop) {
		c.prepared = made
		l.meter.observe(c, atWorker, cmd, l.Group.elapsed()-began, 1)
	})
}

// PrepareAgain keeps the result for the next time that the current frame comes.
func (c *Conn) PrepareAgain(made any) { c.prepared = made }

// TakePrepared returns what Prepare has made for this frame, nil if it was not called.
func (c *Conn) TakePrepared() any {
	made := c.prepared
	c.prepared = nil
	return made
}

// Later makes a worker make the reply's body. The connection handles nothing until the
// reply is made.
func (c *Conn) Later(h protocol.Header, body func(dst []byte) []byte) {
	later(c, &c.Loop.Group.workers, h, body)
}

// AwaitDisk is Later for a body that waits for this server's own writes: it holds up none that only
// take long, and no network that hangs holds it up.
func AwaitDisk(c *Conn, h protocol.Header, body func(dst []byte) []byte) {
	later(c, &c.Loop.Group.writers, h, body)
}

func later(c *Conn, by *workers, h protocol.Header, body func(dst []byte) []byte) {
	var frame []byte
	began := c.Loop.meter.moment()
	away(c, by, func() {
		frame = protocol.FinishFrame(body(protocol.BeginFrame(nil, h.Command.Reply(), h.Seq)), 0)
	}, func(l *Loop) {
		c.give(frame)
		l.meter.observe(c, atWorker, h.Command, l.Group.elapsed()-began, 1)
	})
}

// Count counts a request.
func (c *Conn) Count(cmd protocol.Command) { c.Loop.meter.count(cmd) }

// Touch records the time of a complete frame.
func (c *Conn) Touch() {
	if now := c.Loop.now; c.Active.Load() != now {
		c.Active.Store(now)
	}
}

// Dismiss closes the connection of a peer that may still be reading: at once if there is
// nothing more to read, and never in the middle of a frame, where a Python client would
// loop forever.
func (c *Conn) Dismiss(reason string) {
	c.FlushReplies()
	if c.state.over() {
		return
	}
	if c.Out.Owing() == 0 && c.owed() == 0 {
		c.Abort(reason)
		return
	}
	c.logClose(reason)
	c.Finish()
}

// Abort closes the connection at once. The reason is for the log.
func (c *Conn) Abort(reason string) {
	if c.state == dead {
		return
	}
	c.logClose(reason)
	c.hangUp()
}

func (c *Conn) logClose(reason string) {
	c.Loop.Group.PeerLog.Warn().Stringer("peer", c.Peer).Str("client", c.User.Name()).Str("reason", reason).Msg("connection closed by the server")
}

// hangUp closes the transport; Lost does the rest.
func (c *Conn) hangUp() {
	if c.state != dead {
		c.t.Close()
	}
}

// Reset closes at once and sends nothing any more, not even what waits.
func (c *Conn) Reset() {
	if c.state != dead {
		c.t.Reset()
	}
}

// Finish reads no more and closes as soon as the peer has read what is on its
// way. A frame is never cut.
func (c *Conn) Finish() {
	if !c.state.become(closing) {
		return
	}
	c.forgetInput()
	c.throttle() // to see what else the peer sends, and its end
	c.Expire(c.Loop.now + c.Limits().Linger.Nanoseconds())
	c.FlushReplies()
	c.drained()
}

// drained is called when the peer has read everything.
func (c *Conn) drained() {
	switch {
	case c.state == dead || c.Out.Owing() > 0:
	case !c.state.over():
		c.resume()
		c.User.ReadOn()
	case c.owed() > 0:
	case c.state.become(shut):
		// Closing a socket with unread input resets the connection and can destroy the
		// last reply, so we let the peer close first, or its time run out.
		c.Expire(c.Loop.now + c.Limits().Linger.Nanoseconds())
		c.t.CloseWrite()
	}
}

// Lost is called by the transport when the connection has ended on either side, even in
// the middle of a Send.
func (c *Conn) Lost(err error) {
	if !c.state.become(dead) {
		return
	}
	c.Out.discard()
	c.forgetInput()
	c.Replies.discard()
	c.User.Ended(err)
	c.Loop.remove(c)
}

// Expire sets the deadline, which the loop's ticks check.
func (c *Conn) Expire(deadline int64) {
	c.deadline = deadline
	if c.on.join(onTimed) {
		c.Loop.timed = append(c.Loop.timed, c)
	}
}

// checkDeadline closes the connection if its time has run out.
func (c *Conn) checkDeadline(now int64) {
	switch {
	case c.state == dead || now < c.deadline:
	case c.state.over():
		if c.Out.Owing() == 0 || now-c.Out.progress >= c.Limits().Linger.Nanoseconds() {
			c.hangUp()
		} // otherwise the peer is still reading
	case !c.User.Identified():
		c.Loop.Group.Count.Unidentified.Add(1)
		c.Abort("no WHOAMI in time")
	}
}

// holds is the memory held for the connection, in bytes.
func (c *Conn) holds() int { return c.Out.bytes + c.in.holds() }

// quiet reports whether nothing is being done for the connection and its peer has read
// everything.
func (c *Conn) quiet() bool { return c.owed() == 0 && c.state != forWorker && c.Out.Owing() == 0 }

// fillOrder sends the finished replies and lets the connection continue.
func (c *Conn) fillOrder() {
	c.giveReplies()
	c.resume() // what is answered at once leaves in the same write
	c.FlushReplies()
	c.Loop.meter.addCounts()
	if c.state.over() {
		c.drained()
	}
}
