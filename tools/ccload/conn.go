package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"

	"confcenter/protocol"
)

// receiver is told what arrives on a connection, on the loop's goroutine. A body is
// valid only during the call.
type receiver interface {
	// reply is called for each reply, in the order of the requests.
	reply(c *conn, body []byte)
	// push is called for each frame that answers nothing.
	push(c *conn, body []byte, now int64)
	// settle is called after all frames of one read.
	settle(c *conn, now int64)
}

// ignore is a receiver that does nothing, for others to embed.
type ignore struct{}

func (ignore) reply(*conn, []byte)       {}
func (ignore) push(*conn, []byte, int64) {}
func (ignore) settle(*conn, int64)       {}

// conn is one connection. Only its loop's owner may use it.
type conn struct {
	// set at open
	loop *loop
	epfd int // who watches it
	fd   int
	slot int32
	tls  *tls.Conn // nil: plain

	// owner only
	to      receiver
	framing framing          // of what arrives; nil: our protocol's
	expect  protocol.Command // id of the replies that are due
	carry   []byte           // beginning of a frame that is not complete
	pending []byte           // what the kernel has not taken yet
	pipeline
	round  int  // of the last push, where a receiver counts rounds
	mayEnd bool // losing this connection is no failure
	muted  bool
	closed bool
}

// pipeline is the requests on their way over a connection.
type pipeline struct {
	nextSeq  uint16 // of the next request
	wantSeq  uint16 // of the next reply
	inflight int
	answered int // replies that are not in a result yet
	sent     timeline
}

// maxDepth bounds the requests in flight on one connection to half of what 16 bits of
// sequence can number, so that a late reply is told from a wrong one.
const maxDepth = 1 << 15

