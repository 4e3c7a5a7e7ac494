package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"confcenter/protocol"
)

// pushName is the document whose change is told to many.
const pushName = "push.json"

// fanout has many subscribers and one writer, which changes what they have subscribed to
// and waits until all have been told.
type fanout struct {
	loop   *loop
	writer *conn
	writes *tape
	n      int // subscribers

	// of the round that is running
	number      int
	begun       int64
	first, last int64
	told        int
	replied     int64
	err         error
}

// round is one change as seen from outside, in nanoseconds from the writer's request.
type round struct {
	first int64 // to the first push
	all   int64 // to the last push
	reply int64 // to the writer's reply
}

// allTold and late are in milliseconds. late runs from the writer's reply to the last push.
func (r round) allTold() float64 { return millis(r.all) }
func (r round) late() float64    { return max(0, millis(r.all-r.reply)) }

// newFanout connects n subscribers, which send cmd, and a writer that sends writes.
func newFanout(l *loop, addr string, n int, writes *tape, cmd protocol.Command, body []byte) *fanout {
	f := &fanout{loop: l, writes: writes}
	f.writeOn(l.dial(addr, 1)[0])
	for _, c := range l.dial(addr, n) {
		c.ask(cmd, body)
		f.add(c)
	}
	return f
}

// newConfigFanout is newFanout for one document.
func newConfigFanout(l *loop, addr string, n int) *fanout {
	return newFanout(l, addr, n, setTape([]string{pushName}, setSize), protocol.BookCfgChange,
		protocol.AppendSubscription(nil, protocol.Subscription{File: pushName, MissingOK: true}))
}

// newHTTPFanout is newFanout with n streams of the namespace of the writer's key. The
// state with which each stream begins counts as a first push.
func newHTTPFanout(l *loop, addr string, n int) *fanout {
	f := &fanout{loop: l, writes: httpPutTape(addr)}
	f.writeOn(l.openHTTP(addr, 1, len(fetch(addr, f.writes.next())))[0])
	f.begin()
	for range n {
		c := l.open(addr)
		c.framing = streamFraming
		f.add(c)
		c.write(httpGet(addr, httpStream))
	}
	f.await()
	l.wait(10 * time.Millisecond) // for those that are told twice
	return f
}

func (f *fanout) writeOn(c *conn) {
	f.writer = c
	c.onReply = func(body []byte) { f.err = cmp.Or(f.err, replyError(c.expect, body)) }
	c.onRead = func(_ int, at int64) { f.replied = at }
}

// add makes c a subscriber.
func (f *fanout) add(c *conn) {
	round := 0 // the last one
	c.onPush = func(body []byte, at int64) {
		if round == f.number {
			f.err = fmt.Errorf("told twice about one change: %.200s", body)
		}
		round = f.number
		if f.told++; f.told == 1 {
			f.first = at
		}
		f.last = at
	}
	f.n++
}

// begin begins a round.
func (f *fanout) begin() {
	f.number++
	f.told, f.replied, f.begun = 0, 0, now()
}

// await waits until all have been told.
func (f *fanout) await() {
	err := attempt(func() { f.loop.until(askLimit, func() bool { return f.err != nil || f.told >= f.n }) })
	if err != nil || f.err != nil {
		check(fmt.Errorf("%d of %d subscribers told: %w", f.told, f.n, cmp.Or(err, f.err)))
	}
}

// rounds makes warmup changes and then n, with a pause before each, and returns the n.
func (f *fanout) rounds(warmup, n int, pause time.Duration) (counted []round) {
	for i := range warmup + n {
		f.loop.wait(pause)
		if r := f.change(); i >= warmup {
			counted = append(counted, r)
		}
	}
	return counted
}

// change writes once and waits for every push and the reply.
func (f *fanout) change() round {
	frame := slices.Clone(f.writes.next())
	f.begin()
	f.writer.take(frame)
	f.writer.write(frame)
	f.await()
	f.loop.until(askLimit, func() bool { return f.replied != 0 })
	check(f.err)
	return round{first: f.first - f.begun, all: f.last - f.begun, reply: f.replied - f.begun}
}

// perSecond is the rate of pushes within a round, starting with the first.
func (f *fanout) perSecond(r round) float64 { return float64(f.n-1) / seconds(max(r.all-r.first, 1)) }
