package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

const (
	// bufferSize is the size of the read buffer, and about how many bytes of small
	// requests are written together.
	bufferSize = 64 << 10
	// maxKept is the largest write buffer that is reused.
	maxKept = 1 << 20
	// firstChunk limits what is allocated for a reply before its bytes arrive.
	firstChunk = 1 << 20
	// maxForsaken is how many abandoned requests may be unanswered before the server
	// counts as broken.
	maxForsaken = 16384
	// maxControl limits the queued answers to the server's own requests, in bytes.
	maxControl = 64 << 10
)

// conn is one connection. It has three goroutines, which end when the connection fails
// and which close waits for. The reader completes calls by their sequence numbers and
// passes on pushes; only the writer writes; the keeper checks that the peer is alive.
type conn struct {
	// set at open
	nc       net.Conn
	addr     string
	cfg      *Config
	onChange func(protocol.Change)    // called by the reader, must not block
	onGrant  func(protocol.KVGranted) // likewise
	watches  sync.Map                 // of watchID, *KVWatch
	dead     chan struct{}            // closed when err is set
	doubt    chan struct{}            // capacity 1: tells the keeper that a request was not answered in time
	wake     chan struct{}            // capacity 1: tells the writer that something is queued
	wg       sync.WaitGroup

	// any goroutine
	reads    atomic.Uint64 // number of reads that returned bytes
	lastRead atomic.Int64  // time of the last one, in nanoseconds since 1970

	mu sync.Mutex
	connBooks
}

// connBooks are a conn's requests; guarded by conn.mu.
type connBooks struct {
	err      error // why the connection failed; nil while it works
	pending  map[uint16]*call
	seq      uint16
	queue    []*call
	control  []byte // frames that answer the server's own requests
	forsaken int
}

type call struct {
	conn *conn
	cmd  protocol.Command
	done chan struct{} // closed when body or err is set
	// first, if set, is called by the reader with the reply before it reads on, because
	// what follows on the wire may depend on the reply. It must not block.
	first func(body []byte) error

	// guarded by conn.mu
	seq   uint16
	frame []byte
	state callState

	// set before done is closed
	body []byte
	err  error
}

type callState uint8

const (
	queued   callState = iota // not sent at all
	sent                      // taken by the writer
	forsaken                  // sent or about to be, but no one waits for the answer
)

// newConn takes ownership of nc. The caller must close the conn.
func newConn(nc net.Conn, addr string, cfg *Config, onChange func(protocol.Change), onGrant func(protocol.KVGranted)) *conn {
	c := &conn{
		nc: nc, addr: addr, cfg: cfg, onChange: onChange, onGrant: onGrant,
		dead: make(chan struct{}), doubt: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		connBooks: connBooks{pending: make(map[uint16]*call)},
	}
	c.lastRead.Store(cfg.Clock.Now().UnixNano())
	c.wg.Go(func() { c.fail(c.read()) })
	c.wg.Go(func() { c.fail(c.write()) })
	c.wg.Go(func() { c.fail(c.keep()) })
	return c
}

