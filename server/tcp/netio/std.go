package netio

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"confcenter/internal/admission"
	"confcenter/server/tcp/loop"
)

// std is the transport of package net, for TLS and where there is no gnet.
//
// Each loop is a goroutine with a queue. Each connection has a goroutine that waits until
// something has arrived, tells the loop, and waits again when the loop has read everything.
// So an idle connection needs no buffer, order and limits are the loop's as with gnet, and
// no goroutine holds input or output.
type std struct {
	cfg     *Config // set at open
	loops   []*stdLoop
	next    atomic.Uint32
	running sync.WaitGroup // loops, and who waits for input
}

func newStd(cfg *Config) *std { return &std{cfg: cfg} }

func (s *std) start() error {
	for range s.cfg.Loops {
		l := &stdLoop{of: s, buffer: make([]byte, readSize), conns: make(map[*stdConn]struct{})}
		l.queue.filled.L = &l.queue.mu
		l.opener = s.cfg.NewLoop(func(fn func()) error { return l.queue.put(fn) })
		s.loops = append(s.loops, l)
		s.running.Go(l.run)
	}
	return nil
}

func (s *std) stop() {
	for _, l := range s.loops {
		l.queue.close()
	}
	s.running.Wait()
}

// open does not wait until the loop has the connection: those on their way are unidentified,
// whose number is limited.
func (s *std) open(c *admission.Conn, secure *secured) error {
	if secure == nil {
		w, err := newWire(c.Stream)
		if err != nil {
			return errors.Join(err, c.Stream.Close())
		}
		secure = &secured{wire: w}
	}
	l := s.loops[s.next.Add(1)%uint32(len(s.loops))]
	conn := &stdConn{loop: l, wire: secure.wire, tls: secure.Conn, again: make(chan struct{}, 1)}
	if err := l.queue.put(func() { l.open(conn, c) }); err != nil {
		return errors.Join(err, c.Stream.Close())
	}
	return nil
}

// readSize is how much a loop reads before others have a turn.
const readSize = 64 << 10

// stdLoop is an event loop.
type stdLoop struct {
	// set at open
	of     *std
	opener Opener

	queue queue // any goroutine

	// the loop's
	buffer []byte
	conns  map[*stdConn]struct{}
}

func (l *stdLoop) run() {
	for tasks := l.queue.take(nil); tasks != nil; tasks = l.queue.take(tasks[:0]) {
		for i, task := range tasks {
			tasks[i] = nil
			task()
		}
	}
	for c := range l.conns {
		c.end(nil)
	}
}

func (l *stdLoop) open(c *stdConn, accepted *admission.Conn) {
	c.wire.instant = true
	c.serve = func() { l.serve(c) }
	if c.s = l.opener.Open(c, accepted.Place, accepted.Peer, c.wire.fd); c.s == nil {
		accepted.Reset()
		return
	}
	l.conns[c] = struct{}{}
	l.of.running.Go(c.wait)
	l.serve(c) // a handshake may have read more than was its own
}

// serve reads what has arrived on c.
func (l *stdLoop) serve(c *stdConn) {
	if c.gone || c.deaf && c.wire.broken == nil {
		c.input = unread
		return
	}
	c.input = serving
	n, err := c.read(l.buffer)
	if n > 0 {
		c.s.Arrive(l.buffer[:n])
		c.s.Loop.AfterTraffic()
	}
	switch {
	case c.gone:
	case err != nil && err != errWait: //nolint:errorlint // crypto/tls passes it on as it is
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			c.s.Loop.HandOn() // its last requests are handled before it ends
		}
		c.end(err)
	case c.deaf:
		c.input = unread
	case err == nil:
		c.enqueue()
	default:
		c.input = awaited
		c.again <- struct{}{}
	}
}

// stdInput is where a connection's next input is.
type stdInput uint8

const (
	unread  stdInput = iota // in the socket, and nothing looks there
	awaited                 // its goroutine waits for it
	queued                  // the loop will look there
	serving                 // the loop is there
)

// stdConn is a connection of a stdLoop and a [loop.Transport], of which it belongs to the
// loop. A session never calls it after Lost.
type stdConn struct {
	// set at open
	loop  *stdLoop
	wire  *wire
	tls   *tls.Conn // nil: plain
	s     *loop.Conn
	serve func()        // the loop's, with this connection
	again chan struct{} // capacity 1: the loop has read everything; closed when it has ended

	input stdInput
	deaf  bool // the loop reads nothing
	gone  bool
}

