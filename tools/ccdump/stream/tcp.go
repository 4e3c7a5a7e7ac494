package stream

import (
	"bytes"
	"slices"
	"time"

	"confcenter/tools/ccdump/capture"
)

// order is one end's place in TCP's sequence numbers.
type order struct {
	started bool
	begun   bool   // the SYN with isn was seen
	isn     uint32 // initial sequence number
	next    uint32 // of the byte that comes next
	moved   bool   // bytes of it were seen
	acked   uint32 // what the other end has received
	fin     bool
	last    uint32 // sequence number of the FIN

	// What came too early, by sequence number: after bytes that are missing, or in
	// answer to bytes of the other end that are.
	pieces     []piece
	pieceBytes int

	// Unless 0, after how many segments it was found that bytes before the pieces were
	// received by the other end but not captured, and when.
	missing      int64
	missingSince int64
}

// piece is payload that waits.
type piece struct {
	at       int64
	seq, ack uint32
	data     []byte
	missing  int
}

func (p *piece) end() uint32 { return p.seq + uint32(len(p.data)+p.missing) }

const (
	// Bytes are given up when the receiver has acknowledged them, so that they will not
	// be sent again, and this many segments or this much time has passed since:
	// captures on several queues are slightly out of order.
	lostAfter   = 3
	lostAfterNS = int64(10 * time.Millisecond)
	// gapPatience is after how long they are given up in any case.
	gapPatience = int64(2 * time.Second)
	maxPieces   = 512
	// stragglerTime is how long after its end segments still belong to a connection.
	stragglerTime = int64(time.Second)

	reasonLost   = "lost: the capture does not have these bytes"
	reasonCut    = "the capture has only the beginning of the packet (snap length)"
	reasonJoined = "the capture begins in the middle of the connection"
)

// before reports whether sequence number a comes before b.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// Segment takes the next segment of a capture, and reports whether it uses one of the ports.
func (a *Assembler) Segment(s *capture.Segment) bool {
	a.stats.Segments++
	if len(a.cfg.Ports) > 0 && !slices.Contains(a.cfg.Ports, s.Dst.Port()) && !slices.Contains(a.cfg.Ports, s.Src.Port()) {
		a.stats.Ignored++
		return false
	}
	a.at = max(a.at, s.At)
	c, end := a.find(s)
	if c == nil {
		a.stats.Ignored++
		return true
	}
	a.ring.MoveToBack(c.place)
	o := &c.ends[end].order
	if s.Flags.Has(capture.ACK) {
		c.ends[1-end].order.acknowledge(s.Ack)
	}
	if len(s.Payload) > 0 || s.Missing > 0 {
		c.segments++
		a.payload(c, end, s)
	}
	if s.Flags.Has(capture.FIN) && o.started {
		c.endedBy(end)
		o.fin, o.last = true, s.Seq+uint32(len(s.Payload)+s.Missing)
	}
	a.patience(c, s.At)
	switch {
	case s.Flags.Has(capture.RST):
		c.endedBy(end)
		a.finish(c, s.At, Reset)
	case c.over():
		a.finish(c, s.At, Finished)
	}
	return true
}

// over reports whether both ends have sent everything, as far as is known.
func (c *Conn) over() bool {
	for i := range c.ends {
		o := &c.ends[i].order
		if !o.fin || (before(o.next, o.last) && before(o.acked, o.last)) {
			return false
		}
	}
	return true
}

// find returns the connection of s and the end that sent it, or nil if s is useless.
func (a *Assembler) find(s *capture.Segment) (*Conn, uint8) {
	key, end := pairOf(s.Src, s.Dst)
	c := a.conns[key]
	if s.Flags.Has(capture.SYN) && !s.Flags.Has(capture.RST) {
		return a.begin(c, key, end, s), end
	}
	empty := len(s.Payload) == 0 && s.Missing == 0
	if c != nil && c.closed {
		if empty || s.At-c.closedAt < stragglerTime {
			return nil, end
		}
		a.forget(c, s.At, Replaced)
		c = nil
	}
	if c == nil && !empty {
		c = a.open(key, a.cfg.guessClient(key), false, true, s.At)
	}
	return c, end
}

