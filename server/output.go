package server

import "slices"

// transport is the socket side of a session. All methods are called on the loop;
// after Close none is called again.
type transport interface {
	// TrySend gives the socket as much of p as it takes and returns how much
	// that was. It must not be called while Buffered is not 0. It may find the
	// connection broken and call session.lost before it returns.
	TrySend(p []byte) int
	// Send takes all of p: what the socket does not take at once is copied, and
	// written as soon as the peer reads. It may call session.lost like TrySend.
	Send(p []byte)
	// Buffered is how much of what Send took the socket has not taken yet.
	Buffered() int
	// CloseWrite tells the peer that nothing more will come.
	CloseWrite()
	// Close ends the connection; session.lost is called before it returns.
	Close()
}

// Sizes of what is handed to a transport, in bytes.
const (
	// wholeFrame is the size up to which a frame leaves in one write, header and
	// body together, and up to which bodies are copied rather than shared.
	wholeFrame = 64 << 10
	// armSize is handed over by Send when the socket is full, so that the event
	// loop watches for the peer to read on; the rest stays a reference.
	armSize = 4 << 10
)

// piece is a part of the output that waits. Frames are one or more pieces.
type piece struct {
	b      []byte
	shared bool // b is the store's; otherwise it is the connection's own
	// push names what the piece, a whole frame, tells of: a newer push for the
	// same takes its place.
	push pushKey
}

// pieceCost is what a piece of our own takes beside its bytes.
const pieceCost = 96

// pushKey identifies pushes that replace each other. The zero value replaces
// nothing.
type pushKey struct{ file, path string }

// output is what a connection's peer has not read yet, as far as the transport has
// not taken it.
type output struct {
	c      *conn // set at open
	pieces []piece
	head   int // first piece not sent
	off    int // bytes of it that are
	bytes  int // in all pieces, less what is sent
	// progress is the unix ns of the last sign that the peer reads.
	progress int64
}

func (o *output) empty() bool { return o.head == len(o.pieces) }

// sendOwn sends whole frames that lie in a buffer the caller will use again.
func (o *output) sendOwn(p []byte) {
	o.c.first()
	if o.c.state == dead {
		return
	}
	if o.empty() && o.c.t.Buffered() == 0 {
		n := o.c.t.TrySend(p)
		if o.c.state == dead || n == len(p) {
			return
		}
		p = p[n+o.arm(p[n:]):]
	}
	if len(p) > 0 {
		o.enqueue(piece{b: slices.Clone(p)})
	}
	o.checkBlocked()
}

// sendFrame sends a frame that is the connection's from now on.
func (o *output) sendFrame(frame []byte) {
	if o.c.state == dead {
		return
	}
	o.enqueue(piece{b: frame})
	o.pump()
}

// arm hands the beginning of what a full socket did not take to the transport,
// which makes the event loop watch for the peer to read on.
func (o *output) arm(rest []byte) int {
	rest = rest[:min(len(rest), armSize)]
	o.c.t.Send(rest)
	return len(rest)
}

// sendPush sends a push frame, or lets it take the place of an older one for the
// same file that the peer has not been given yet.
func (o *output) sendPush(frame []byte, key pushKey) {
	o.c.loop.srv.count.Pushes.Add(1)
	if o.empty() {
		o.sendOwn(frame)
		return
	}
	for i := o.head; i < len(o.pieces); i++ {
		p := &o.pieces[i]
		if p.push != key || (i == o.head && o.off > 0) {
			continue
		}
		o.c.loop.srv.count.Coalesced.Add(1)
		o.bytes += len(frame) - len(p.b)
		o.c.loop.srv.memory.add(len(frame) - len(p.b))
		p.b = slices.Clone(frame)
		return
	}
	o.enqueue(piece{b: slices.Clone(frame), push: key})
}

// sendShared sends one frame whose middle, or end, belongs to the store and is not
// copied: it must never change. head holds the header and what precedes body.
func (o *output) sendShared(head, body []byte, tail string) {
	if o.c.state == dead {
		return
	}
	o.c.flushReplies()
	o.enqueue(piece{b: slices.Clone(head)})
	o.enqueue(piece{b: body, shared: true})
	if tail != "" {
		o.enqueue(piece{b: []byte(tail)})
	}
	o.pump()
}

