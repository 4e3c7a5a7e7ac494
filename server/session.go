package server

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"confcenter/confstore"
	"confcenter/protocol"
)

// session is one connection. Everything in it belongs to its loop.
type session struct {
	// set at open
	srv    *Server
	loop   *loop
	t      transport
	peer   netip.AddrPort
	fd     int
	opened int64 // unix ns

	// loop only: input
	in       []byte // what is not decoded yet, from offset inOff
	inOff    int
	need     int  // bytes the next frame takes, 0 if its header is not known
	parked   bool // input waits for resume; it is decoded no further
	busy     bool // a worker is preparing the reply to the last frame taken
	prepared *confstore.Node
	// restoring is the version that KVRESTORE at the front of the input asks for
	restoring *restoring

	// loop only: output
	out       output
	slots     []slot // replies not given out yet, oldest first
	slotsGone uint64 // how many slots there were before slots[0]
	progress  int64  // unix ns of the last sign that the peer reads
	blocked   bool   // on loop.blocked
	starving  bool   // on loop.starved
	filled    bool   // on loop.filled

	// loop only: state
	index    int   // in loop.sessions
	deadline int64 // unix ns by which it has identified, or once closing is gone
	isTimed  bool  // on loop.timed
	client   *client
	subs     []*subscription
	kv       *kvWatches             // nil: it has never had one
	waits    map[*lockWait]struct{} // for locks
	grants   grants
	closing  bool // reads no more; ends when its output is read
	halfShut bool // the peer has been told that nothing more comes
	dead     bool // the transport is closed: nothing may be sent

	// any goroutine
	active atomic.Int64 // unix ns of the last complete frame, from the loop's clock
}

// slot holds the place of a reply whose request is still being worked on.
type slot struct {
	// write, if there is one, makes the reply's frame when its turn comes, so that
	// replies which leave together are encoded into one buffer; frame follows it.
	write *kvWriting
	frame []byte
	done  bool
	cmd   protocol.Command // of the request; 0: the reply was ready when it came
	began time.Duration    // when it was taken up, see Server.elapsed
}

// receive takes what arrived. data is only valid during the call.
func (s *session) receive(data []byte) {
	if s.dead || s.closing {
		return
	}
	s.loop.beginBurst()
	switch {
	case s.inOff < len(s.in):
		if !s.keep(data) {
			return
		}
		s.consumeKept()
	default:
		n := s.decode(data)
		if n < len(data) && !s.dead && !s.closing {
			s.keep(data[n:])
		}
	}
	s.flushReplies()
	s.loop.endBurst(s)
	s.loop.addCounts()
}

// keep appends to the undecoded input, within its limit.
func (s *session) keep(data []byte) bool {
	if len(s.in)-s.inOff+len(data) > s.srv.cfg.Limits.Input {
		s.srv.count.InputLimit.Add(1)
		s.abort("too much input waits behind requests that cannot go on")
		return false
	}
	if s.inOff > len(s.in)/2 {
		s.in = s.in[:copy(s.in, s.in[s.inOff:])]
		s.inOff = 0
	}
	before := cap(s.in)
	s.in = append(s.in, data...)
	s.srv.memory.add(cap(s.in) - before)
	s.loop.relieve(s)
	return !s.dead
}

// consumeKept decodes from the kept input.
func (s *session) consumeKept() {
	if len(s.in)-s.inOff < s.need {
		return
	}
	s.inOff += s.decode(s.in[s.inOff:])
	if s.inOff >= len(s.in) {
		s.forgetInput()
	}
}

func (s *session) forgetInput() {
	s.srv.memory.sub(cap(s.in))
	s.in, s.inOff = nil, 0
}

// turnBytes is how much kept input a session decodes before others get a turn.
const turnBytes = 256 << 10

// decode handles the complete frames in b and returns how many bytes they took.
func (s *session) decode(b []byte) (taken int) {
	for s.takes() {
		s.need = 0
		if len(b) < protocol.HeaderSize {
			return taken
		}
		h, err := protocol.ParseHeader(b)
		if err != nil {
			s.badFrame(err.Error())
			return taken
		}
		if limit := protocol.BodyLimit(h.Command, s.client != nil); h.BodyLen > limit {
			s.badFrame(fmt.Sprintf("%s announces %d bytes of body, the limit is %d", h.Command, h.BodyLen, limit))
			return taken
		}
		size := protocol.HeaderSize + int(h.BodyLen)
		if len(b) < size {
			s.need = size
			return taken
		}
		if !s.admit(h.Command) {
			s.park()
			return taken
		}
		if run := s.kvGetRun(h, b); run > 0 {
			size = run
		} else if !s.handle(h, b[protocol.HeaderSize:size]) {
			return taken
		}
		b = b[size:]
		taken += size
		if taken > turnBytes {
			s.parked = true
			s.loop.post(mailFunc(func(*loop) { s.resume() }))
		}
	}
	return taken
}