// wait tells the loop when there is input.
func (c *stdConn) wait() {
	for range c.again {
		c.wire.await()
		_ = c.loop.queue.put(c.serve)
	}
}

func (c *stdConn) enqueue() {
	c.input = queued
	_ = c.loop.queue.put(c.serve)
}

// read fills b as far as there is input. It returns nil only if there may be more.
func (c *stdConn) read(b []byte) (n int, err error) {
	from := io.Reader(c.wire)
	if c.tls != nil {
		from = c.tls
	}
	c.wire.emptied = false
	for n < len(b) && err == nil {
		var k int
		k, err = from.Read(b[n:])
		n += k
	}
	if c.wire.broken != nil {
		err = c.wire.broken
	}
	return n, err
}

// Leaf is the peer's certificate if it was verified, nil otherwise.
func (c *stdConn) Leaf() *x509.Certificate {
	if c.tls == nil {
		return nil
	}
	if state := c.tls.ConnectionState(); len(state.VerifiedChains) > 0 {
		return state.PeerCertificates[0]
	}
	return nil
}

// Secure reports whether there is TLS.
func (c *stdConn) Secure() bool { return c.tls != nil }

// Listen implements [loop.Transport].
func (c *stdConn) Listen(on bool) {
	c.deaf = !on
	if on && c.input == unread {
		c.enqueue()
	}
}

// TrySend implements [loop.Transport].
func (c *stdConn) TrySend(p []byte) (n int) {
	if c.tls == nil {
		n = c.wire.send(p)
	}
	for c.tls != nil && n < len(p) && len(c.wire.rest) == 0 && c.wire.broken == nil {
		n += c.encrypt(p[n:min(len(p), n+recordSize)])
	}
	if c.wire.broken != nil {
		c.end(c.wire.broken)
	}
	return n
}

// recordSize is the longest TLS record.
const recordSize = 16 << 10

func (c *stdConn) encrypt(p []byte) int {
	n, err := c.tls.Write(p)
	c.wire.broken = cmp.Or(c.wire.broken, err)
	return n
}

// Send implements [loop.Transport].
func (c *stdConn) Send(p []byte) {
	if c.tls != nil {
		c.encrypt(p)
	} else {
		_, _ = c.wire.Write(p)
	}
	if c.wire.broken != nil {
		c.end(c.wire.broken)
	}
}

// Buffered implements [loop.Transport]. It must not end the connection.
func (c *stdConn) Buffered() int {
	n := c.wire.waiting()
	if c.wire.broken != nil && c.input == unread {
		c.enqueue()
	}
	return n
}

// CloseWrite implements [loop.Transport].
func (c *stdConn) CloseWrite() {
	if c.tls != nil {
		_ = c.tls.CloseWrite()
	}
	_ = c.wire.CloseWrite()
}

// Close implements [loop.Transport].
func (c *stdConn) Close() { c.end(nil) }

// Reset implements [loop.Transport].
func (c *stdConn) Reset() {
	(&admission.Conn{Stream: c.wire.Stream}).Forget()
	_ = c.wire.Close()
	c.wire.broken = io.ErrClosedPipe
	c.end(nil)
}

// end closes the connection and tells the session.
func (c *stdConn) end(err error) {
	if c.gone {
		return
	}
	c.gone = true
	if c.tls != nil {
		_ = c.tls.Close()
	} else {
		_ = c.wire.Close()
	}
	close(c.again)
	delete(c.loop.conns, c)
	c.s.Lost(err)
}

// queue has a loop's tasks, in order.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond // of mu
	// guarded by mu
	tasks  []func()
	closed bool
}

var errStopped = errors.New("the event loop has stopped")

func (q *queue) put(task func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errStopped
	}
	q.tasks = append(q.tasks, task)
	q.filled.Signal()
	return nil
}

// maxKept is the longest emptied slice that is used again.
const maxKept = 1 << 14

// take waits for tasks, and exchanges them for the emptied slice. It returns nil when the
// queue is closed and nothing is left.
func (q *queue) take(empty []func()) []func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.tasks) == 0 && !q.closed {
		q.filled.Wait()
	}
	if len(q.tasks) == 0 {
		return nil
	}
	if cap(empty) > maxKept {
		empty = nil
	}
	tasks := q.tasks
	q.tasks = empty
	return tasks
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}