// fail ends the connection. Only the first reason is kept; nil does nothing.
func (c *conn) fail(reason error) {
	if reason == nil {
		return
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = reason
	orphans := c.pending
	c.pending, c.queue, c.control = nil, nil, nil
	c.mu.Unlock()
	close(c.dead)
	c.nc.Close() // the error does not matter: nothing more is read or written
	for _, cl := range orphans {
		if cl.state != forsaken {
			cl.complete(nil, c.lostError(cl.state == sent))
		}
	}
}

func (c *conn) close(reason error) {
	c.fail(reason)
	c.wg.Wait()
}

// failed returns why the connection failed, nil while it works.
func (c *conn) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// lostError is the error for a request that was lost with the connection.
func (c *conn) lostError(sent bool) error {
	if c.err == ErrClosed {
		return &requestError{text: ErrClosed.Error(), kind: ErrClosed, sent: sent}
	}
	return &requestError{text: "lost the connection to " + c.addr, kind: ErrUnreachable, cause: c.err, sent: sent}
}

// start assigns the frame a sequence number and queues it. The frame must not be
// touched until the call is done. start never blocks; callers limit what is queued.
func (c *conn) start(cmd protocol.Command, frame []byte) *call { return c.startWith(cmd, frame, nil) }

func (c *conn) startWith(cmd protocol.Command, frame []byte, first func(body []byte) error) *call {
	cl := &call{conn: c, cmd: cmd, frame: frame, done: make(chan struct{}), first: first}
	if body := len(frame) - protocol.HeaderSize; body > int(protocol.BodyLimit(cmd, cmd != protocol.Whoami)) {
		cl.complete(nil, notSent(codes.TooLarge, "a request of %d bytes is more than the %d that the server takes", body, protocol.BodyLimit(cmd, cmd != protocol.Whoami)))
		return cl
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		cl.complete(nil, c.lostError(false))
		return cl
	}
	cl.seq = c.nextSeqLocked()
	protocol.SetSeq(frame, cl.seq)
	c.pending[cl.seq] = cl
	c.queue = append(c.queue, cl)
	c.mu.Unlock()
	clock.Nudge(c.wake)
	return cl
}

// nextSeqLocked skips the numbers in use, so that a late answer never reaches a later
// request, and 0, under which CppCloud sends stray frames. A number is always free:
// the sum of MaxInFlight, maxForsaken and the limit on watches is below 65535.
func (c *conn) nextSeqLocked() uint16 {
	for {
		c.seq++
		if _, taken := c.pending[c.seq]; !taken && c.seq != 0 {
			return c.seq
		}
	}
}

// wait returns the reply's body. A reply that comes after wait has given up is
// discarded.
func (cl *call) wait(ctx context.Context, expired <-chan time.Time) ([]byte, error) {
	select {
	case <-cl.done:
		return cl.body, cl.err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			clock.Nudge(cl.conn.doubt)
		}
		return nil, contextError(ctx, cl.forsake())
	case <-expired:
		clock.Nudge(cl.conn.doubt)
		return nil, timeoutError(cl.forsake())
	}
}

// forsake gives the call up and reports whether it was sent.
func (cl *call) forsake() (wasSent bool) { return cl.abandon(true) }

// ignore lets the call go on with no one waiting for its answer.
func (cl *call) ignore() { cl.abandon(false) }

// abandon stops waiting for the answer. A call that is still queued is withdrawn if
// withdraw is true. A peer that leaves too many calls unanswered loses the connection.
func (cl *call) abandon(withdraw bool) (wasSent bool) {
	c := cl.conn
	c.mu.Lock()
	wasSent = cl.state == sent
	switch {
	case c.pending[cl.seq] != cl: // answered or lost in the meantime
	case withdraw && cl.state == queued:
		delete(c.pending, cl.seq)
		c.queue = slices.DeleteFunc(c.queue, func(o *call) bool { return o == cl })
	case cl.state != forsaken:
		cl.state = forsaken
		c.forsaken++
	}
	tooMany := c.forsaken > maxForsaken
	c.mu.Unlock()
	if tooMany {
		c.fail(fmt.Errorf("%d requests were never answered", maxForsaken))
	}
	return wasSent
}

func (cl *call) complete(body []byte, err error) {
	cl.body, cl.err = body, err
	close(cl.done)
}

// write is the writer. It joins small frames so that many callers share a system call.
func (c *conn) write() error {
	var buf []byte
	for {
		select {
		case <-c.wake:
		case <-c.dead:
			return nil
		}
		for {
			buf = c.takeQueued(buf[:0])
			if len(buf) == 0 {
				break
			}
			if _, err := c.nc.Write(buf); err != nil {
				return err
			}
			if cap(buf) > maxKept {
				buf = nil
			}
		}
	}
}

// takeQueued moves what is to be written next into buf and marks it as sent.
func (c *conn) takeQueued(buf []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	buf = append(buf, c.control...)
	c.control = c.control[:0]
	taken := 0
	for taken < len(c.queue) && len(buf) < bufferSize {
		cl := c.queue[taken]
		buf = append(buf, cl.frame...)
		if cl.frame = nil; cl.state == queued {
			cl.state = sent
		}
		taken++
	}
	c.queue = slices.Delete(c.queue, 0, taken)
	return buf
}

