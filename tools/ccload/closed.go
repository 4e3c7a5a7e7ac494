package main

import "time"

// drainLimit is how long the replies to what is already sent may take.
const drainLimit = 30 * time.Second

// closedLoop keeps depth requests in flight on each of its connections: what is
// answered is replaced. The server sets the rate.
type closedLoop struct {
	loop  *loop
	conns []*conn
	depth int
	src   source

	asking  bool
	quota   int64 // requests still to be sent; below 0: no end
	tally   *tally
	scratch []byte
}

// newClosedLoop takes the connections over; they must have nothing in flight.
func newClosedLoop(l *loop, conns []*conn, depth int, src source) *closedLoop {
	d := &closedLoop{loop: l, conns: conns, depth: depth, src: src, tally: newTally()}
	for _, c := range conns {
		c.to, c.expect = d, src.expect()
	}
	return d
}

// run asks for d and reports what was answered in that time, after a warm-up of a
// tenth of it.
func (d *closedLoop) run(duration time.Duration) (*tally, error) {
	d.begin(-1)
	if err := d.loop.wait(min(duration/10, 200*time.Millisecond)); err != nil {
		return nil, err
	}
	d.tally.reset(d.loop.clock())
	err := d.loop.wait(duration)
	d.tally.end = d.loop.clock()
	result := d.tally
	d.tally = newTally()
	if err != nil {
		return nil, err
	}
	return result, d.drain()
}

// play sends n requests in all and reports them, from the first sent to the last
// answered.
func (d *closedLoop) play(n int) (*tally, error) {
	d.tally = newTally()
	d.tally.reset(d.loop.clock())
	d.begin(int64(n))
	err := d.drain()
	d.tally.end = d.loop.clock()
	return d.tally, err
}

func (d *closedLoop) begin(quota int64) {
	d.asking, d.quota = true, quota
	now := d.loop.clock()
	for _, c := range d.conns {
		d.fill(c, d.depth, now)
	}
}

func (d *closedLoop) drain() error {
	if d.quota < 0 {
		d.asking = false
	}
	return d.loop.until(drainLimit, func() bool {
		for _, c := range d.conns {
			if c.inflight > 0 {
				return false
			}
		}
		return true
	})
}

// fill sends up to n more requests in one write.
func (d *closedLoop) fill(c *conn, n int, now int64) {
	if !d.asking {
		return
	}
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

func (d *closedLoop) reply(_ *conn, body []byte) { d.tally.judge(d.src, body) }

func (d *closedLoop) push(*conn, []byte, int64) {}

func (d *closedLoop) settle(c *conn, now int64) {
	n := c.answered
	d.tally.settle(c, now)
	d.fill(c, n, now)
}