// enqueue appends p to the output and holds the connection to its limits.
func (o *output) enqueue(p piece) {
	o.c.first()
	if o.c.state == dead {
		return
	}
	if o.empty() {
		o.progressed()
	}
	if p.shared {
		o.c.loop.relief.retain(p.b)
	} else {
		o.c.loop.srv.memory.add(len(p.b) + pieceCost)
	}
	if o.head > len(o.pieces)/2 {
		// A peer that reads, but never all, would make the sent part grow for ever.
		n := copy(o.pieces, o.pieces[o.head:])
		clear(o.pieces[n:])
		o.pieces, o.head = o.pieces[:n], 0
	}
	o.pieces = append(o.pieces, p)
	o.bytes += len(p.b)
	if len(o.pieces)-o.head > o.c.limits().Frames {
		o.c.loop.srv.count.OutputLimit.Add(1)
		o.c.abort("too many frames wait for a peer that does not read")
		return
	}
	o.c.loop.relief.relieve(o.c)
}

// pump gives the transport what it takes now, of long output only as much as the
// loop has left for this turn; the rest is the sweep's.
func (o *output) pump() {
	l := o.c.loop
	for o.c.state != dead && !o.empty() && o.c.t.Buffered() == 0 {
		if o.bytes > wholeFrame && l.sweep.bulk <= 0 {
			l.sweep.soon()
			break
		}
		o.progressed()
		next := o.gather()
		next = next[:min(len(next), bulkTurn)]
		n := o.c.t.TrySend(next)
		if o.c.state == dead {
			return
		}
		if n < len(next) {
			n += o.arm(next[n:])
			if o.c.state == dead {
				return // the connection broke between the two writes
			}
		}
		l.sweep.bulk -= n
		o.advance(n)
	}
	if o.c.state != dead {
		o.checkBlocked()
	}
}

// gather is the beginning of the output as one slice: a long piece as it is,
// short ones put together so that a frame leaves in one write.
func (o *output) gather() []byte {
	first := o.pieces[o.head].b[o.off:]
	if len(first) >= wholeFrame {
		return first
	}
	b := &o.c.loop.buffer
	b.scratch = append(b.scratch[:0], first...)
	for _, p := range o.pieces[o.head+1:] {
		room := wholeFrame - len(b.scratch)
		if room <= 0 {
			break
		}
		b.scratch = append(b.scratch, p.b[:min(room, len(p.b))]...)
	}
	return b.scratch
}

// advance drops n bytes from the front of the output.
func (o *output) advance(n int) {
	o.bytes -= n
	for n > 0 {
		p := &o.pieces[o.head]
		left := len(p.b) - o.off
		if n < left {
			o.off += n
			return
		}
		n -= left
		o.drop(p)
		o.head++
		o.off = 0
	}
	if o.empty() {
		o.pieces, o.head = nil, 0
	}
}

func (o *output) drop(p *piece) {
	if p.shared {
		o.c.loop.relief.release(p.b)
	} else {
		o.c.loop.srv.memory.sub(len(p.b) + pieceCost)
	}
	*p = piece{}
}

// discard forgets all that waits.
func (o *output) discard() {
	for i := o.head; i < len(o.pieces); i++ {
		o.drop(&o.pieces[i])
	}
	*o = output{c: o.c}
}

// owing is how much output the peer has still to read, in bytes, as far as this
// process holds it.
func (o *output) owing() int { return o.bytes + o.c.t.Buffered() }

// progressed notes that the peer has read something.
func (o *output) progressed() { o.progress = o.c.loop.now }

// checkBlocked keeps the connection on its loop's list of blocked ones for as long
// as it owes output.
func (o *output) checkBlocked() {
	if o.c.state != dead && o.owing() > 0 && o.c.on.join(onBlocked) {
		o.progressed()
		o.c.loop.sweep.add(o.c)
	}
}

// pumpAgain is pump for a connection that is known to be blocked.
func (o *output) pumpAgain() {
	c, before := o.c, o.owing()
	o.pump()
	if c.state == dead {
		return
	}
	if o.owing() < before {
		o.progressed()
		c.loop.sweep.moved.Store(true)
	}
	if owing := o.owing(); owing > 0 && owing < c.limits().Pending {
		c.resume()
		c.user.readOn()
	}
}