// guessClient assumes that the server is the end with a server's port, or else with the
// smaller port.
func (c *Config) guessClient(key pair) uint8 {
	if len(c.Ports) > 0 && slices.Contains(c.Ports, key[1].Port()) && !slices.Contains(c.Ports, key[0].Port()) {
		return 0
	}
	return 1
}

// begin takes a SYN of either side.
func (a *Assembler) begin(c *Conn, key pair, end uint8, s *capture.Segment) *Conn {
	answer := s.Flags.Has(capture.ACK)
	if c != nil {
		o := &c.ends[end].order
		switch {
		case !c.closed && !o.started, !c.closed && o.begun && o.isn == s.Seq:
			// The second half of the handshake, or a repetition.
		case answer:
			return nil
		case c.closed && o.begun && o.isn == s.Seq && s.At-c.closedAt < stragglerTime:
			return nil // seen again: on another interface, say
		default:
			a.forget(c, s.At, Replaced)
			c = nil
		}
	}
	if c == nil {
		client := end
		if answer {
			client = 1 - end
		}
		c = a.open(key, client, true, false, s.At)
	}
	if o := &c.ends[end].order; !o.started {
		o.begun, o.isn = true, s.Seq
		o.start(s.Seq + 1)
	}
	if o := &c.ends[1-end].order; answer && !o.started {
		o.start(s.Ack)
	}
	return c
}

// start has the byte of that number come next.
func (o *order) start(next uint32) { o.started, o.next, o.acked = true, next, next }

// acknowledge records that the bytes of an end have been received up to ack.
func (o *order) acknowledge(ack uint32) {
	if o.started && before(o.acked, ack) {
		o.acked = ack
	}
}

// lacks reports whether bytes before upTo, a sequence number that the other end has
// received, were not captured.
func (o *order) lacks(upTo uint32) bool {
	switch {
	case len(o.pieces) > 0:
	case !o.fin:
		upTo-- // of a FIN that was not captured
	case before(o.last, upTo):
		upTo = o.last
	}
	return o.started && before(o.next, upTo)
}

// gap is how many bytes are missing before the first piece, or else before what has been
// acknowledged or the end.
func (o *order) gap() uint32 {
	switch {
	case len(o.pieces) > 0:
		if before(o.next, o.pieces[0].seq) {
			return o.pieces[0].seq - o.next
		}
	case o.fin && before(o.next, o.last):
		return o.last - o.next
	case !o.fin && o.lacks(o.acked):
		return o.acked - o.next
	}
	return 0
}

// payload delivers a segment's bytes, or keeps them if others come first.
func (a *Assembler) payload(c *Conn, end uint8, s *capture.Segment) {
	o := &c.ends[end].order
	p := piece{at: s.At, seq: s.Seq, ack: s.Ack, data: s.Payload, missing: s.Missing}
	if s.Flags.Has(capture.SYN) {
		p.seq++
	}
	if !s.Flags.Has(capture.ACK) {
		p.ack = c.ends[1-end].order.next
	}
	if !o.started {
		o.start(p.seq)
		if !isTLS(p.data) {
			c.ends[end].lose(reasonJoined, false)
		}
	}
	switch {
	case !before(o.next, p.end()):
		a.stats.Retransmits++
	case before(o.next, p.seq) || c.early(end, &p):
		a.wait(c, end, p)
	default:
		if p.seq != o.next {
			a.stats.Retransmits++
		}
		a.deliver(c, end, p)
		a.drain(c)
	}
}

// early reports whether p was sent after bytes of the other end that are still missing:
// an answer must not overtake its request.
func (c *Conn) early(end uint8, p *piece) bool {
	other := &c.ends[1-end].order
	// A direction that was never seen may not have been captured at all.
	return (other.moved || len(other.pieces) > 0) && other.lacks(p.ack)
}

// deliver decodes the new part of p, which does not begin after what comes next.
func (a *Assembler) deliver(c *Conn, end uint8, p piece) {
	o := &c.ends[end].order
	known := int(o.next - p.seq)
	if known < len(p.data) {
		p.data = p.data[known:]
	} else {
		p.data, p.missing = nil, p.missing-(known-len(p.data))
	}
	o.next += uint32(len(p.data) + p.missing)
	o.moved, o.missing = true, 0
	a.take(c, end, p.at, p.data)
	a.lose(c, end, p.at, int64(p.missing), reasonCut)
}

