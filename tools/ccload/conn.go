package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"confcenter/protocol"
)

// conn is one connection.
type conn struct {
	loop   *loop
	socket wire
	peer   io.ReadWriter // the socket, or TLS over it
	secure bool
	// framing hands on complete messages, counts the replies and returns the rest.
	framing func(c *conn, data []byte, at int64) (replies int, rest []byte, err error)

	// What arrives is told to these, which may be nil. A body is valid only during the call.
	onReply func(body []byte)           // each reply, in the order of the requests
	onPush  func(body []byte, at int64) // each frame that answers nothing
	onRead  func(replies int, at int64) // after the replies of one read

	expect           protocol.Command // of the replies that are due
	nextSeq, wantSeq uint16           // of the next request and reply
	inflight         int
	sent             []batch // oldest first
	carry            []byte  // beginning of a frame that is not complete
	closed           bool
}

// batch is requests that were sent at one time, in one write.
type batch struct {
	at int64
	n  int
}

// askLimit is how long answers may take.
const askLimit = 30 * time.Second

// open opens a connection. It is closed with a reset, because thousands of connections a
// minute in TIME_WAIT would use up the ports.
func (l *loop) open(addr string) *conn {
	to := must(netip.ParseAddrPort(addr))
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	c := &conn{loop: l, socket: wire{fd: fd}, framing: ourFraming, secure: l.tls != nil}
	c.peer = &c.socket
	l.conns[fd] = c
	check(errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}),
		unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})))
	if c.secure { // while the socket waits for what it reads
		over := tls.Client(&c.socket, l.tls)
		check(over.Handshake())
		c.peer = over
	}
	check(unix.SetNonblock(fd, true))
	check(unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
	return c
}

// dial opens n connections and identifies each.
func (l *loop) dial(addr string, n int) (conns []*conn) {
	hello := protocol.AppendIdentify(nil, protocol.Identify{Name: "ccload", Token: l.token})
	for range n {
		c := l.open(addr)
		c.ask(protocol.Whoami, hello)
		conns = append(conns, c)
	}
	return conns
}

// wire is a socket as crypto/tls reads and writes it; the rest of net.Conn it does not need.
type wire struct {
	net.Conn
	fd int
}

// Read implements net.Conn. What crypto/tls takes for temporary says that there is nothing yet.
func (w *wire) Read(p []byte) (int, error) {
	n, err := unix.Read(w.fd, p)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		err = os.ErrDeadlineExceeded
	case err == nil && n == 0:
		err = io.EOF
	}
	return max(n, 0), err
}

// Write implements net.Conn. What loads have in flight fits into sockets; where it does not,
// the peer makes room in time.
func (w *wire) Write(p []byte) (done int, err error) {
	for done < len(p) && err == nil {
		var n int
		n, err = unix.Write(w.fd, p[done:])
		done += max(n, 0)
		if err == unix.EAGAIN {
			if n, err = unix.Poll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLOUT}}, int(askLimit.Milliseconds())); n == 0 {
				err = errTimeout
			}
		}
		if err == unix.EINTR {
			err = nil
		}
	}
	return done, err
}

// close resets the connection. It may be called twice.
func (c *conn) close() {
	if !c.closed {
		c.closed = true
		delete(c.loop.conns, c.socket.fd)
		_ = unix.Close(c.socket.fd)
	}
}

// mute stops reading for good: what the server sends stays in the kernel.
func (c *conn) mute() { check(unix.EpollCtl(c.loop.epfd, unix.EPOLL_CTL_DEL, c.socket.fd, nil)) }

// fail ends the connection, and with it the script.
func (c *conn) fail(err error) {
	if c.loop.err == nil {
		c.loop.err = fmt.Errorf("connection lost: %w", err)
	}
	c.close()
}

