package main

import (
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// drainLimit is how long the outstanding replies may take.
const drainLimit = 30 * time.Second

// warmup is how long a closed loop runs before a measurement of d.
func warmup(d time.Duration) time.Duration { return min(d/10, 200*time.Millisecond) }

// load sends requests from src on connections of its own and counts the replies. As a
// closed loop (closed, play) it keeps depth requests in flight on each: every reply is
// followed by the next request, so the server sets the rate. As an open loop (open, or
// begin and end) it sends at a fixed rate over the connections in turn, however late
// the replies are, and latency counts from the time a request was due.
type load struct {
	ignore
	loop    *loop
	conns   []*conn
	src     source
	tally   *tally
	scratch []byte

	quota  int64 // requests still to be sent; below 0: any number
	asking bool  // closed loop
	pace   pacer // open loop
	turn   int
}

// newLoad takes over the connections, which must have nothing in flight.
func newLoad(l *loop, conns []*conn, src source) *load {
	d := &load{loop: l, conns: conns, src: src, tally: newTally()}
	for _, c := range conns {
		c.to, c.expect = d, src.expect()
	}
	return d
}

// closed sends for duration, after a warm-up, and reports what was answered in that
// time.
func (d *load) closed(depth int, duration time.Duration) (*tally, error) {
	d.fillAll(depth, -1)
	if err := d.loop.wait(warmup(duration)); err != nil {
		return nil, err
	}
	d.tally.reset(d.loop.clock())
	err := d.loop.wait(duration)
	d.tally.end = d.loop.clock()
	counted := d.tally
	d.tally = newTally()
	if err != nil {
		return nil, err
	}
	d.asking = false
	return counted, d.drain()
}

// play sends n requests in all and reports on them, from the first sent to the last
// answered.
func (d *load) play(depth, n int) (*tally, error) {
	d.tally = newTally()
	d.tally.reset(d.loop.clock())
	d.fillAll(depth, int64(n))
	err := d.drain()
	d.tally.end = d.loop.clock()
	return d.tally, err
}

func (d *load) fillAll(depth int, quota int64) {
	d.asking, d.quota = true, quota
	now := d.loop.clock()
	for _, c := range d.conns {
		d.fill(c, depth, now)
	}
}

// fill sends up to n more requests in one write.
func (d *load) fill(c *conn, n int, now int64) {
	if d.quota >= 0 {
		n = int(min(int64(n), d.quota))
		d.quota -= int64(n)
	}
	if n == 0 {
		return
	}
	d.scratch = d.scratch[:0]
	for range n {
		start := len(d.scratch)
		d.scratch = d.src.next(d.scratch)
		c.take(d.scratch[start:])
	}
	c.sent.push(now, n)
	c.write(d.scratch)
}

// open sends for duration.
func (d *load) open(perSecond float64, duration time.Duration) (*tally, error) {
	d.begin(perSecond)
	if err := d.loop.wait(duration); err != nil {
		d.loop.stop(d)
		return nil, err
	}
	return d.end()
}

// begin sends from now on, until end.
func (d *load) begin(perSecond float64) {
	now := d.loop.clock()
	d.pace = newPacer(now, perSecond)
	d.tally = newTally()
	d.tally.reset(now)
	d.quota = -1
	d.loop.every(d)
}

// end stops sending, waits for the replies and reports on them all, because late ones
// count towards the latency. The rate is over the time of sending.
func (d *load) end() (*tally, error) {
	d.loop.stop(d)
	d.tally.end = d.loop.clock()
	return d.tally, d.drain()
}

// maxBurst bounds the requests of one tick, so that replies are read in between
// while a late load catches up.
const maxBurst = 64

func (d *load) tick(now int64) int64 {
	for range maxBurst {
		if d.quota == 0 {
			return math.MaxInt64
		}
		c := d.conns[d.turn%len(d.conns)]
		if c.inflight >= maxDepth-1 {
			break // the requests stay due, and are counted as late when they go
		}
		at, due := d.pace.take(now)
		if !due {
			break
		}
		d.turn++
		d.quota--
		d.scratch = d.src.next(d.scratch[:0])
		c.request(d.scratch, at)
	}
	return d.pace.next()
}

func (d *load) drain() error {
	return d.loop.until(drainLimit, func() bool {
		return !slices.ContainsFunc(d.conns, func(c *conn) bool { return c.inflight > 0 && !c.closed })
	})
}

func (d *load) reply(_ *conn, body []byte) { d.tally.judge(d.src, body) }

func (d *load) settle(c *conn, now int64) {
	n := c.answered
	d.tally.settle(c, now)
	if d.asking {
		d.fill(c, n, now)
	}
}

// pacer says when requests are due at a fixed rate. The times do not depend on when it
// is asked, so a load that falls behind counts as late and not as a lower rate.
type pacer struct {
	start    int64
	interval float64 // nanoseconds
	taken    int64
}

func newPacer(start int64, perSecond float64) pacer {
	return pacer{start: start, interval: float64(time.Second) / perSecond}
}

// next is when the next request is due.
func (p *pacer) next() int64 { return p.start + int64(float64(p.taken)*p.interval) }

// take gives the intended time of the next request if it is due at now.
func (p *pacer) take(now int64) (at int64, due bool) {
	if at = p.next(); at > now {
		return 0, false
	}
	p.taken++
	return at, true
}

// maxLatency is the largest latency that is told apart, in nanoseconds.
const maxLatency = int64(2 * time.Minute)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, maxLatency, 3) }

// record records n latencies of ns nanoseconds, or of maxLatency if that is less.
func record(h *hdrhistogram.Histogram, ns int64, n int) {
	_ = h.RecordValues(min(max(ns, 0), maxLatency), int64(n))
}

// tally is what a load has counted. Its times are the loop's.
type tally struct {
	start, end   int64
	done, failed int64
	err          error // the first reply that was not code 0, if any
	latency      *hdrhistogram.Histogram
}

func newTally() *tally { return &tally{latency: newHistogram()} }

// reset starts a new count at now.
func (t *tally) reset(now int64) {
	t.latency.Reset()
	*t = tally{start: now, latency: t.latency}
}

// judge counts a reply that is not code 0.
func (t *tally) judge(src source, body []byte) {
	if !replyOK(body) {
		if t.failed == 0 {
			t.err = replyError(src.expect(), body)
		}
		t.failed++
	}
}

// settle counts the replies on c since the last call.
func (t *tally) settle(c *conn, now int64) {
	for c.answered > 0 {
		at, n := c.sent.take(c.answered)
		if n == 0 {
			break
		}
		c.answered -= n
		t.done += int64(n)
		record(t.latency, now-at, n)
	}
}

func (t *tally) elapsed() time.Duration { return time.Duration(t.end - t.start) }

// perSecond is the rate of replies, 0 if no time has passed.
func (t *tally) perSecond() float64 {
	if t.end <= t.start {
		return 0
	}
	return float64(t.done) / t.elapsed().Seconds()
}

// merge adds what another loop counted in the same time.
func (t *tally) merge(o *tally) {
	t.done += o.done
	t.failed += o.failed
	t.latency.Merge(o.latency)
	if t.err == nil {
		t.err = o.err
	}
	// Loops have clocks of their own; only lengths can be compared.
	if o.elapsed() > t.elapsed() {
		t.end = t.start + int64(o.elapsed())
	}
}

// quantile is the q-quantile of samples by nearest rank, 0.5 being the median; 0 if there
// are none. It does not change samples.
func quantile(samples []float64, q float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(samples))
	i := int(q*float64(len(sorted)-1) + 0.5)
	return sorted[min(max(i, 0), len(sorted)-1)]
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
