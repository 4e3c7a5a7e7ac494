package main

import (
	"fmt"
	"time"

	"confcenter/protocol"
)

const (
	// dialBatch is how many connections are opened before their WHOAMIs are
	// waited for: fewer than any listen queue holds.
	dialBatch = 256
	// askLimit is how long a single answer may take.
	askLimit = 30 * time.Second
)

// dialing is how a set of connections is opened.
type dialing struct {
	addr    string
	urgent  bool // served before others, so that what they measure is not the load side's own queue
	mayEnd  bool // the server may close them
	receive int  // receive buffer in bytes; 0 leaves it to the kernel
}

// identify opens n connections and identifies each.
func (l *loop) identify(how dialing, n int) ([]*conn, error) {
	hello := protocol.AppendIdentify(nil, protocol.Identify{Name: "ccload"})
	conns := make([]*conn, 0, n)
	for len(conns) < n {
		batch := make([]*conn, 0, dialBatch)
		for range min(dialBatch, n-len(conns)) {
			c, err := l.dial(how.addr, ignore{}, how.urgent, how.receive)
			if err != nil {
				return nil, fmt.Errorf("connection %d of %d: %w", len(conns)+len(batch)+1, n, err)
			}
			batch = append(batch, c)
		}
		if _, err := l.askAll(batch, protocol.Whoami, hello); err != nil {
			return nil, fmt.Errorf("connection %d of %d: %w", len(conns)+1, n, err)
		}
		for _, c := range batch {
			c.mayEnd = how.mayEnd
		}
		conns = append(conns, batch...)
	}
	return conns, nil
}

// ignore is the receiver of a connection that only asks by ask.
type ignore struct{}

func (ignore) reply(*conn, []byte)       {}
func (ignore) push(*conn, []byte, int64) {}
func (ignore) settle(*conn, int64)       {}

// answers waits for one reply on each of several connections. Pushes still go to
// whom they went before.
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

func (a *answers) settle(c *conn, _ int64) {
	for c.answered > 0 {
		_, n := c.sent.take(c.answered)
		c.answered -= n
	}
}

// ask sends one request and returns the body of its reply, which must have code
// 0. Nothing may be in flight.
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

// document asks for name and returns its contents and version.
func (l *loop) document(c *conn, name string) (protocol.Config, error) {
	body, err := l.ask(c, protocol.GetConfig, protocol.AppendConfigQuery(nil, name, "", 0, false))
	if err != nil {
		return protocol.Config{}, err
	}
	doc, err := protocol.ParseConfig(body)
	if err == nil && doc.Contents == nil {
		err = fmt.Errorf("%s is not on the server", name)
	}
	return doc, err
}

// set writes a document and returns its version.
func (l *loop) set(c *conn, name string, contents []byte) (int32, error) {
	body, err := l.ask(c, protocol.SetConfig, protocol.AppendConfigUpdate(nil, protocol.ConfigUpdate{Name: name, Contents: contents}))
	if err != nil {
		return 0, err
	}
	done, err := protocol.ParseConfigUpdated(body)
	return done.Mtime, err
}

// subscribe follows name on each of conns.
func (l *loop) subscribe(conns []*conn, name string) error {
	_, err := l.askAll(conns, protocol.BookCfgChange, protocol.AppendSubscription(nil, protocol.Subscription{File: name}))
	return err
}
