package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readSize is the most one read takes from a socket, in bytes: enough for
	// the replies of a deep pipeline at once.
	readSize = 256 << 10
	// turnEvents is how many connections one turn serves.
	turnEvents = 32
	// maxWait bounds one sleep, so that a cancelled context is noticed.
	maxWait = 100 * time.Millisecond
	// early is how long before something is due the loop wakes, so that it is not late.
	early = 100 * time.Microsecond
	// longSpin is how long a loop polls that has a core of its own.
	longSpin = time.Millisecond
)

var started = time.Now()

// now is the time that everything is measured with, in nanoseconds.
func now() int64 { return int64(time.Since(started)) }

// ticker is work that is due at certain times, whatever the traffic.
type ticker interface {
	// tick does what is due at the time at and returns when it wants to be called next.
	tick(at int64) (next int64)
}

// loop owns an epoll descriptor and the connections on it. It has no goroutine and no
// lock: everything happens inside until. It polls before it sleeps and bypasses Go's poller,
// because a server that has to wake its load for each answer is measured with that.
type loop struct {
	ctx   context.Context
	epfd  int
	spin  time.Duration // how long it polls before it sleeps
	tls   *tls.Config   // of connections to come; nil: they are plain
	token string        // of connections to come; empty: they have none

	conns   map[int]*conn // by descriptor
	tickers []ticker
	in      []byte
	events  [turnEvents]unix.EpollEvent
	quiet   int64 // since when nothing has arrived
	err     error // the first failure of a connection
}

func newLoop(ctx context.Context, spin time.Duration) *loop {
	epfd := must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	return &loop{ctx: ctx, epfd: epfd, spin: spin, conns: map[int]*conn{}, in: make([]byte, readSize)}
}

// hangUp closes every connection.
func (l *loop) hangUp() {
	for _, c := range l.conns {
		c.close()
	}
	l.tickers = nil
}

func (l *loop) every(t ticker) { l.tickers = append(l.tickers, t) }

func (l *loop) stop(t ticker) {
	l.tickers = slices.DeleteFunc(l.tickers, func(one ticker) bool { return one == t })
}

// until turns the loop until done, which it calls after each turn, returns true. It
// fails after limit, when the context ends and when a connection is lost.
func (l *loop) until(limit time.Duration, done func() bool) {
	deadline := now() + int64(limit)
	for !done() {
		check(l.err)
		check(context.Cause(l.ctx))
		if now() > deadline {
			check(errTimeout)
		}
		if err := l.turn(deadline); err != nil && !errors.Is(err, unix.EINTR) {
			check(fmt.Errorf("epoll: %w", err))
		}
	}
	check(l.err)
}

// wait turns the loop for d.
func (l *loop) wait(d time.Duration) {
	end := now() + int64(d)
	l.until(d+time.Minute, func() bool { return now() >= end })
}

// turn runs the tickers and serves up to turnEvents connections, waiting for one
// until deadline at most.
func (l *loop) turn(deadline int64) error {
	at := now()
	next := min(deadline, at+int64(maxWait))
	for _, t := range l.tickers {
		next = min(next, t.tick(at))
	}
	n, err := unix.EpollWait(l.epfd, l.events[:], 0)
	if idle := next - at - int64(early); n == 0 && idle > 0 && at-l.quiet >= int64(l.spin) {
		limit := unix.NsecToTimespec(idle) // finer than epoll's milliseconds
		_, err = unix.Ppoll([]unix.PollFd{{Fd: int32(l.epfd), Events: unix.POLLIN}}, &limit, nil)
	}
	for _, ev := range l.events[:max(n, 0)] {
		if c := l.conns[int(ev.Fd)]; c != nil { // it may have been closed by an earlier event of this turn
			c.readable()
		}
	}
	return err
}
