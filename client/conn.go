package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

const (
	// bufferSize is how much is read at once, and how many bytes of small
	// requests are written at once.
	bufferSize = 64 << 10
	// maxKept is the largest write buffer that is kept for the next write.
	maxKept = 1 << 20
	// firstChunk is how much a reply's announced length alone makes us allocate;
	// the rest follows the bytes that arrive.
	firstChunk = 1 << 20
	// maxForsaken is how many requests that nobody waits for any more may be
	// unanswered before the server counts as broken.
	maxForsaken = 16384
	// maxControl limits the answers to a server's own requests that wait for
	// being written, in bytes.
	maxControl = 64 << 10
)

// conn is one connection. Three goroutines belong to it, which end when the
// connection fails and which close waits for: the reader completes calls by their
// sequence numbers and hands on pushes, the writer is the only one that writes,
// the keeper finds out whether the peer is still there.
type conn struct {
	// set at open
	nc       net.Conn
	addr     string
	cfg      *Config
	onChange func(protocol.Change)    // called by the reader, must not block
	onGrant  func(protocol.KVGranted) // likewise
	watches  watchTable               // of the state store
	dead     chan struct{}            // closed when err is set
	doubt    chan struct{}            // capacity 1: for the keeper; a request was not answered in time
	wake     chan struct{}            // capacity 1: the writer has something to do
	wg       sync.WaitGroup

	// any goroutine
	reads    atomic.Uint64 // how often bytes arrived
	lastRead atomic.Int64  // when they last did, in nanoseconds since 1970

	mu sync.Mutex
	connBooks
}

// connBooks is what a conn knows of its requests; guarded by conn.mu.
type connBooks struct {
	err      error // why the connection is of no more use, nil while it is
	pending  map[uint16]*call
	seq      uint16
	queue    []*call
	control  []byte // frames that answer the server's own requests
	forsaken int
}

// call is a request under way.
type call struct {
	conn *conn
	cmd  protocol.Command
	done chan struct{} // closed when body or err is set
	// first, if set, is given the reply by the reader before it reads on: what
	// follows the reply on the wire may depend on it. It must not block.
	first func(body []byte)

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
	queued   callState = iota // nothing of it has left
	sent                      // the writer has it
	forsaken                  // sent or going to be, and nobody waits for the answer
)

// newConn takes nc over. The caller ends it with close.
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

// fail ends the connection for a reason. Only the first one counts; without one
// nothing happens.
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
	c.nc.Close() // its error says nothing: both directions are given up
	for _, cl := range orphans {
		if cl.state != forsaken {
			cl.complete(nil, c.lostError(cl.state == sent))
		}
	}
}

// close fails the connection and waits for its goroutines.
func (c *conn) close(reason error) {
	c.fail(reason)
	c.wg.Wait()
}

// failed is why the connection is of no more use, nil while it is.
func (c *conn) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// lostError is what a caller gets whose request died with the connection.
func (c *conn) lostError(sent bool) error {
	if c.err == ErrClosed {
		return &requestError{text: ErrClosed.Error(), kind: ErrClosed, sent: sent}
	}
	return &requestError{text: "lost the connection to " + c.addr, kind: ErrUnreachable, cause: c.err, sent: sent}
}

// start queues a frame, which is numbered here and must not be touched again
// before the call is over. It never blocks: how much is queued is for the
// callers to limit.
func (c *conn) start(cmd protocol.Command, frame []byte) *call {
	return c.startWith(cmd, frame, nil)
}

// startWith is start for a request whose reply first must see.
func (c *conn) startWith(cmd protocol.Command, frame []byte, first func(body []byte)) *call {
	cl := &call{conn: c, cmd: cmd, frame: frame, done: make(chan struct{}), first: first}
	if body := len(frame) - protocol.HeaderSize; body > int(protocol.BodyLimit(cmd, cmd != protocol.Whoami)) {
		cl.complete(nil, notSent(codes.TooLarge, "%v of %d bytes is more than the %d that the server takes", cmd, body, protocol.BodyLimit(cmd, cmd != protocol.Whoami)))
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
	nudge(c.wake)
	return cl
}

// nextSeqLocked skips the numbers that are in use, so that a late answer never
// reaches a later request, and 0, under which CppCloud sends stray frames. There
// is always a free one: MaxInFlight, maxForsaken and the watches' own limit are
// together below 65535.
func (c *conn) nextSeqLocked() uint16 {
	for {
		c.seq++
		if _, taken := c.pending[c.seq]; !taken && c.seq != 0 {
			return c.seq
		}
	}
}

// wait gives the reply's body. When it gives up before, a reply that still comes
// is thrown away.
func (cl *call) wait(ctx context.Context, expired <-chan time.Time) ([]byte, error) {
	select {
	case <-cl.done:
		return cl.body, cl.err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			nudge(cl.conn.doubt)
		}
		return nil, contextError(ctx, cl.forsake())
	case <-expired:
		nudge(cl.conn.doubt)
		return nil, timeoutError(cl.forsake())
	}
}

