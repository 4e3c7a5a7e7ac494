package client

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

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

func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateConnected:
		return "connected"
	case StateDisconnected:
		return "disconnected"
	case StateClosed:
		return "closed"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// StateChange is what Config.OnState gets.
type StateChange struct {
	State State
	Addr  string // the server's; empty when closed
	Err   error  // why, when disconnected
}

// maxStates is how many changes wait for OnState; while it is busy the oldest are
// dropped, since the newest say what is.
const maxStates = 64

// stateBox brings changes of the connection to Config.OnState.
type stateBox struct {
	callbacks *callbacks
	tell      func(StateChange)
	job       *job

	mu      sync.Mutex
	waiting []StateChange // guarded by mu
	closed  bool          // guarded by mu
}

func newStateBox(cb *callbacks, tell func(StateChange)) *stateBox {
	b := &stateBox{callbacks: cb, tell: tell}
	b.job = &job{run: b.run}
	return b
}

func (b *stateBox) put(change StateChange) {
	if b.tell == nil {
		return
	}
	b.mu.Lock()
	if len(b.waiting) == maxStates {
		b.waiting = b.waiting[1:]
	}
	b.waiting = append(b.waiting, change)
	b.mu.Unlock()
	b.callbacks.post(b.job)
}

func (b *stateBox) run() {
	b.mu.Lock()
	waiting := b.waiting
	b.waiting = nil
	b.mu.Unlock()
	for _, change := range waiting {
		b.call(change)
	}
}

// close tells the end, after the callbacks have been stopped. What waits before it is
// told no more.
func (b *stateBox) close() {
	b.mu.Lock()
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if b.tell != nil && !again {
		b.call(StateChange{State: StateClosed})
	}
}

func (b *stateBox) call(change StateChange) {
	b.callbacks.call("Config.OnState", func() { b.tell(change) })
}

// changeState tells OnState and the log.
func (c *Client) changeState(state State, addr string, err error) {
	c.states.put(StateChange{state, addr, err})
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