// drain delivers the waiting pieces whose turn has come, in order of arrival.
func (a *Assembler) drain(c *Conn) {
	for {
		end, found := c.oldest(func(end uint8, o *order) bool { return !before(o.next, o.pieces[0].seq) && !c.early(end, &o.pieces[0]) })
		if !found {
			return
		}
		a.deliverFirst(c, end)
	}
}

// oldest finds the end whose first piece has waited longest, among those that fit.
func (c *Conn) oldest(fits func(end uint8, o *order) bool) (of uint8, found bool) {
	at := int64(0)
	for i := range c.ends {
		o := &c.ends[i].order
		if len(o.pieces) > 0 && (!found || o.pieces[0].at < at) && fits(uint8(i), o) {
			of, at, found = uint8(i), o.pieces[0].at, true
		}
	}
	return of, found
}

// deliverFirst delivers the first piece of an end, whose turn it is.
func (a *Assembler) deliverFirst(c *Conn, end uint8) {
	o := &c.ends[end].order
	p := o.pieces[0]
	o.pieces[0] = piece{}
	if o.pieces = o.pieces[1:]; len(o.pieces) == 0 {
		o.pieces = nil
	}
	o.pieceBytes -= cap(p.data)
	a.held -= cap(p.data)
	if before(o.next, p.end()) {
		a.deliver(c, end, p)
	}
}

// wait keeps p until the bytes before it have come.
func (a *Assembler) wait(c *Conn, end uint8, p piece) {
	o := &c.ends[end].order
	i, twice := slices.BinarySearchFunc(o.pieces, p.seq, func(q piece, seq uint32) int { return int(int32(q.seq - seq)) })
	if twice && !before(o.pieces[i].end(), p.end()) {
		a.stats.Retransmits++
		return
	}
	if before(o.next, p.seq) {
		a.stats.OutOfOrder++
	}
	p.data = bytes.Clone(p.data)
	a.held += cap(p.data)
	o.pieceBytes += cap(p.data)
	o.pieces = slices.Insert(o.pieces, i, p)
	if a.held > a.cfg.Memory {
		a.shrink(c)
	}
}

// patience gives up on bytes that will not come any more.
func (a *Assembler) patience(c *Conn, at int64) {
	for end := range c.ends {
		for a.overdue(c, uint8(end), at) {
			a.giveUp(c, uint8(end), at)
		}
	}
}

// overdue reports whether an end has waited long enough.
func (a *Assembler) overdue(c *Conn, end uint8, at int64) bool {
	o := &c.ends[end].order
	n := len(o.pieces)
	if n > 0 && (at-o.pieces[0].at >= gapPatience || n > maxPieces || o.pieceBytes > a.cfg.Memory/8) {
		return true
	}
	gap := o.gap()
	if gap == 0 || before(o.acked, o.next+gap) {
		o.missing = 0
		return false
	}
	if o.missing == 0 {
		o.missing, o.missingSince = c.segments, at
	}
	return n >= lostAfter || c.segments-o.missing >= lostAfter || at-o.missingSince >= lostAfterNS
}

// giveUp declares the bytes before the first piece lost.
func (a *Assembler) giveUp(c *Conn, end uint8, at int64) {
	o := &c.ends[end].order
	waiting, gap := len(o.pieces), o.gap()
	o.next += gap
	o.missing = 0
	if waiting > 0 {
		at = o.pieces[0].at
	}
	a.lose(c, end, at, int64(gap), reasonLost)
	a.drain(c)
	if waiting > 0 && waiting == len(o.pieces) { // for bytes of the other end, which will not come either
		a.deliverFirst(c, end)
		a.drain(c)
	}
}

// giveUpAll stops waiting for anything.
func (a *Assembler) giveUpAll(c *Conn, at int64) {
	for {
		end, found := c.oldest(func(uint8, *order) bool { return true })
		if !found {
			break
		}
		a.giveUp(c, end, at)
	}
	for end := range c.ends {
		if c.ends[end].order.gap() > 0 {
			a.giveUp(c, uint8(end), at)
		}
	}
}