// forsake gives the call up and reports whether it was sent.
func (cl *call) forsake() (wasSent bool) { return cl.abandon(true) }

// ignore lets the call go on with nobody waiting for its answer.
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

// write is the writer: it puts small frames together, so that many callers cost
// one system call.
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

// takeQueued moves what is to be written next into buf. From here on it counts
// as sent.
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

// Read makes conn the source of its own buffered reader, to notice when bytes
// arrive.
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
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
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
		return fmt.Errorf("%v of %d bytes is more than Config.MaxBody, %d", h.Command, h.BodyLen, c.cfg.MaxBody)
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
	c.answered(cl, body)
	return nil
}

// answered takes cl off the books and completes it if somebody still waits.
func (c *conn) answered(cl *call, body []byte) {
	c.mu.Lock()
	mine := c.pending[cl.seq] == cl // not so if the connection failed meanwhile
	if mine {
		delete(c.pending, cl.seq)
	}
	waiting := cl.state == sent
	if mine && cl.state == forsaken {
		c.forsaken--
	}
	c.mu.Unlock()
	if mine && waiting {
		if cl.first != nil {
			cl.first(body)
		}
		cl.complete(body, nil)
	}
}

// readBody reads n bytes. It allocates as they come, so that a length alone costs
// little.
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

// readRequest takes what the server asks or tells by itself.
func (c *conn) readRequest(r *bufio.Reader, h protocol.Header) error {
	limit := uint64(protocol.MaxBody)
	if h.Command == protocol.KVEvent {
		limit = uint64(c.cfg.MaxBody) // values may be longer quoted than they are
	}
	if uint64(h.BodyLen) > limit {
		return fmt.Errorf("%v of %d bytes from the server is more than %d", h.Command, h.BodyLen, limit)
	}
	body, err := readBody(r, int(h.BodyLen))
	if err != nil {
		return err
	}
	switch h.Command {
	case protocol.KeepAlive:
		return c.reply(h, nil)
	case protocol.KVEvent:
		return c.watched(body)
	case protocol.KVGrant:
		granted, err := protocol.ParseKVGranted(body)
		if err != nil {
			return fmt.Errorf("a grant that cannot be understood: %w", withoutCode(err))
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

// decline answers another client's request that the server has routed here, so
// that nobody waits for us. In particular it is not taken for a push: anybody
// could send one.
func (c *conn) decline(h protocol.Header, req *protocol.Request) error {
	from, ok := req.IntOrText("from")
	if !ok {
		return nil
	}
	body := append([]byte(`{"code":`), strconv.Itoa(int(codes.NotImplemented))...)
	body = append(body, `,"to":`...)
	body = append(strconv.AppendInt(body, int64(from), 10), '}')
	return c.reply(h, body)
}

// reply queues the answer to a request of the server.
func (c *conn) reply(h protocol.Header, body []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil
	}
	if len(c.control) > maxControl {
		return fmt.Errorf("the server asks faster than it reads the answers")
	}
	c.control = protocol.AppendFrame(c.control, h.Command.Reply(), h.Seq, body)
	nudge(c.wake)
	return nil
}

// silentError ends a connection whose peer may still hold it open, as a process that
// was stopped does.
type silentError struct{ quiet time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("no sign of life for %v", e.quiet.Round(time.Second))
}

// probeTimeout is how long a server that has let a request time out may be silent
// before the connection is given up, if KeepAliveTimeout is not shorter.
const probeTimeout = 2 * time.Second

// keep is the keeper: after KeepAlive without a byte from the server, or as soon as a
// request was not answered in time, it asks whether the server is there, and gives up
// if not a byte comes within KeepAliveTimeout, or probeTimeout.
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

// await waits for limit, or probeTimeout from a doubt on if that is sooner, and is
// false if the connection ends first.
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

// heard is when the server was last heard of.
func (c *conn) heard() time.Time { return time.Unix(0, c.lastRead.Load()) }
