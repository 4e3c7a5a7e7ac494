package loop

import (
	"slices"

	"confcenter/internal/memory"
)

// Transport is the socket side of a connection. All methods are called on the loop;
// after Close none is called again.
type Transport interface {
	// TrySend writes as much of p as the socket accepts and returns how much that was, or a
	// little more, which is Buffered then. It must not be called while Buffered is not 0. If
	// the connection is broken it may call Conn.Lost before it returns.
	TrySend(p []byte) int
	// Send writes all of p: what the socket does not accept at once is copied, and written
	// when the peer reads. It may call Conn.Lost like TrySend.
	Send(p []byte)
	// Buffered is how much the socket has not accepted yet of what the transport has. One that
	// is not told when a peer reads asks the socket again.
	Buffered() int
	// Listen(false) stops the reading of the socket, so that the kernel makes a peer wait
	// that sends on; what has been read already still arrives. While the transport does
	// not read, Send must not be called.
	Listen(on bool)
	// CloseWrite tells the peer that nothing more will come.
	CloseWrite()
	// Close ends the connection; Conn.Lost is called before it returns.
	Close()
	// Reset is Close for a peer that is owed nothing: the kernel forgets the connection
	// at once.
	Reset()
}

// Sizes of what is passed to a transport, in bytes.
const (
	// WholeFrame is the size below which a frame leaves in one write and its body is copied
	// rather than shared.
	WholeFrame = 64 << 10
	// armSize is passed to Send when the socket is full, so that the event loop watches
	// for the peer to read; the rest stays a reference.
	armSize = 4 << 10
)

// piece is a part of the waiting output. A frame is one or more pieces.
type piece struct {
	b      []byte
	shared bool // b is the store's; otherwise it is the connection's own
	// push names the subject of a push, which is a whole frame: a newer push about the same
	// replaces it.
	push PushKey
}

const pieceSize = 64 // of a piece in Output.pieces, in bytes

// PushKey identifies pushes that replace each other. The zero value replaces nothing.
type PushKey struct{ File, Path string }

// Output is the waiting output of a connection that the transport does not have yet.
type Output struct {
	c      *Conn // set at open
	pieces []piece
	head   int // first piece not sent
	off    int // bytes of it that are
	bytes  int // in all pieces, less what is sent
	held   int // what the transport was seen to hold, as counted
	// progress is when the peer was last seen to read, in unix ns.
	progress int64
}

func (o *Output) empty() bool { return o.head == len(o.pieces) }

// SendOwn sends whole frames from a buffer that the caller will reuse.
func (o *Output) SendOwn(p []byte) {
	o.c.first()
	if o.c.state == dead {
		return
	}
	if o.empty() && o.atTransport() == 0 {
		n := o.c.t.TrySend(p)
		if o.c.state == dead {
			return
		}
		if p = p[n:]; len(p) > 0 {
			p = p[o.arm(p):]
		}
	}
	if len(p) > 0 {
		o.enqueue(piece{b: slices.Clone(p)})
	}
	o.checkBlocked()
}

// SendFrame sends a frame and takes ownership of it.
func (o *Output) SendFrame(frame []byte) {
	if o.c.state == dead {
		return
	}
	o.enqueue(piece{b: frame})
	o.pump()
}

// arm passes the beginning of what a full socket did not accept to the transport, which
// makes the event loop watch for the peer to read. A transport that does not listen gets
// nothing, because it would begin to listen again afterwards: then the sweep asks the
// socket.
func (o *Output) arm(rest []byte) int {
	if o.c.in.stopped {
		return 0
	}
	rest = rest[:min(len(rest), armSize)]
	o.c.t.Send(rest)
	if o.c.state != dead {
		o.atTransport()
	}
	return len(rest)
}

// atTransport is how much the transport still holds, and counts it.
func (o *Output) atTransport() int {
	n, held := o.c.t.Buffered(), 0
	if n > 0 {
		held = n + memory.VersionCost // the transport's own
	}
	if held != o.held {
		o.count(held - o.held)
		o.held = held
	}
	return n
}

// count counts memory, also that of capacity which is not used.
func (o *Output) count(bytes int) { o.c.Loop.Group.Memory.Add(int64(bytes)) }

// SendPush sends a push frame, or lets it replace an older one for the same subject that
// still waits.
func (o *Output) SendPush(frame []byte, key PushKey) {
	o.c.Loop.Group.Count.Pushes.Add(1)
	if o.empty() {
		o.SendOwn(frame)
		return
	}
	for i := o.head; i < len(o.pieces); i++ {
		p := &o.pieces[i]
		if p.push != key || (i == o.head && o.off > 0) {
			continue
		}
		o.c.Loop.Group.Count.Coalesced.Add(1)
		frame = slices.Clone(frame)
		o.bytes += len(frame) - len(p.b)
		o.count(cap(frame) - cap(p.b))
		p.b = frame
		return
	}
	o.enqueue(piece{b: slices.Clone(frame), push: key})
}