// Read lets conn be the source of its own buffered reader and notes when bytes arrive.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.nc.Read(p)
	if n > 0 {
		c.lastRead.Store(c.cfg.Clock.Now().UnixNano())
		c.reads.Add(1)
	}
	return n, err
}

// read is the reader.
func (c *conn) read() error {
	r := bufio.NewReaderSize(c, bufferSize)
	var head [protocol.HeaderSize]byte
	for silent := c.cfg.TLS == nil; ; silent = false {
		if _, err := io.ReadFull(r, head[:]); silent && (err == io.EOF || errors.Is(err, syscall.ECONNRESET)) {
			return fmt.Errorf("it was closed without an answer: if TLS is served there, ask for it (Config.TLS, --tls, --tls-ca): %w", err)
		} else if err != nil {
			return err
		}
		h, err := protocol.ParseHeader(head[:])
		if err != nil {
			return err
		}
		if h.Command.IsReply() {
			err = c.readReply(r, h)
		} else {
			err = c.readRequest(r, h)
		}
		if err != nil {
			return err
		}
	}
}

func (c *conn) readReply(r *bufio.Reader, h protocol.Header) error {
	if uint64(h.BodyLen) > uint64(c.cfg.MaxBody) {
		return fmt.Errorf("an answer of %d bytes is more than Config.MaxBody, %d", h.BodyLen, c.cfg.MaxBody)
	}
	c.mu.Lock()
	cl := c.pending[h.Seq]
	stray := cl == nil || cl.cmd.Reply() != h.Command || cl.state == queued
	wanted := !stray && cl.state == sent
	c.mu.Unlock()
	var body []byte
	var err error
	if wanted {
		body, err = readBody(r, int(h.BodyLen))
	} else {
		_, err = r.Discard(int(h.BodyLen))
	}
	if err != nil || stray {
		return err
	}
	c.mu.Lock()
	mine := c.pending[cl.seq] == cl // false if the connection has failed in the meantime
	if mine {
		delete(c.pending, cl.seq)
	}
	waiting := cl.state == sent
	if mine && cl.state == forsaken {
		c.forsaken--
	}
	c.mu.Unlock()
	if !mine || !waiting {
		return nil
	}
	if cl.first != nil {
		err = cl.first(body)
	}
	cl.complete(body, err)
	return nil
}