// dial opens a connection that sends and receives for to.
func (l *loop) dial(addr string, to receiver, urgent bool) (*conn, error) {
	c := &conn{loop: l, epfd: l.epfd, slot: int32(len(l.conns)), to: to}
	var err error
	c.fd, err = dialSocket(addr, func(nc net.Conn) (err error) {
		if l.tls == nil {
			return nil
		}
		w := &wire{Conn: nc}
		c.tls, err = l.secure(w, addr)
		w.of = c
		return err
	})
	if err != nil {
		return nil, err
	}
	if urgent {
		c.epfd = l.urgent
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: c.slot}
	if err := unix.EpollCtl(c.epfd, unix.EPOLL_CTL_ADD, c.fd, &ev); err != nil {
		_ = unix.Close(c.fd)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	l.conns = append(l.conns, c)
	return c, nil
}

// close resets the connection. It may be called twice.
func (c *conn) close() {
	if c.closed {
		return
	}
	c.closed = true
	_ = unix.Close(c.fd)
	c.loop.conns[c.slot] = nil
	c.carry, c.pending = nil, nil
}

// mute stops reading for good: what the server sends stays in the kernel.
func (c *conn) mute() error {
	c.muted = true
	return c.watch(len(c.pending) > 0)
}

func (c *conn) watch(write bool) error {
	ev := unix.EpollEvent{Fd: c.slot, Events: unix.EPOLLIN}
	if c.muted {
		ev.Events = unix.EPOLLRDHUP
	}
	if write {
		ev.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(c.epfd, unix.EPOLL_CTL_MOD, c.fd, &ev)
}

// fail ends the connection, and the run unless the connection may end.
func (c *conn) fail(err error) {
	if !c.mayEnd && c.loop.err == nil {
		c.loop.err = fmt.Errorf("connection lost: %w", err)
	}
	c.close()
}

// take counts frame as a request and, if it is our protocol's, gives it the connection's
// next sequence.
func (c *conn) take(frame []byte) {
	if c.framing == nil {
		protocol.SetSeq(frame, c.nextSeq)
	}
	c.nextSeq++
	c.inflight++
}

// request sends one frame, with the next sequence, as due at the time at.
func (c *conn) request(frame []byte, at int64) {
	c.take(frame)
	c.sent.push(at, 1)
	c.write(frame)
}

// write sends p, over TLS if the connection has it. It does not retain p.
func (c *conn) write(p []byte) {
	switch {
	case c.tls == nil:
		c.send(p)
	case !c.closed && len(p) > 0:
		if _, err := c.tls.Write(p); err != nil {
			c.fail(err)
		}
	}
}

// send sends p as it is and keeps what the kernel does not take.
func (c *conn) send(p []byte) {
	if c.closed || len(p) == 0 {
		return
	}
	if len(c.pending) > 0 {
		c.pending = append(c.pending, p...)
		return
	}
	n, err := writeNow(c.fd, p)
	if (err == nil || err == unix.EAGAIN) && n < len(p) {
		c.pending = append(c.pending, p[n:]...)
		err = c.watch(true)
	}
	if err != nil {
		c.fail(err)
	}
}

// flush sends what is pending once the kernel has room.
func (c *conn) flush() {
	n, err := writeNow(c.fd, c.pending)
	if err == nil || err == unix.EAGAIN {
		c.pending = c.pending[n:] // not moved: of big values that would be some MiB each time
		err = c.watch(len(c.pending) > 0)
	}
	if err != nil {
		c.fail(err)
	}
}

// readable reads; epoll reports the connection again if there is more.
func (c *conn) readable(events uint32) {
	if c.muted {
		if events&(unix.EPOLLERR|unix.EPOLLHUP|unix.EPOLLRDHUP) != 0 {
			c.fail(io.EOF)
		}
		return
	}
	n, err := c.fill(c.loop.in)
	if err == unix.EAGAIN || err == unix.EINTR {
		return
	}
	now := c.loop.clock()
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil {
		err = c.consume(c.loop.in[:n], now)
	}
	if err != nil {
		c.fail(err)
	} else if !c.closed {
		c.to.settle(c, now)
		if c.tls != nil && n == len(c.loop.in) && !c.closed {
			c.readable(events)
		}
	}
}

// forget discards the send times of the replies received, which are not measured.
func (p *pipeline) forget() {
	for p.answered > 0 {
		_, n := p.sent.take(p.answered)
		p.answered -= n
	}
}

// consume hands on every complete frame in what was carried over and data.
func (c *conn) consume(data []byte, now int64) error {
	carried := len(c.carry) > 0
	if carried {
		c.carry = append(c.carry, data...)
		data = c.carry
	}
	rest, err := c.frames(data, now)
	switch {
	case err != nil || c.closed:
		return err
	case carried:
		c.carry = c.carry[:copy(c.carry, rest)]
	case len(rest) > 0:
		c.carry = append(c.carry[:0], rest...)
	}
	// One large document is no reason to keep a large buffer on every connection.
	if len(c.carry) == 0 && cap(c.carry) > 64<<10 {
		c.carry = nil
	}
	return nil
}

func (c *conn) frames(data []byte, now int64) (rest []byte, err error) {
	if c.framing != nil {
		return c.framing.frames(c, data, now)
	}
	for len(data) >= protocol.HeaderSize && !c.closed {
		h, err := protocol.ParseHeader(data)
		if err != nil {
			return nil, err
		}
		end := protocol.HeaderSize + int(h.BodyLen)
		if len(data) < end {
			break
		}
		if err := c.frame(h, data[protocol.HeaderSize:end], now); err != nil {
			return nil, err
		}
		data = data[end:]
	}
	return data, nil
}

func (c *conn) frame(h protocol.Header, body []byte, now int64) error {
	if !h.Command.IsReply() {
		if h.Command == protocol.KeepAlive {
			c.write(protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), h.Seq, nil))
			return nil
		}
		c.to.push(c, body, now)
		return nil
	}
	if h.Command != c.expect || h.Seq != c.wantSeq || c.inflight == 0 {
		return fmt.Errorf("reply %v seq %d, want %v seq %d of %d in flight: %.200s", h.Command, h.Seq, c.expect, c.wantSeq, c.inflight, body)
	}
	c.wantSeq++
	c.inflight--
	c.answered++
	c.to.reply(c, body)
	return nil
}

// timeline remembers when requests were sent, oldest first, as runs of requests sent at
// one time: a deep pipeline is refilled in one write, and one entry stands for all of
// it.
type timeline struct {
	runs []sentRun
	head int
}

type sentRun struct {
	at int64
	n  int
}

func (t *timeline) push(at int64, n int) {
	if last := len(t.runs) - 1; last >= t.head && t.runs[last].at == at {
		t.runs[last].n += n
		return
	}
	if t.head == len(t.runs) {
		t.runs, t.head = t.runs[:0], 0
	} else if t.head > 64 && t.head > len(t.runs)/2 {
		t.runs = t.runs[:copy(t.runs, t.runs[t.head:])]
		t.head = 0
	}
	t.runs = append(t.runs, sentRun{at, n})
}

// take removes up to n of the oldest requests sent at one time and returns how many.
func (t *timeline) take(n int) (at int64, taken int) {
	if t.head == len(t.runs) {
		return 0, 0
	}
	r := &t.runs[t.head]
	taken = min(n, r.n)
	if r.n -= taken; r.n == 0 {
		t.head++
	}
	return r.at, taken
}
