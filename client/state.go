package client

import (
	"context"
	"fmt"
	"log/slog"
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
	c.callbacks.call("Config.OnState", func() { c.cfg.OnState(change) })
}

// changeState reports a change to OnState and the log.
func (c *Client) changeState(state State, addr string, err error) {
	if c.cfg.OnState != nil {
		c.states.put(StateChange{state, addr, err})
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