// takes says whether the next frame may be looked at: no, while the reply to the last
// one is being made elsewhere.
func (s *session) takes() bool { return !s.parked && !s.busy && !s.dead && !s.closing }

// admit says whether a request may be handled now. A request sees every earlier
// write of its connection, so all but writes wait for writes; and nobody gets
// more replies while those he has are not read.
func (s *session) admit(cmd protocol.Command) bool {
	if s.out.bytes >= s.srv.cfg.Limits.Pending {
		return false
	}
	if len(s.slots) == 0 {
		return true
	}
	return s.srv.routes.writes(cmd) && len(s.slots) < s.srv.cfg.Limits.Writes
}

// park stops decoding until resume. The frame it stopped at is decoded again.
func (s *session) park() {
	s.parked = true
	s.srv.count.Parked.Add(1)
}

// resume goes on decoding, if there is nothing left to wait for.
func (s *session) resume() {
	if s.dead || s.closing || s.busy || !s.parked {
		return
	}
	s.parked = false
	s.loop.watch.known = false
	if s.inOff < len(s.in) {
		s.consumeKept()
	}
	s.flushReplies()
	s.loop.addCounts()
}

// badFrame closes a connection that does not speak the protocol: without a
// reply, since there is no frame to answer.
func (s *session) badFrame(reason string) {
	s.srv.count.BadFrames.Add(1)
	s.dismiss(reason)
}

// dismiss closes a peer that may be reading what it has been sent: at once if
// there is nothing more to read, and never in the middle of a frame, where a
// Python client would spin for ever.
func (s *session) dismiss(reason string) {
	s.flushReplies()
	if s.dead || s.closing {
		return
	}
	if s.owing() == 0 && len(s.slots) == 0 {
		s.abort(reason)
		return
	}
	s.logClose(reason)
	s.finish()
}

// abort closes at once. The reason is for the log.
func (s *session) abort(reason string) {
	if s.dead {
		return
	}
	s.logClose(reason)
	s.hangUp()
}

func (s *session) logClose(reason string) {
	s.srv.peerLog.Warn().Stringer("peer", s.peer).Str("client", s.name()).Str("reason", reason).Msg("connection closed by the server")
}

// hangUp closes the transport; lost does the rest.
func (s *session) hangUp() {
	if !s.dead {
		s.t.Close()
	}
}

// finish reads no more and closes as soon as the peer has read what is on its
// way. A frame is never cut.
func (s *session) finish() {
	if s.dead || s.closing {
		return
	}
	s.closing = true
	s.forgetInput()
	s.loop.time(s, s.loop.now+s.srv.cfg.Limits.Linger.Nanoseconds())
	s.flushReplies()
	s.drained()
}

// drained is called when the peer has read everything.
func (s *session) drained() {
	if s.dead || s.owing() > 0 || s.closing && len(s.slots) > 0 {
		return
	}
	if s.closing {
		// Closing a socket with unread input resets the connection and can take
		// the last reply with it, so the peer closes first or runs out of time.
		if !s.halfShut {
			s.halfShut = true
			s.deadline = s.loop.now + s.srv.cfg.Limits.Linger.Nanoseconds()
			s.t.CloseWrite()
		}
		return
	}
	s.resume()
	s.watchesDrained()
}

// lost is called by the transport when the connection is gone, whoever ended it,
// also in the middle of a Send.
func (s *session) lost(err error) {
	if s.dead {
		return
	}
	s.dead = true
	s.discardOutput()
	s.forgetInput()
	s.slots = nil
	s.loop.hub.drop(s)
	s.dropWatches()
	s.dropWaits()
	s.loop.remove(s)
	s.srv.sessionClosed(s, err)
}

// name is what logs call the session.
func (s *session) name() string {
	if s.client == nil {
		return ""
	}
	return s.srv.registry.label(s.client)
}
