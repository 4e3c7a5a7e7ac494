package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"confcenter/protocol"
)

// pushName is the document whose change is told to many.
const pushName = "push.json"

// fanout has many subscribers of one document and one writer, which changes it and
// waits until all have been told.
type fanout struct {
	ignore
	loop        *loop
	writer      *conn
	subscribers []*conn
	writes      source
	frame       []byte

	// of the round that is running
	number      int
	begun       int64
	first, last int64
	told        int
	replied     int64

	delay   *hdrhistogram.Histogram // from the writer's request to each push
	failure error
}

// round is one change as seen from outside, in nanoseconds.
type round struct {
	first  int64 // from the request to the first push
	all    int64 // from the request to the last push
	reply  int64 // from the request to the writer's reply
	spread int64 // from the first push to the last
}

// firstPush, allTold and late are in milliseconds. late runs from the writer's reply to
// the last push.
func (r round) firstPush() float64 { return millis(r.first) }
func (r round) allTold() float64   { return millis(r.all) }
func (r round) late() float64      { return max(0, millis(r.all-r.reply)) }

// newFanout opens the writer and n subscribers of a document that it writes.
func newFanout(l *loop, addr string, n int) *fanout {
	f := &fanout{loop: l, writes: newWrites([]string{pushName}, 200, int(time.Now().UnixMilli())), delay: newHistogram()}
	f.open(addr, n)
	check(l.set(f.writer, pushName, []byte(`{"n":0}`)))
	check(l.subscribe(f.subscribers, pushName))
	f.writer.to = (*fanoutWriter)(f)
	return f
}

// newKVFanout is newFanout with n watchers of one key.
func newKVFanout(l *loop, addr string, n int) *fanout {
	f := &fanout{loop: l, writes: newKVWrites(), delay: newHistogram()}
	f.open(addr, n)
	must(l.askAll(f.subscribers, protocol.KVWatch, kvGetBody(0)))
	f.writer.to = (*fanoutWriter)(f)
	return f
}

// open connects the writer and n subscribers.
func (f *fanout) open(addr string, n int) {
	f.writer = must(f.loop.identify(addr, 1, true))[0]
	f.subscribers = must(f.loop.identify(addr, n, false))
	for _, c := range f.subscribers {
		c.to = f
	}
}

// rounds makes warmup changes and then n, with a pause before each, and returns the n.
func (f *fanout) rounds(warmup, n int, pause time.Duration, bar *progress) (counted []round) {
	for i := range warmup + n {
		check(f.loop.wait(pause))
		if i == warmup {
			f.delay.Reset()
		}
		if r := must(f.change()); i >= warmup {
			counted = append(counted, r)
		}
		bar.to(float64(i+1) / float64(warmup+n))
	}
	return counted
}

// change writes once and waits for every push and the reply.
func (f *fanout) change() (round, error) {
	f.number++
	f.told, f.first, f.last, f.replied = 0, 0, 0, 0
	f.writer.expect = f.writes.expect()
	f.frame = f.writes.next(f.frame[:0])
	f.begun = f.loop.clock()
	f.writer.request(f.frame, f.begun)
	if err := f.until(func() bool { return f.replied != 0 && f.told >= len(f.subscribers) }); err != nil {
		return round{}, fmt.Errorf("%d of %d subscribers told: %w", f.told, len(f.subscribers), err)
	}
	return round{first: f.first - f.begun, all: f.last - f.begun, reply: f.replied - f.begun, spread: f.last - f.first}, nil
}

// until turns the loop until done is true or the fan-out has failed.
func (f *fanout) until(done func() bool) error {
	err := f.loop.until(askLimit, func() bool { return f.failure != nil || done() })
	return cmp.Or(err, f.failure)
}

// perSecond is the rate of pushes within a round, starting with the first.
func (f *fanout) perSecond(r round) float64 {
	if r.spread <= 0 {
		return 0
	}
	return float64(len(f.subscribers)-1) / time.Duration(r.spread).Seconds()
}

func (f *fanout) push(c *conn, body []byte, now int64) {
	if c.round == f.number {
		f.failure = fmt.Errorf("told twice about one change: %.200s", body)
		return
	}
	c.round = f.number
	if f.told == 0 {
		f.first = now
	}
	f.told++
	f.last = now
	record(f.delay, now-f.begun, 1)
}

// fanoutWriter is the fan-out as the receiver of its writer's connection.
type fanoutWriter fanout

func (w *fanoutWriter) reply(_ *conn, body []byte) {
	if !replyOK(body) {
		w.failure = replyError(w.writes.expect(), body)
	}
}

func (w *fanoutWriter) settle(c *conn, now int64) {
	c.forget()
	w.replied = now
}
