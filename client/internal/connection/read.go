package connection

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

// source is a Conn as what its reader reads from.
type source Conn

// Read implements io.Reader, and notes when bytes arrive.
func (c *source) Read(p []byte) (int, error) {
	n, err := c.nc.Read(p)
	if n > 0 {
		c.lastRead.Store(c.set.Clock.Now().UnixNano())
		c.reads.Add(1)
	}
	return n, err
}

// read is the reader.
func (c *Conn) read() error {
	r := bufio.NewReaderSize((*source)(c), bufferSize)
	var head [protocol.HeaderSize]byte
	for silent := c.set.TLS == nil; ; silent = false {
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

func (c *Conn) readReply(r *bufio.Reader, h protocol.Header) error {
	if uint64(h.BodyLen) > uint64(c.set.MaxBody) {
		return fmt.Errorf("an answer of %d bytes is more than Config.MaxBody, %d", h.BodyLen, c.set.MaxBody)
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

func (c *Conn) readRequest(r *bufio.Reader, h protocol.Header) error {
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
		c.set.OnGrant(granted)
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
		c.set.OnChange(change)
	}
	return err
}

// eventsOf are the events of a watch.
type eventsOf struct {
	event protocol.Command
	watch uint32
}

// OnEvent has the reader pass the events of a watch to take from now on; nil: no more. The
// watch is named by the server's number, which is one among those with such events. take gets
// the body of each or, unread, why it is refused. If it cannot read one, which is its error,
// the connection ends. It must not block.
func (c *Conn) OnEvent(event protocol.Command, watch uint32, take func(body []byte, refused error) error) {
	if take == nil {
		c.onEvent.Delete(eventsOf{event, watch})
		return
	}
	c.onEvent.Store(eventsOf{event, watch}, take)
}

// readEvents handles a KVEVENT or CFEVENT with a body of n bytes. One for an unknown number was on its
// way when the watch ended, and there may be many of them: they are not read.
func (c *Conn) readEvents(r *bufio.Reader, event protocol.Command, n int) error {
	start, err := r.Peek(min(n, protocol.KVEventStart))
	if err != nil {
		return err
	}
	id, err := protocol.KVEventWatch(start)
	if err != nil {
		return unreadablePush("an event", err)
	}
	found, _ := c.onEvent.Load(eventsOf{event, id})
	take, _ := found.(func(body []byte, refused error) error)
	if take == nil || n > c.set.MaxBody {
		if take != nil {
			_ = take(nil, codes.Errorf(codes.TooLarge, "an event of %d bytes is more than Config.MaxBody, %d", n, c.set.MaxBody))
		}
		_, err = r.Discard(n)
		return err
	}
	body, err := readBody(r, n)
	if err != nil {
		return err
	}
	if err := take(body, nil); err != nil {
		return unreadablePush("an event", err)
	}
	return nil
}

// unreadablePush keeps the text of err and drops its code, which could be mistaken for a code
// that the server has sent.
func unreadablePush(what string, err error) error {
	return fmt.Errorf("%s that cannot be read: %v", what, err)
}

// decline answers a request that the server has routed here from another client, so
// that the client does not wait. Such a request is never taken for a push: any client
// could send it.
func (c *Conn) decline(h protocol.Header, req *protocol.Request) error {
	from, ok := req.IntOrText("from")
	if !ok {
		return nil
	}
	return c.reply(h, fmt.Appendf(nil, `{"code":%d,"to":%d}`, codes.NotImplemented, from))
}

func (c *Conn) reply(h protocol.Header, body []byte) error {
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
