package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"confcenter/client/internal/connection"
	"confcenter/internal/clock"
)

// session is an identified connection. A Client has at most one; the next one begins
// when all goroutines of the last have ended.
type session struct {
	*connection.Conn
	addr  string
	epoch string // of the server's data
}

// run keeps the client connected until Close. first may be nil.
func (c *Client) run(first *session) {
	pause := c.newBackoff()
	for sess := first; ; {
		if sess != nil {
			began := c.cfg.Clock.Now()
			c.attend(sess)
			if c.cfg.Clock.Now().Sub(began) >= c.cfg.MaxBackoff {
				pause.reset()
			}
		}
		if !pause.sleep(c.ctx) {
			return
		}
		var err error
		if sess, err = c.connect(c.ctx); err != nil {
			c.unreachable(err)
		}
	}
}

func (c *Client) attend(sess *session) {
	select {
	case <-sess.Done():
	case <-c.ctx.Done():
	}
	sess.Close(ErrClosed)
	c.mu.Lock()
	c.session = nil
	c.announceLocked()
	c.mu.Unlock()
	err := sess.Err()
	if !errors.Is(err, ErrClosed) {
		c.changeState(StateDisconnected, sess.addr, err)
		c.report(err)
	}
	if errors.Is(err, connection.ErrSilent) {
		c.good = (c.good + 1) % len(c.cfg.Addrs) // a silent server may still accept connections
	}
}

// unreachable records that a round of attempts has failed. From now on requests fail
// at once instead of waiting.
func (c *Client) unreachable(err error) {
	c.mu.Lock()
	first := c.down == nil && !c.closed
	c.down = err
	c.announceLocked()
	c.mu.Unlock()
	if first {
		c.report(err)
	}
}

// connect tries each address once: the one that worked last comes first, or last if it
// fell silent.
func (c *Client) connect(ctx context.Context) (*session, error) {
	var failures []error
	for i := range c.cfg.Addrs {
		at := (c.good + i) % len(c.cfg.Addrs)
		sess, err := c.connectTo(ctx, c.cfg.Addrs[at])
		if err == nil {
			c.good = at
			return sess, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", c.cfg.Addrs[at], err))
		if ctx.Err() != nil {
			break
		}
	}
	err := errors.Join(failures...)
	if refused(err) {
		return nil, err
	}
	return nil, notConnected(err)
}

// connectTo connects to one address and makes it the client's session.
func (c *Client) connectTo(ctx context.Context, addr string) (_ *session, err error) {
	c.changeState(StateConnecting, addr, nil)
	defer func() {
		switch {
		case err == nil:
			c.changeState(StateConnected, addr, nil)
		case c.ctx.Err() == nil: // otherwise Close ended the attempt
			c.changeState(StateDisconnected, addr, err)
		}
	}()
	sess, who, err := c.open(ctx, addr, c.ID())
	if err != nil && c.ID() != 0 && refused(err) {
		// The server may not have noticed yet that our last connection is dead.
		sess, who, err = c.open(ctx, addr, 0)
	}
	if err != nil {
		return nil, err
	}
	if err := c.adopt(sess, who, false); err != nil {
		sess.Close(ErrClosed)
		return nil, err
	}
	return sess, nil
}

// announceLocked wakes all that wait for a change of the connection.
func (c *Client) announceLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
	for _, f := range c.feeds {
		clock.Nudge(f.wake)
	}
}

// state returns the current session, or nil and, if the last round of attempts has
// failed, the reason.
func (c *Client) state() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session, c.down
}

// awaitSession returns the session. While there is none it waits until a round of
// attempts to connect has failed or, if patient, as long as ctx lasts.
func (c *Client) awaitSession(ctx context.Context, expired <-chan time.Time, patient bool) (*session, error) {
	for {
		c.mu.Lock()
		sess, down, closed, changed := c.session, c.down, c.closed, c.changed
		c.mu.Unlock()
		switch {
		case closed:
			return nil, closedError()
		case sess != nil && sess.Err() == nil:
			return sess, nil
		case down != nil && !patient:
			return nil, notConnected(down)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, connection.ContextError(ctx, false)
		case <-expired:
			return nil, connection.TimeoutError(false)
		}
	}
}

// backoff is the wait between attempts, which doubles each time.
type backoff struct {
	clock          clock.Clock
	min, max, next time.Duration
}

func (c *Client) newBackoff() *backoff {
	return &backoff{clock: c.cfg.Clock, min: c.cfg.MinBackoff, max: c.cfg.MaxBackoff, next: c.cfg.MinBackoff}
}

func (b *backoff) reset() { b.next = b.min }

// delay returns the next wait. Half of it is random, so that clients which lost the
// same server do not all come back at the same moment.
func (b *backoff) delay() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.max)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for delay and returns false if ctx ends first.
func (b *backoff) sleep(ctx context.Context) bool {
	return !clock.Within(b.clock, b.delay(), ctx.Done()) && ctx.Err() == nil
}

// State is the state of a client's connection.
type State uint8

const (
	// StateConnecting: an attempt to reach StateChange.Addr begins.
	StateConnecting State = iota + 1
	// StateConnected: the server at Addr knows this program; requests go there.
	StateConnected
	// StateDisconnected: the connection to Addr, or the attempt to make one, has
	// failed; StateChange.Err says why. The next attempt follows by itself.
	StateDisconnected
	// StateClosed: Close was called. Nothing follows.
	StateClosed
)

var stateNames = map[State]string{StateConnecting: "connecting", StateConnected: "connected", StateDisconnected: "disconnected", StateClosed: "closed"}

func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// StateChange is what Config.OnState gets.
type StateChange struct {
	State State
	Addr  string // the server's; empty when closed
	Err   error  // why, when disconnected
}

// maxStates is how many changes wait for OnState. The oldest are dropped first, since
// the newest tell the current state.
const maxStates = 64

func (c *Client) tellState(change StateChange) {
	c.callbacks.Call("Config.OnState", func() { c.cfg.OnState(change) })
}

func (c *Client) changeState(state State, addr string, err error) {
	if c.cfg.OnState != nil {
		c.states.Put(StateChange{state, addr, err})
	}
	switch state {
	case StateConnecting:
		c.cfg.Logger.Debug("connecting", "addr", addr)
	case StateConnected:
		c.cfg.Logger.Info("connected", "addr", addr, "id", c.ID())
	case StateDisconnected:
		c.cfg.Logger.Warn("disconnected", "addr", addr, slog.Any("error", err))
	}
}

// WaitConnected waits until there is a connection, however many attempts that takes
// within ctx: for programs that start before their server, or that pause work while
// no server answers. After Close the error is ErrClosed.
func (c *Client) WaitConnected(ctx context.Context) error {
	_, err := c.awaitSession(ctx, nil, true)
	return err
}
