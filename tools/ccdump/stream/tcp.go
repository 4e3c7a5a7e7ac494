package stream

import (
	"slices"
	"time"

	"confcenter/tools/ccdump/capture"
)

// order is where one end stands in TCP's sequence numbers.
type order struct {
	started bool
	begun   bool   // the SYN with isn was seen
	isn     uint32 // initial sequence number
	next    uint32 // of the byte that comes next
	acked   uint32 // what the other end has received
	hasAck  bool
	fin     bool
	last    uint32 // sequence number of the FIN

	pieces     []piece // what came too early, by sequence number
	pieceBytes int
	gapAt      int64 // when the first of them came
}

// piece is payload that waits for what stands before it.
type piece struct {
	seq     uint32
	data    []byte
	missing int
}

func (p *piece) end() uint32 { return p.seq + uint32(len(p.data)+p.missing) }

const (
	// A gap is given up when the receiver has acknowledged it, so that nobody will
	// send it again, and this many segments have come since: captures on several
	// queues are not quite in order.
	lostAfter = 3
	// gapPatience is after how long it is given up in any case.
	gapPatience = int64(2 * time.Second)
	maxPieces   = 512
	// stragglerTime is how long after its end a connection's segments still belong
	// to it.
	stragglerTime = int64(time.Second)

	reasonLost   = "lost: the capture does not have these bytes"
	reasonCut    = "the capture has only the beginning of the packet (snap length)"
	reasonJoined = "the capture begins in the middle of the connection"
)

// before says that sequence number a comes before b.
func before(a, b uint32) bool { return int32(a-b) < 0 }

// Segment takes the next segment of a capture.
func (a *Assembler) Segment(s *capture.Segment) {
	a.stats.Segments++
	if !a.watches(s) {
		a.stats.Ignored++
		return
	}
	a.at = max(a.at, s.At)
	c, end := a.find(s)
	if c == nil {
		a.stats.Ignored++
		return
	}
	a.touch(c)
	o := &c.ends[end].order
	if s.Flags.Has(capture.ACK) {
		a.acknowledge(c, 1-end, s.Ack, s.At)
	}
	if len(s.Payload) > 0 || s.Missing > 0 {
		a.payload(c, end, s)
	}
	if s.Flags.Has(capture.FIN) && o.started {
		c.endedBy(end)
		o.fin, o.last = true, s.Seq+uint32(len(s.Payload)+s.Missing)
	}
	switch {
	case s.Flags.Has(capture.RST):
		c.endedBy(end)
		a.finish(c, s.At, Reset)
	case c.over():
		a.finish(c, s.At, Finished)
	}
}

// over says that both ends have sent all they had, as far as can be known.
func (c *Conn) over() bool {
	for i := range c.ends {
		o := &c.ends[i].order
		if !o.fin || (before(o.next, o.last) && (!o.hasAck || before(o.acked, o.last))) {
			return false
		}
	}
	return true
}

// find returns the connection of s and the end that sent it; nil if s is of no use.
func (a *Assembler) find(s *capture.Segment) (*Conn, uint8) {
	key, end := pairOf(&s.Src, &s.Dst)
	c := a.last
	if c == nil || c.key != key {
		if c = a.conns[key]; c != nil {
			a.last = c
		}
	}
	if s.Flags.Has(capture.SYN) && !s.Flags.Has(capture.RST) {
		return a.begin(c, key, end, s), end
	}
	empty := len(s.Payload) == 0 && s.Missing == 0
	if c != nil && c.closed {
		if empty || s.At-c.closedAt < stragglerTime {
			return nil, end
		}
		a.remove(c)
		c = nil
	}
	if c == nil && !empty {
		c = a.open(key, a.guessClient(key), false, true, s.At)
	}
	return c, end
}

// guessClient takes the end with the server's port, or else with the smaller one, for
// the server.
func (a *Assembler) guessClient(key pair) uint8 {
	if len(a.cfg.Ports) > 0 && slices.Contains(a.cfg.Ports, key.ends[1].Port) && !slices.Contains(a.cfg.Ports, key.ends[0].Port) {
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
			// The second half of the greeting, or a repetition.
		case answer:
			return nil
		case c.closed && o.begun && o.isn == s.Seq && s.At-c.closedAt < stragglerTime:
			return nil // seen again: on another interface, say
		default:
			a.finish(c, s.At, Replaced)
			a.remove(c)
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
		o.started, o.begun, o.isn, o.next = true, true, s.Seq, s.Seq+1
	}
	if o := &c.ends[1-end].order; answer && !o.started {
		o.started, o.next = true, s.Ack
	}
	return c
}