// take counts frame as a request and, if it is our protocol's, gives it the connection's
// next sequence.
func (c *conn) take(frame []byte) {
	if h, err := protocol.ParseHeader(frame); err == nil {
		protocol.SetSeq(frame, c.nextSeq)
		c.expect = h.Command.Reply()
	}
	c.nextSeq++
	c.inflight++
}

// write sends p.
func (c *conn) write(p []byte) {
	if c.closed {
		return
	}
	if _, err := c.peer.Write(p); err != nil {
		c.fail(err)
	}
}

// readable reads what has arrived. Over TLS that is all of it, since epoll knows nothing of
// what has been read and not been decrypted.
func (c *conn) readable() {
	for more := true; more && !c.closed; more = c.secure {
		n, err := c.peer.Read(c.loop.in)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		at, replies := now(), 0
		c.loop.quiet = at
		if err == nil {
			replies, err = c.consume(c.loop.in[:n], at)
		}
		if err != nil {
			c.fail(err)
		} else if replies > 0 && c.onRead != nil {
			c.onRead(replies, at)
		}
	}
}

// consume hands on every complete message in what was carried over and data.
func (c *conn) consume(data []byte, at int64) (replies int, err error) {
	if len(c.carry) > 0 {
		c.carry = append(c.carry, data...)
		data = c.carry
	}
	replies, rest, err := c.framing(c, data, at)
	c.carry = append(c.carry[:0], rest...)
	return replies, err
}

// ourFraming is that of our protocol.
func ourFraming(c *conn, data []byte, at int64) (replies int, rest []byte, err error) {
	for len(data) >= protocol.HeaderSize {
		h, err := protocol.ParseHeader(data)
		if err != nil {
			return replies, nil, err
		}
		end := protocol.HeaderSize + int(h.BodyLen)
		if len(data) < end {
			break
		}
		body := data[protocol.HeaderSize:end]
		switch {
		case h.Command == protocol.KeepAlive:
			c.write(protocol.AppendFrame(nil, protocol.KeepAlive.Reply(), h.Seq, nil))
		case !h.Command.IsReply():
			if c.onPush != nil {
				c.onPush(body, at)
			}
		case h.Command != c.expect || h.Seq != c.wantSeq || c.inflight == 0:
			return replies, nil, fmt.Errorf("reply %v seq %d, want %v seq %d of %d in flight: %.200s", h.Command, h.Seq, c.expect, c.wantSeq, c.inflight, body)
		default:
			c.wantSeq++
			c.inflight--
			replies++
			if c.onReply != nil {
				c.onReply(body)
			}
		}
		data = data[end:]
	}
	return replies, data, nil
}

// ask sends one request, while nothing is in flight, and returns the body of its reply,
// which must have code 0.
func (c *conn) ask(cmd protocol.Command, body []byte) (answer []byte) {
	onReply, onRead := c.onReply, c.onRead
	c.onReply, c.onRead = func(body []byte) { answer = bytes.Clone(body) }, nil
	frame := protocol.AppendFrame(nil, cmd, 0, body)
	c.take(frame)
	c.write(frame)
	c.loop.until(askLimit, func() bool { return c.inflight == 0 })
	c.onReply, c.onRead = onReply, onRead
	check(replyError(cmd, answer))
	return answer
}

// set writes a document.
func (c *conn) set(name string, contents []byte) {
	c.ask(protocol.SetConfig, protocol.AppendConfigUpdate(nil, protocol.ConfigUpdate{Name: name, Contents: contents}))
}

var codeOK = []byte(`{"code":0`)

// replyError is an error if body does not begin as a reply with code 0 does. It looks no
// further: contents are checked once before a load, not a million times in it.
func replyError(cmd protocol.Command, body []byte) error {
	if n := len(codeOK); len(body) > n && bytes.HasPrefix(body, codeOK) && (body[n] == ',' || body[n] == '}') {
		return nil
	}
	return fmt.Errorf("%v answered %.300q", cmd, body)
}
