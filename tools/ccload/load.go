package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load sends requests of a tape on connections of its own and counts the replies. As a
// closed loop (closed, play) it keeps depth requests in flight on each: every reply is
// followed by the next request, so the server sets the rate. As an open loop (begin and
// end) it sends at a fixed rate over the connections in turn, however late the replies are,
// and latency counts from the time a request was due.
type load struct {
	loop    *loop
	conns   []*conn
	tape    *tape
	tally   *tally
	scratch []byte
	onReply func(body []byte) // nil: no one looks at them

	asking bool // closed loop
	quota  int  // requests still to be sent; below 0: any number

	interval float64 // open loop: nanoseconds between two requests
	turn     int     // how many have been due
}

// newLoad takes over the connections, which must have nothing in flight.
func newLoad(conns []*conn, requests *tape) *load {
	d := &load{loop: conns[0].loop, conns: conns, tape: requests, tally: newTally()}
	for _, c := range conns {
		c.onReply = func(body []byte) { d.judge(c, body) }
		c.onRead = func(replies int, at int64) {
			d.tally.settle(c, replies, at)
			if d.asking {
				d.fill(c, replies, at)
			}
		}
	}
	return d
}

// judge looks at one reply.
func (d *load) judge(c *conn, body []byte) {
	if err := replyError(c.expect, body); err != nil {
		d.tally.err = cmp.Or(d.tally.err, err)
		d.tally.failed++
	}
	if d.onReply != nil {
		d.onReply(body)
	}
}

// closed sends for duration, after a warm-up, and reports what was answered in that
// time.
func (d *load) closed(depth int, duration time.Duration) *tally {
	d.ask(depth, -1)
	d.loop.wait(min(duration/10, 200*time.Millisecond))
	d.tally = newTally()
	d.loop.wait(duration)
	t := d.tally.end()
	d.tally, d.asking = newTally(), false
	d.drain()
	return t
}

// play sends n requests in all and reports on them, from the first sent to the last
// answered.
func (d *load) play(depth, n int) *tally {
	d.tally = newTally()
	d.ask(depth, n)
	d.drain()
	return d.tally.end()
}

// ask begins a closed loop.
func (d *load) ask(depth, quota int) {
	d.asking, d.quota = true, quota
	at := now()
	for _, c := range d.conns {
		d.fill(c, depth, at)
	}
}

// fill sends up to n more requests in one write, as due at the time at.
func (d *load) fill(c *conn, n int, at int64) {
	if d.quota >= 0 {
		n = min(n, d.quota)
		d.quota -= n
	}
	if n == 0 {
		return
	}
	d.scratch = d.scratch[:0]
	for range n {
		start := len(d.scratch)
		d.scratch = append(d.scratch, d.tape.next()...)
		c.take(d.scratch[start:])
	}
	c.sent = append(c.sent, batch{at, n})
	c.write(d.scratch)
}

// begin sends from now on, until end.
func (d *load) begin(perSecond float64) {
	d.tally = newTally()
	d.asking, d.quota, d.turn, d.interval = false, -1, 0, float64(time.Second)/perSecond
	d.loop.every(d)
}

// due is when the next request of an open loop is due. That does not depend on when it is
// asked, so a load that falls behind counts as late and not as a lower rate.
func (d *load) due() int64 { return d.tally.start + int64(float64(d.turn)*d.interval) }

// end stops sending, waits for the replies and reports on them all, because late ones
// count towards the latency. The rate is over the time of sending.
func (d *load) end() *tally {
	d.loop.stop(d)
	stop := now()
	d.drain()
	t := d.tally.end()
	t.stop = stop
	return t
}

func (d *load) tick(at int64) int64 {
	for _, c := range d.conns {
		c.readable() // before others, so that it does not measure the load side's own queue
	}
	for d.due() <= at {
		d.fill(d.conns[d.turn%len(d.conns)], 1, d.due())
		d.turn++
	}
	return d.due()
}

func (d *load) drain() {
	d.loop.until(askLimit, func() bool {
		return !slices.ContainsFunc(d.conns, func(c *conn) bool { return c.inflight > 0 })
	})
}

// maxLatency is the largest latency that is told apart, in nanoseconds.
const maxLatency = int64(2 * time.Minute)

// tally is what a load has counted.
type tally struct {
	start, stop  int64
	done, failed int64
	err          error // the first reply that was not code 0, if any
	latency      *hdrhistogram.Histogram
}

func newTally() *tally { return &tally{start: now(), latency: hdrhistogram.New(1, maxLatency, 3)} }

// end ends the count, which must have no reply with another code than 0.
func (t *tally) end() *tally {
	t.stop = now()
	check(t.err)
	return t
}

// settle counts so many replies on c.
func (t *tally) settle(c *conn, replies int, at int64) {
	t.done += int64(replies)
	for replies > 0 {
		first := &c.sent[0]
		n := min(replies, first.n)
		_ = t.latency.RecordValues(min(max(at-first.at, 0), maxLatency), int64(n))
		replies -= n
		if first.n -= n; first.n == 0 {
			c.sent = c.sent[1:]
		}
	}
}

// perSecond is the rate of replies.
func (t *tally) perSecond() float64 { return float64(t.done) / seconds(max(t.stop-t.start, 1)) }

// micros and millis are quantiles of the latency, q in percent.
func (t *tally) micros(q float64) float64 { return float64(t.latency.ValueAtQuantile(q)) / 1000 }
func (t *tally) millis(q float64) float64 { return t.micros(q) / 1000 }

func millis(ns int64) float64  { return float64(ns) / float64(time.Millisecond) }
func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }

// quantile is the q-quantile of samples by nearest rank, 0.5 being the median; 0 if there
// are none. It does not change samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[int(math.Round(q*float64(len(sorted)-1)))]
}

func median(samples []float64) float64 { return quantile(samples, 0.5) }

// ratios divides pairwise and leaves out pairs with a zero denominator.
func ratios(above, below []float64) []float64 {
	var r []float64
	for i := range min(len(above), len(below)) {
		if below[i] != 0 {
			r = append(r, above[i]/below[i])
		}
	}
	return r
}

// each applies of to every element.
func each[T any](list []T, of func(T) float64) []float64 {
	var values []float64
	for _, one := range list {
		values = append(values, of(one))
	}
	return values
}
