package main

import "time"

// pacer says when requests are due at a fixed rate. The times do not depend on
// when it is asked, so a load that falls behind is measured as late, not as slow
// to ask.
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

// maxBurst bounds the requests of one tick, so that replies are read in between
// while a late load catches up.
const maxBurst = 64

// openLoop sends requests at a fixed rate whatever the answers do, over its
// connections in turn. Latency counts from the time a request was due.
type openLoop struct {
	loop  *loop
	conns []*conn
	src   source

	pace    pacer
	turn    int
	tally   *tally
	scratch []byte
}

// newOpenLoop takes the connections over; they must have nothing in flight.
func newOpenLoop(l *loop, conns []*conn, src source) *openLoop {
	d := &openLoop{loop: l, conns: conns, src: src, tally: newTally()}
	for _, c := range conns {
		c.to, c.expect = d, src.expect()
	}
	return d
}

// begin sends from now on, until end.
func (d *openLoop) begin(perSecond float64) {
	now := d.loop.clock()
	d.pace = newPacer(now, perSecond)
	d.tally = newTally()
	d.tally.reset(now)
	d.loop.every(d)
}

// end stops sending, waits for the replies and reports them all: what is late
// belongs to the latency. The rate is over the time of sending.
func (d *openLoop) end() (*tally, error) {
	d.loop.stop(d)
	d.tally.end = d.loop.clock()
	err := d.loop.until(drainLimit, func() bool {
		for _, c := range d.conns {
			if c.inflight > 0 && !c.closed {
				return false
			}
		}
		return true
	})
	return d.tally, err
}

// run sends for duration.
func (d *openLoop) run(perSecond float64, duration time.Duration) (*tally, error) {
	d.begin(perSecond)
	if err := d.loop.wait(duration); err != nil {
		d.loop.stop(d)
		return nil, err
	}
	return d.end()
}

func (d *openLoop) tick(now int64) int64 {
	for range maxBurst {
		c := d.conns[d.turn%len(d.conns)]
		if c.inflight >= maxDepth-1 {
			break // the requests stay due, and are counted as late when they go
		}
		at, due := d.pace.take(now)
		if !due {
			break
		}
		d.turn++
		d.scratch = d.src.next(d.scratch[:0])
		c.request(d.scratch, at)
	}
	return d.pace.next()
}

func (d *openLoop) reply(_ *conn, body []byte) { d.tally.judge(d.src, body) }

func (d *openLoop) push(*conn, []byte, int64) {}

func (d *openLoop) settle(c *conn, now int64) { d.tally.settle(c, now) }