// SendShared sends a frame whose body belongs to the store and is not copied: it must never
// change. head has the header and what precedes body.
func (o *Output) SendShared(head, body []byte, tail string) {
	if o.c.state == dead {
		return
	}
	o.c.FlushReplies()
	o.enqueue(piece{b: slices.Clone(head)})
	o.enqueue(piece{b: body, shared: true})
	if tail != "" {
		o.enqueue(piece{b: []byte(tail)})
	}
	o.pump()
}

// enqueue appends p to the output and enforces the limits.
func (o *Output) enqueue(p piece) {
	o.c.first()
	if o.c.state == dead {
		return
	}
	if o.empty() {
		o.progressed()
	}
	if p.shared {
		o.c.Loop.relief.retain(p.b)
	} else {
		o.count(cap(p.b))
	}
	if o.head > len(o.pieces)/2 {
		// If a peer reads, but never everything, the sent part would grow forever.
		n := copy(o.pieces, o.pieces[o.head:])
		clear(o.pieces[n:])
		o.pieces, o.head = o.pieces[:n], 0
	}
	before := cap(o.pieces)
	if o.pieces == nil {
		o.pieces = make([]piece, 0, 4)
	}
	o.pieces = append(o.pieces, p)
	o.count((cap(o.pieces) - before) * pieceSize)
	o.bytes += len(p.b)
	if len(o.pieces)-o.head > o.c.Limits().Frames {
		o.c.Loop.Group.Count.OutputLimit.Add(1)
		o.c.Abort("too many frames wait for a peer that does not read")
		return
	}
	o.c.Loop.relief.relieve(o.c)
}

// pump gives the transport what it accepts now; of long output only as much as the loop
// may still write in this turn, and the sweep does the rest.
func (o *Output) pump() {
	l := o.c.Loop
	for o.c.state != dead && !o.empty() && o.atTransport() == 0 {
		if o.bytes > WholeFrame && l.sweep.bulk <= 0 {
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
		full := n < len(next)
		if full {
			n += o.arm(next[n:])
			if o.c.state == dead {
				return // the connection broke between the two writes
			}
		}
		l.sweep.bulk -= n
		o.advance(n)
		if full && o.c.in.stopped {
			break // nothing is at the transport, but the socket is full
		}
	}
	if o.c.state != dead {
		o.checkBlocked()
	}
}

// gather returns the beginning of the output as one slice: a long piece as it is, short
// ones joined so that a frame leaves in one write.
func (o *Output) gather() []byte {
	first := o.pieces[o.head].b[o.off:]
	if len(first) >= WholeFrame {
		return first
	}
	b := &o.c.Loop.buffer
	b.scratch = append(b.scratch[:0], first...)
	for _, p := range o.pieces[o.head+1:] {
		room := WholeFrame - len(b.scratch)
		if room <= 0 {
			break
		}
		b.scratch = append(b.scratch, p.b[:min(room, len(p.b))]...)
	}
	return b.scratch
}

// advance drops n bytes from the front of the output.
func (o *Output) advance(n int) {
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
		o.count(-cap(o.pieces) * pieceSize)
		o.pieces, o.head = nil, 0
	}
}

func (o *Output) drop(p *piece) {
	if p.shared {
		o.c.Loop.relief.release(p.b)
	} else {
		o.count(-cap(p.b))
	}
	*p = piece{}
}

// discard drops the waiting output.
func (o *Output) discard() {
	for i := o.head; i < len(o.pieces); i++ {
		o.drop(&o.pieces[i])
	}
	o.count(-cap(o.pieces) * pieceSize)
	o.count(-o.held)
	*o = Output{c: o.c}
}

// Owing is how much output this process still holds for the peer, in bytes.
func (o *Output) Owing() int { return o.bytes + o.atTransport() }

// progressed records that the peer has read something.
func (o *Output) progressed() { o.progress = o.c.Loop.now }

// checkBlocked keeps the connection on its loop's list of blocked ones as long as output
// waits.
func (o *Output) checkBlocked() {
	if o.c.state != dead && o.Owing() > 0 && o.c.on.join(onBlocked) {
		o.progressed()
		o.c.Loop.sweep.add(o.c)
	}
}

// pumpAgain is pump for a connection that is known to be blocked.
func (o *Output) pumpAgain() {
	c, before := o.c, o.bytes+o.held
	o.pump()
	if c.state == dead {
		return
	}
	if o.atTransport(); o.bytes+o.held < before {
		o.progressed()
		c.Loop.sweep.moved.Store(true)
	}
	if owing := o.Owing(); owing > 0 && owing < c.Limits().Pending {
		c.resume()
		c.User.ReadOn()
	}
}
