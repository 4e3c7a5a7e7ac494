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
	// turnEvents is how many connections one turn serves before it checks urgent ones
	// again. It bounds what a fan-out adds to the latency measured on other
	// connections.
	turnEvents = 32
	// maxWait bounds one sleep, so that a cancelled context is noticed.
	maxWait = 100 * time.Millisecond
)

// errTimeout is what until returns when the condition did not come true in time.
var errTimeout = errors.New("timed out")

// ticker is work that is due at certain times, whatever the traffic.
type ticker interface {
	// tick does what is due at now and returns when it wants to be called next,
	// both in nanoseconds of the loop's clock.
	tick(now int64) int64
}

// loop owns an epoll descriptor and the connections on it. It has no goroutine and no
// lock: its owner calls until, and everything happens inside that call. It is not gnet's
// loop, which cannot stop reading a connection, put urgent ones first or poll before it
// sleeps. Sockets are used by raw system calls, bypassing Go's scheduler and poller,
// because a load generator that costs as much as the server it loads measures itself.
type loop struct {
	// set at open
	ctx    context.Context
	epfd   int
	urgent int // nested epoll whose connections are served first
	clock  func() int64
	spin   int64
	fine   bool        // it sleeps for less than a millisecond, too, and leaves the core to others
	tls    *tls.Config // of connections to come; nil: they are plain
	token  string      // of connections to come; empty: they have none

	// owner only
	conns   []*conn // by slot; nil once closed
	tickers []ticker
	in      []byte
	events  [turnEvents]unix.EpollEvent
	quiet   int64 // since when nothing has arrived
	err     error // first failure of a connection that nobody expected
}

// urgentSlot marks the nested epoll among the events.
const urgentSlot = -1

// newLoop makes a loop that stops with ctx. It polls for spin before it sleeps.
func newLoop(ctx context.Context, spin time.Duration) (*loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	urgent, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err == nil {
		err = unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, urgent, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: urgentSlot})
	}
	if err != nil {
		_, _ = unix.Close(epfd), unix.Close(urgent)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	start := time.Now()
	return &loop{
		ctx: ctx, epfd: epfd, urgent: urgent, spin: int64(spin),
		clock: func() int64 { return int64(time.Since(start)) },
		in:    make([]byte, readSize),
	}, nil
}

// close closes every connection and the loop.
func (l *loop) close() {
	l.closeAll(l.conns)
	_, _ = unix.Close(l.urgent), unix.Close(l.epfd)
}

func (l *loop) closeAll(conns []*conn) {
	for _, c := range conns {
		if c != nil {
			c.close()
		}
	}
}

func (l *loop) every(t ticker) { l.tickers = append(l.tickers, t) }

func (l *loop) stop(t ticker) {
	l.tickers = slices.DeleteFunc(l.tickers, func(one ticker) bool { return one == t })
}

// until turns the loop until done, which it calls after each turn, returns true. It
// fails after limit, when the context ends and when a connection is lost.
func (l *loop) until(limit time.Duration, done func() bool) error {
	deadline := l.clock() + int64(limit)
	for !done() {
		if l.err != nil {
			return l.err
		}
		if err := l.ctx.Err(); err != nil {
			return context.Cause(l.ctx)
		}
		if l.clock() > deadline {
			return errTimeout
		}
		if err := l.turn(deadline); err != nil {
			return err
		}
	}
	return l.err
}

// wait turns the loop for d.
func (l *loop) wait(d time.Duration) error {
	end := l.clock() + int64(d)
	return l.until(d+time.Minute, func() bool { return l.clock() >= end })
}

// turn runs the tickers, then serves up to turnEvents connections, waiting for one
// until deadline at most.
func (l *loop) turn(deadline int64) error {
	now := l.clock()
	next := min(deadline, now+int64(maxWait))
	for _, t := range l.tickers {
		next = min(next, t.tick(now))
	}
	n, err := pollNow(l.epfd, l.events[:])
	if n == 0 && err == nil {
		n, err = l.sleep(now, next)
	}
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if n > 0 {
		l.quiet = now
	}
	return l.serve(l.events[:n])
}

// sleep waits for events until next, in whole milliseconds because epoll has no finer
// unit; the rest of the last one, and the time to spin, is polled away.
func (l *loop) sleep(now, next int64) (int, error) {
	ms := (next - now) / int64(time.Millisecond)
	switch {
	case now-l.quiet < l.spin:
		return 0, nil
	case l.fine:
		return l.doze(next - now - int64(early))
	case ms <= 0:
		return 0, nil
	}
	n, err := unix.EpollWait(l.epfd, l.events[:], int(ms))
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}

// early is how long before something is due a fine loop wakes, so that it is not late.
const early = 100 * time.Microsecond

// doze waits for events for so many nanoseconds.
func (l *loop) doze(most int64) (int, error) {
	if most <= 0 {
		return 0, nil
	}
	limit := unix.NsecToTimespec(most)
	if _, err := unix.Ppoll([]unix.PollFd{{Fd: int32(l.epfd), Events: unix.POLLIN}}, &limit, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return 0, err
	}
	return pollNow(l.epfd, l.events[:])
}

// serve serves the urgent connections and then those in events.
func (l *loop) serve(events []unix.EpollEvent) error {
	var urgent [turnEvents]unix.EpollEvent
	n, err := pollNow(l.urgent, urgent[:])
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, ev := range urgent[:n] {
		l.serveOne(ev)
	}
	for _, ev := range events {
		if ev.Fd != urgentSlot {
			l.serveOne(ev)
		}
	}
	return nil
}

func (l *loop) serveOne(ev unix.EpollEvent) {
	c := l.conns[ev.Fd]
	if c == nil {
		return // closed by an earlier event of the same turn
	}
	if ev.Events&unix.EPOLLOUT != 0 {
		c.flush()
	}
	if ev.Events&^uint32(unix.EPOLLOUT) != 0 && !c.closed {
		c.readable(ev.Events)
	}
}
