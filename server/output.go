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
	shared bool // b is the store's; otherwise it is the session's own
	// push names what the piece, a whole frame, tells of: a newer push for the
	// same takes its place.
	push pushKey
}

// pieceCost is what a piece of our own takes beside its bytes.
const pieceCost = 96

// pushKey identifies pushes that replace each other. The zero value replaces
// nothing.
type pushKey struct{ file, path string }

// output is what a session's peer has not read yet, as far as the transport has
// not taken it. The zero value is empty.
type output struct {
	pieces []piece
	head   int // first piece not sent
	off    int // bytes of it that are
	bytes  int // in all pieces, less what is sent
}

func (o *output) empty() bool { return o.head == len(o.pieces) }

// retention is a shared body that pieces of one loop refer to.
type retention struct{ refs, size int }

// retain counts b once per loop against the memory that is held for peers.
func (l *loop) retain(b []byte) {
	key := &b[0]
	r := l.retained[key]
	if r == nil {
		r = &retention{size: len(b)}
		l.retained[key] = r
		l.srv.memory.add(r.size)
	}
	r.refs++
}

func (l *loop) releaseBody(b []byte) {
	key := &b[0]
	r := l.retained[key]
	if r.refs--; r.refs == 0 {
		l.srv.memory.sub(r.size)
		delete(l.retained, key)
	}
}

// sendOwn sends whole frames that lie in a buffer the caller will use again.
func (s *session) sendOwn(p []byte) {
	s.repliesFirst()
	if s.dead {
		return
	}
	if s.out.empty() && s.t.Buffered() == 0 {
		n := s.t.TrySend(p)
		if s.dead || n == len(p) {
			return
		}
		p = p[n+s.arm(p[n:]):]
	}
	if len(p) > 0 {
		s.enqueue(piece{b: slices.Clone(p)})
	}
	s.checkBlocked()
}

// sendFrame sends a frame that is the session's from now on.
func (s *session) sendFrame(frame []byte) {
	if s.dead {
		return
	}
	s.enqueue(piece{b: frame})
	s.pump()
}

// arm hands the beginning of what a full socket did not take to the transport,
// which makes the event loop watch for the peer to read on.
func (s *session) arm(rest []byte) int {
	rest = rest[:min(len(rest), armSize)]
	s.t.Send(rest)
	return len(rest)
}

// sendPush sends a push frame, or lets it take the place of an older one for the
// same file that the peer has not been given yet.
func (s *session) sendPush(frame []byte, key pushKey) {
	s.srv.count.Pushes.Add(1)
	if s.out.empty() {
		s.sendOwn(frame)
		return
	}
	for i := s.out.head; i < len(s.out.pieces); i++ {
		p := &s.out.pieces[i]
		if p.push != key || (i == s.out.head && s.out.off > 0) {
			continue
		}
		s.srv.count.Coalesced.Add(1)
		s.out.bytes += len(frame) - len(p.b)
		s.srv.memory.add(len(frame) - len(p.b))
		p.b = slices.Clone(frame)
		return
	}
	s.enqueue(piece{b: slices.Clone(frame), push: key})
}

// sendShared sends one frame whose middle belongs to the store and is not
// copied: it must never change. head holds the header and what precedes body.
func (s *session) sendShared(head, body []byte, tail string) {
	if s.dead {
		return
	}
	s.flushReplies()
	s.enqueue(piece{b: slices.Clone(head)})
	s.enqueue(piece{b: body, shared: true})
	s.enqueue(piece{b: []byte(tail)})
	s.pump()
}

// enqueue appends p to the output and holds the session to its limits.
func (s *session) enqueue(p piece) {
	s.repliesFirst()
	if s.dead {
		return
	}
	if s.out.empty() {
		s.progressed()
	}
	if p.shared {
		s.loop.retain(p.b)
	} else {
		s.srv.memory.add(len(p.b) + pieceCost)
	}
	if o := &s.out; o.head > len(o.pieces)/2 {
		// A peer that reads, but never all, would make the sent part grow for ever.
		n := copy(o.pieces, o.pieces[o.head:])
		clear(o.pieces[n:])
		o.pieces, o.head = o.pieces[:n], 0
	}
	s.out.pieces = append(s.out.pieces, p)
	s.out.bytes += len(p.b)
	if len(s.out.pieces)-s.out.head > s.srv.cfg.Limits.Frames {
		s.srv.count.OutputLimit.Add(1)
		s.abort("too many frames wait for a peer that does not read")
		return
	}
	s.loop.relieve(s)
}

// pump gives the transport what it takes now, of long output only as much as the
// loop has left for this turn; the rest is the sweep's.
func (s *session) pump() {
	l := s.loop
	for !s.dead && !s.out.empty() && s.t.Buffered() == 0 {
		if s.out.bytes > wholeFrame && l.bulk <= 0 {
			l.sweepNow()
			break
		}
		s.progressed()
		next := s.gather()
		next = next[:min(len(next), bulkTurn)]
		n := s.t.TrySend(next)
		if s.dead {
			return
		}
		if n < len(next) {
			n += s.arm(next[n:])
			if s.dead {
				return // the connection broke between the two writes
			}
		}
		l.bulk -= n
		s.advance(n)
	}
	if !s.dead {
		s.checkBlocked()
	}
}

// gather is the beginning of the output as one slice: a long piece as it is,
// short ones put together so that a frame leaves in one write.
func (s *session) gather() []byte {
	first := s.out.pieces[s.out.head].b[s.out.off:]
	if len(first) >= wholeFrame {
		return first
	}
	l := s.loop
	l.scratch = append(l.scratch[:0], first...)
	for _, p := range s.out.pieces[s.out.head+1:] {
		room := wholeFrame - len(l.scratch)
		if room <= 0 {
			break
		}
		l.scratch = append(l.scratch, p.b[:min(room, len(p.b))]...)
	}
	return l.scratch
}

// advance drops n bytes from the front of the output.
func (s *session) advance(n int) {
	s.out.bytes -= n
	for n > 0 {
		p := &s.out.pieces[s.out.head]
		left := len(p.b) - s.out.off
		if n < left {
			s.out.off += n
			return
		}
		n -= left
		s.drop(p)
		s.out.head++
		s.out.off = 0
	}
	if s.out.empty() {
		s.out.pieces, s.out.head = nil, 0
	}
}

func (s *session) drop(p *piece) {
	if p.shared {
		s.loop.releaseBody(p.b)
	} else {
		s.srv.memory.sub(len(p.b) + pieceCost)
	}
	*p = piece{}
}

// discardOutput forgets all that waits.
func (s *session) discardOutput() {
	for i := s.out.head; i < len(s.out.pieces); i++ {
		s.drop(&s.out.pieces[i])
	}
	s.out = output{}
}