// acknowledge notes that the bytes of an end have been received up to ack.
func (a *Assembler) acknowledge(c *Conn, end uint8, ack uint32, at int64) {
	o := &c.ends[end].order
	if !o.started {
		return
	}
	if !o.hasAck || before(o.acked, ack) {
		o.acked, o.hasAck = ack, true
	}
	if len(o.pieces) > 0 {
		a.patience(c, end, at)
	}
}

// payload takes a segment's bytes, or keeps them if others come first.
func (a *Assembler) payload(c *Conn, end uint8, s *capture.Segment) {
	o := &c.ends[end].order
	seq := s.Seq
	if s.Flags.Has(capture.SYN) {
		seq++
	}
	if !o.started {
		o.started, o.next = true, seq
		c.ends[end].lose(reasonJoined, false)
	}
	p := piece{seq: seq, data: s.Payload, missing: s.Missing}
	switch {
	case !before(o.next, p.end()):
		a.stats.Retransmits++
	case before(o.next, seq):
		a.wait(c, end, p, s.At)
	default:
		if seq != o.next {
			a.stats.Retransmits++
		}
		a.deliver(c, end, p, s.At)
		a.drain(c, end, s.At)
	}
}

// deliver decodes the part of p that is new; p does not begin behind what comes next.
func (a *Assembler) deliver(c *Conn, end uint8, p piece, at int64) {
	o := &c.ends[end].order
	known := int(o.next - p.seq)
	if known < len(p.data) {
		p.data = p.data[known:]
	} else {
		p.data, p.missing = nil, p.missing-(known-len(p.data))
	}
	o.next += uint32(len(p.data) + p.missing)
	a.take(c, end, at, p.data)
	a.lose(c, end, at, int64(p.missing), reasonCut)
}

// drain delivers what has waited and is next now.
func (a *Assembler) drain(c *Conn, end uint8, at int64) {
	o := &c.ends[end].order
	n := 0
	for ; n < len(o.pieces) && !before(o.next, o.pieces[n].seq); n++ {
		p := o.pieces[n]
		o.pieceBytes -= cap(p.data)
		a.held -= cap(p.data)
		if before(o.next, p.end()) {
			a.deliver(c, end, p, at)
		}
		a.release(p.data)
	}
	if n > 0 {
		o.pieces = slices.Delete(o.pieces, 0, n)
		o.gapAt = at
	}
	if len(o.pieces) == 0 {
		o.pieces = nil
	}
}

// wait keeps p until what stands before it has come.
func (a *Assembler) wait(c *Conn, end uint8, p piece, at int64) {
	o := &c.ends[end].order
	i, twice := slices.BinarySearchFunc(o.pieces, p.seq, func(q piece, seq uint32) int { return int(int32(q.seq - seq)) })
	if twice && !before(o.pieces[i].end(), p.end()) {
		a.stats.Retransmits++
		return
	}
	a.stats.OutOfOrder++
	if len(o.pieces) == 0 {
		o.gapAt = at
	}
	p.data = append(a.buffer(len(p.data)), p.data...)
	a.held += cap(p.data)
	o.pieceBytes += cap(p.data)
	o.pieces = slices.Insert(o.pieces, i, p)
	a.patience(c, end, at)
	if a.held > a.cfg.Memory {
		a.shrink(c)
	}
}

// patience gives up gaps that nothing will fill any more.
func (a *Assembler) patience(c *Conn, end uint8, at int64) {
	o := &c.ends[end].order
	for len(o.pieces) > 0 {
		acked := o.hasAck && !before(o.acked, o.pieces[0].seq) && len(o.pieces) >= lostAfter
		if !acked && at-o.gapAt < gapPatience && len(o.pieces) <= maxPieces && o.pieceBytes <= a.cfg.Memory/8 {
			return
		}
		a.giveUp(c, end, at)
	}
}

// giveUp takes the bytes before the first piece for lost.
func (a *Assembler) giveUp(c *Conn, end uint8, at int64) {
	o := &c.ends[end].order
	n := o.pieces[0].seq - o.next
	o.next = o.pieces[0].seq
	a.lose(c, end, at, int64(n), reasonLost)
	a.drain(c, end, at)
}

func (a *Assembler) giveUpAll(c *Conn, end uint8, at int64) {
	for len(c.ends[end].order.pieces) > 0 {
		a.giveUp(c, end, at)
	}
}
