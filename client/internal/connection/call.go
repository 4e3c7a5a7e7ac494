package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/protocol"
)

// Call is a request that was started.
type Call struct {
	conn  *Conn
	cmd   protocol.Command
	done  chan struct{}           // closed when body or err is set
	first func(body []byte) error // see RequestInOrder; nil: none

	// guarded by Conn.mu
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

// Start assigns the frame a sequence number and queues it. The frame must not be
// touched until the call is done. Start never blocks; callers limit what is queued.
func (c *Conn) Start(cmd protocol.Command, frame []byte) *Call { return c.start(cmd, frame, nil) }

func (c *Conn) start(cmd protocol.Command, frame []byte, first func(body []byte) error) *Call {
	cl := &Call{conn: c, cmd: cmd, frame: frame, done: make(chan struct{}), first: first}
	if body, limit := len(frame)-protocol.HeaderSize, int(protocol.BodyLimit(cmd, cmd != protocol.Whoami)); body > limit {
		cl.complete(nil, &Error{Text: fmt.Sprintf("a request of %d bytes is more than the %d that the server takes", body, limit), Kind: codes.TooLarge})
		return cl
	}
	c.mu.Lock()
	if why := c.err; why != nil {
		c.mu.Unlock()
		cl.complete(nil, why.as(false))
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

// RequestInOrder sends a request and waits until the reader has called first with the reply,
// before it read on: what follows on the wire may depend on the reply. first must not block.
// If ctx ends sooner first is called all the same, unless the connection ends.
func (c *Conn) RequestInOrder(ctx context.Context, cmd protocol.Command, frame []byte, first func(body []byte) error) error {
	cl := c.start(cmd, frame, first)
	select {
	case <-cl.done:
		return cl.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// nextSeqLocked skips the numbers in use, so that a late answer never reaches a later
// request, and 0, under which CppCloud sends stray frames. A number is always free:
// the sum of MaxInFlight, maxForsaken and the limit on watches is below 65535.
func (c *Conn) nextSeqLocked() uint16 {
	for {
		c.seq++
		if _, taken := c.pending[c.seq]; !taken && c.seq != 0 {
			return c.seq
		}
	}
}

// Wait returns the reply's body. A reply that comes after Wait has given up is
// discarded.
func (cl *Call) Wait(ctx context.Context, expired <-chan time.Time) ([]byte, error) {
	select {
	case <-cl.done:
		return cl.body, cl.err
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			clock.Nudge(cl.conn.doubt)
		}
		return nil, ContextError(ctx, cl.Forsake())
	case <-expired:
		clock.Nudge(cl.conn.doubt)
		return nil, TimeoutError(cl.Forsake())
	}
}

// Forsake gives the call up and reports whether it was sent. If not, it never is.
func (cl *Call) Forsake() (wasSent bool) { return cl.abandon(true) }

// Ignore lets the call go on with no one waiting for its answer.
func (cl *Call) Ignore() { cl.abandon(false) }

// abandon stops waiting for the answer. A call that is still queued is withdrawn if
// withdraw is true. A peer that leaves too many calls unanswered loses the connection.
func (cl *Call) abandon(withdraw bool) (wasSent bool) {
	c := cl.conn
	c.mu.Lock()
	wasSent = cl.state == sent
	switch {
	case c.pending[cl.seq] != cl: // answered or lost in the meantime
	case withdraw && cl.state == queued:
		delete(c.pending, cl.seq)
		c.queue = slices.DeleteFunc(c.queue, func(o *Call) bool { return o == cl })
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

func (cl *Call) complete(body []byte, err error) {
	cl.body, cl.err = body, err
	close(cl.done)
}

// Request sends a request and waits for the reply. One that the server refuses because too
// much is sent has had no effect: it is sent again when the server says. If there is no time
// for that, the refusal is the reply.
func (c *Conn) Request(ctx context.Context, expired <-chan time.Time, cmd protocol.Command, frame []byte) ([]byte, error) {
	for {
		if ctx.Err() != nil { // the answer might be there before Wait looks
			return nil, ContextError(ctx, false)
		}
		body, err := c.Start(cmd, frame).Wait(ctx, expired)
		if err != nil || !c.Later(ctx, expired, RetryAfter(body)) {
			return body, err
		}
	}
}

// Later waits for a little more than after, or until the connection ends. It returns false
// if there is nothing to wait for or no time.
func (c *Conn) Later(ctx context.Context, expired <-chan time.Time, after time.Duration) bool {
	if after <= 0 {
		return false
	}
	timer := c.set.Clock.NewTimer(after + rand.N(after/4+1)) // not all at the same moment
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-c.dead:
	case <-ctx.Done():
		return false
	case <-expired:
		return false
	}
	return true
}

// busyStart is how the refusals begin that may be worth repeating.
var busyStart = []byte(`{"code":503,`)

// RetryAfter is when the request is worth sending again that body answers; 0: it is not.
func RetryAfter(body []byte) time.Duration {
	if !bytes.HasPrefix(body, busyStart) {
		return 0
	}
	r, _ := protocol.ParseResult(body)
	return r.RetryAfter
}

// Error is why a request has no answer.
type Error struct {
	Text  string
	Kind  error // Settings.Lost, what Close was given, codes.Timeout, codes.TooLarge, …; nil: the context has ended
	Cause error // may be nil
	Sent  bool  // the server may have received it
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return e.Text + ": " + e.Cause.Error()
}

func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Cause}, func(err error) bool { return err == nil })
}

// as is e of a request that was sent or not.
func (e *Error) as(sent bool) *Error {
	other := *e
	other.Sent = sent
	return &other
}

// ContextError is the error of a request that is given up because ctx has ended.
func ContextError(ctx context.Context, sent bool) error {
	e := &Error{Text: "gave up waiting for the server", Cause: context.Cause(ctx), Sent: sent}
	if errors.Is(e.Cause, context.DeadlineExceeded) {
		e.Kind = codes.Timeout
	}
	return e
}

// TimeoutError is the error of a request that is given up because its own time is up.
func TimeoutError(sent bool) error {
	return &Error{Text: "the server did not answer in time", Kind: codes.Timeout, Sent: sent}
}
