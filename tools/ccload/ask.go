package main

import (
	"fmt"
	"time"

	"confcenter/protocol"
)

const (
	// dialBatch is how many connections are opened before waiting for their WHOAMIs:
	// fewer than any listen queue holds.
	dialBatch = 256
	// askLimit is how long a single answer may take.
	askLimit = 30 * time.Second
)

// identify opens n connections and identifies each. Urgent ones are served before
// others, so that they do not measure the load side's own queue.
func (l *loop) identify(addr string, n int, urgent bool) ([]*conn, error) {
	hello := protocol.AppendIdentify(nil, protocol.Identify{Name: "ccload", Token: l.token})
	conns := make([]*conn, 0, n)
	for len(conns) < n {
		batch := make([]*conn, 0, dialBatch)
		for range min(dialBatch, n-len(conns)) {
			c, err := l.dial(addr, ignore{}, urgent)
			if err != nil {
				return nil, fmt.Errorf("connection %d of %d: %w", len(conns)+len(batch)+1, n, err)
			}
			batch = append(batch, c)
		}
		if _, err := l.askAll(batch, protocol.Whoami, hello); err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", len(conns)+1, n, err)
		}
		conns = append(conns, batch...)
	}
	return conns, nil
}

// answers waits for one reply on each of several connections. Pushes still go to the
// previous receiver.
type answers struct {
	before receiver
	cmd    protocol.Command
	left   int
	last   []byte
	err    error
}

func (a *answers) reply(_ *conn, body []byte) {
	a.left--
	a.last = append(a.last[:0], body...)
	if a.err == nil && !replyOK(body) {
		a.err = replyError(a.cmd, body)
	}
}

func (a *answers) push(c *conn, body []byte, now int64) { a.before.push(c, body, now) }

func (a *answers) settle(c *conn, _ int64) { c.forget() }

// ask sends one request and returns the body of its reply, which must have code 0.
// Nothing may be in flight.
func (l *loop) ask(c *conn, cmd protocol.Command, body []byte) ([]byte, error) {
	return l.askAll([]*conn{c}, cmd, body)
}

// askAll sends one request on each of conns, which share a receiver and have
// nothing in flight, and waits for all replies. It returns the last one.
func (l *loop) askAll(conns []*conn, cmd protocol.Command, body []byte) ([]byte, error) {
	a := &answers{before: conns[0].to, cmd: cmd}
	frame := protocol.AppendFrame(nil, cmd, 0, body)
	for start := 0; start < len(conns) && a.err == nil; start += dialBatch {
		batch := conns[start:min(start+dialBatch, len(conns))]
		now := l.clock()
		for _, c := range batch {
			a.left++
			c.to, c.expect = a, cmd.Reply()
			c.request(frame, now)
		}
		if err := l.until(askLimit, func() bool { return a.left == 0 }); err != nil {
			return nil, fmt.Errorf("%v: %d of %d not answered: %w", cmd, a.left, len(batch), err)
		}
	}
	for _, c := range conns {
		c.to = a.before
	}
	return a.last, a.err
}

// set writes a document.
func (l *loop) set(c *conn, name string, contents []byte) error {
	_, err := l.ask(c, protocol.SetConfig, protocol.AppendConfigUpdate(nil, protocol.ConfigUpdate{Name: name, Contents: contents}))
	return err
}

// subscribe follows name on each of conns.
func (l *loop) subscribe(conns []*conn, name string) error {
	_, err := l.askAll(conns, protocol.BookCfgChange, protocol.AppendSubscription(nil, protocol.Subscription{File: name}))
	return err
}

// fill writes the small documents with these names.
func (l *loop) fill(addr string, names []string) error {
	conns, err := l.identify(addr, 1, false)
	if err != nil {
		return err
	}
	defer l.closeAll(conns)
	for i, name := range names {
		if err := l.set(conns[0], name, smallDocument(name, i, replySize)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