// readBody reads n bytes. It allocates as they arrive, so that a large announced length
// alone costs little.
func readBody(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, firstChunk))
	for len(body) < n {
		if len(body) == cap(body) {
			body = slices.Grow(body, min(len(body), n-len(body)))
		}
		got, err := r.Read(body[len(body):min(cap(body), n)])
		body = body[:len(body)+got]
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

func (c *conn) readRequest(r *bufio.Reader, h protocol.Header) error {
	if h.Command == protocol.KVEvent || h.Command == protocol.CfEvent {
		return c.readEvents(r, h.Command, int(h.BodyLen))
	}
	if h.BodyLen > protocol.MaxBody {
		return fmt.Errorf("a request of %d bytes from the server is more than %d", h.BodyLen, protocol.MaxBody)
	}
	body, err := readBody(r, int(h.BodyLen))
	if err != nil {
		return err
	}
	switch h.Command {
	case protocol.KeepAlive:
		return c.reply(h, nil)
	case protocol.KVGrant:
		granted, err := protocol.ParseKVGranted(body)
		if err != nil {
			return unreadablePush("a grant", err)
		}
		c.onGrant(granted)
		return nil
	}
	var req protocol.Request
	parseErr := req.Parse(body)
	if _, routed := req.Member("from"); routed {
		return c.decline(h, &req)
	}
	if h.Command != protocol.EvNotify {
		return nil
	}
	if parseErr != nil {
		return fmt.Errorf("a push that is not JSON: %w", parseErr)
	}
	change, ok, err := protocol.ParseChange(body)
	if ok {
		c.onChange(change)
	}
	return err
}

// readEvents handles a KVEVENT or CFEVENT with a body of n bytes. One for an unknown number was on its
// way when the watch ended, and there may be many of them: they are not read.
func (c *conn) readEvents(r *bufio.Reader, event protocol.Command, n int) error {
	start, err := r.Peek(min(n, protocol.KVEventStart))
	if err != nil {
		return err
	}
	id, err := protocol.KVEventWatch(start)
	if err != nil {
		return unreadablePush("an event", err)
	}
	found, _ := c.watches.Load(watchID{event, id})
	w, _ := found.(*KVWatch)
	if w != nil && n > c.cfg.MaxBody {
		w.refuse(c, codes.Errorf(codes.TooLarge, "an event of %d bytes is more than Config.MaxBody, %d", n, c.cfg.MaxBody))
		w = nil
	}
	if w == nil {
		_, err = r.Discard(n)
		return err
	}
	body, err := readBody(r, n)
	if err != nil {
		return err
	}
	ev, err := w.kind.parse(body)
	if err != nil {
		return unreadablePush("an event", err)
	}
	w.take(c, &ev, n)
	return nil
}

func unreadablePush(what string, err error) error {
	return fmt.Errorf("%s that cannot be read: %w", what, withoutCode(err))
}

// decline answers a request that the server has routed here from another client, so
// that the client does not wait. Such a request is never taken for a push: any client
// could send it.
func (c *conn) decline(h protocol.Header, req *protocol.Request) error {
	from, ok := req.IntOrText("from")
	if !ok {
		return nil
	}
	return c.reply(h, fmt.Appendf(nil, `{"code":%d,"to":%d}`, codes.NotImplemented, from))
}

func (c *conn) reply(h protocol.Header, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	if len(c.control) > maxControl {
		return fmt.Errorf("the server sends requests faster than it reads the answers")
	}
	c.control = protocol.AppendFrame(c.control, h.Command.Reply(), h.Seq, body)
	clock.Nudge(c.wake)
	return nil
}

// silentError ends a connection that the peer may still hold open, as a stopped process
// does.
type silentError struct{ quiet time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("no sign of life for %v", e.quiet.Round(time.Second))
}

// probeTimeout is how long a server may be silent after a request has timed out before
// the connection is dropped, if KeepAliveTimeout is not shorter.
const probeTimeout = 2 * time.Second

// keep is the keeper. After KeepAlive without a byte from the server, or when a request
// has timed out, it sends a keep-alive, and it returns an error if no byte arrives
// within KeepAliveTimeout or probeTimeout.
func (c *conn) keep() error {
	timer := c.cfg.Clock.NewTimer(c.cfg.KeepAlive)
	defer timer.Stop()
	for {
		limit := c.cfg.KeepAliveTimeout
		select {
		case <-timer.C():
			if quiet := c.quiet(); quiet < c.cfg.KeepAlive {
				timer.Reset(c.cfg.KeepAlive - quiet)
				continue
			}
		case <-c.doubt:
			limit = min(limit, probeTimeout)
		case <-c.dead:
			return nil
		}
		before := c.reads.Load()
		c.start(protocol.KeepAlive, protocol.AppendFrame(nil, protocol.KeepAlive, 0, nil))
		if !c.await(timer, limit) {
			return nil
		}
		if c.reads.Load() == before {
			return &silentError{c.quiet()}
		}
		timer.Reset(max(c.cfg.KeepAlive-c.quiet(), 1))
	}
}

// await waits for limit, or until probeTimeout after a doubt if that is sooner. It
// returns false if the connection ends first.
func (c *conn) await(timer clock.Timer, limit time.Duration) bool {
	timer.Reset(limit)
	until := c.cfg.Clock.Now().Add(limit)
	for {
		select {
		case <-timer.C():
			return true
		case <-c.doubt:
			if left := until.Sub(c.cfg.Clock.Now()); left > probeTimeout {
				until = until.Add(probeTimeout - left)
				timer.Reset(probeTimeout)
			}
		case <-c.dead:
			return false
		}
	}
}

func (c *conn) quiet() time.Duration { return c.cfg.Clock.Now().Sub(c.heard()) }

func (c *conn) heard() time.Time { return time.Unix(0, c.lastRead.Load()) }
