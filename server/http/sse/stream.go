package sse

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"confcenter/internal/clock"
	"confcenter/internal/memory"
)

// Config is what streams need of their server. All of it has to be given.
type Config struct {
	Pool         *memory.Pool // what streams hold while they wait is counted in it
	IDs          IDs
	Clock        clock.Clock
	Heartbeat    time.Duration   // of a stream that has nothing to say
	WriteTimeout time.Duration   // how long a peer may take to read a piece
	Closing      <-chan struct{} // closed when the server stops: streams end
}

// Streams is what all streams of a server share. Make one with New.
type Streams struct {
	Config
	*stalls
	turns turns

	Unread atomic.Uint64 // streams that ended because their peer did not read
}

// New makes what the streams of a server share.
func New(cfg Config) *Streams {
	return &Streams{Config: cfg, stalls: newStalls(cfg.Pool), turns: newTurns()}
}

func (l *Streams) ending() bool {
	select {
	case <-l.Closing:
		return true
	default:
		return false
	}
}

// Stream writes a stream of events. Lines end in LF; Flush sends what is in Buf.
// It gives up on a peer that does not read for too long. It works in turns, and between
// them it holds little more than what it has begun to write.
type Stream struct {
	Buf  []byte // what is to be sent
	Turn Turn

	// set at open
	streams *Streams
	w       http.ResponseWriter
	control *http.ResponseController
	conn    *Conn        // nil in tests
	held    func() int64 // see Begin

	out     outlet
	big     *Frame // goes between Buf[:split] and Buf[split:]; nil: none
	split   int
	written bool  // net/http may still have some of it
	err     error // why the peer is gone; nothing is sent any more

	cut atomic.Bool // it was told to end because it held too much for too long
}

// Chunk is how many bytes are collected before they are written. With its framing that
// is what net/http writes at a time, and what a stream holds whose peer does not read.
const Chunk = 4000

// Begin begins a stream, in its first turn. It starts with a comment and an empty line,
// so that the rest of an earlier stream in the peer's buffer is not joined with the first
// event. conn is the one below w; nil: none is known. rest lets go of what the teller of the
// stream can read again, at the end of each turn, and held is how many bytes it still has then:
// nil stands for none. The caller closes the stream.
func (l *Streams) Begin(w http.ResponseWriter, conn *Conn, rest func(), held func() int64) *Stream {
	s := &Stream{streams: l, w: w, control: http.NewResponseController(w), conn: conn, held: held}
	s.Turn = Turn{turns: l.turns, rest: rest}
	s.out = outlet{turn: &s.Turn, stalls: l.stalls, size: s.size}
	if conn != nil {
		s.out.open(conn)
	}
	s.Turn.Begin()
	if s.err = s.control.SetReadDeadline(time.Time{}); s.err != nil { // the request's deadline must not end the stream
		return s
	}
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // of nginx
	w.WriteHeader(http.StatusOK)
	s.Buf = append(make([]byte, 0, Chunk+Chunk/4), ":\n\n"...)
	s.Flush()
	return s
}

// Close ends the stream's last turn. What net/http still writes is written as usual.
func (s *Stream) Close() {
	s.Turn.End()
	s.release()
	if s.conn != nil {
		s.conn.out = nil
	}
	if errors.Is(s.err, os.ErrDeadlineExceeded) && !s.streams.ending() {
		s.streams.Unread.Add(1)
		if s.conn != nil {
			s.conn.Forget() // or the kernel would go on for minutes
		}
	}
}

// size is what the stream holds while it waits for its peer.
func (s *Stream) size() stalled {
	all := stalled{own: int64(cap(s.Buf)) + Chunk, end: s.giveUp} // net/http has a buffer, too
	if s.held != nil {
		all.own += s.held()
	}
	if s.big != nil {
		all.shared, all.event = s.big.share(), int64(s.big.bytes)
	}
	return all
}

// giveUp ends the stream. Any goroutine may call it.
func (s *Stream) giveUp() {
	s.cut.Store(true)
	_ = s.control.SetWriteDeadline(time.Unix(1, 0))
}

// Event puts in an event of one line, which data appends.
func (s *Stream) Event(name string, id int64, data func(dst []byte) []byte) {
	s.Buf = s.streams.IDs.AppendEvent(s.Buf, name, id, data)
}

// ID puts in a line that says how far the reader has got, which ends what is told of an event. Without
// data it is no event, but a browser remembers it.
func (s *Stream) ID(at int64) { s.Buf = s.streams.IDs.appendLine(s.Buf, at) }

// Put puts in a frame, and releases it. A long one that is alone is sent from where it is: until
// the stream is written no other may be put in.
func (s *Stream) Put(f *Frame, alone bool) {
	if alone && len(f.text) >= Chunk {
		s.big, s.split = f, len(s.Buf)
		return
	}
	s.Buf = append(s.Buf, f.text...)
	f.Release()
}

// Flush sends what is in Buf.
func (s *Stream) Flush() {
	if len(s.Buf) > 0 || s.big != nil {
		s.write()
	}
	if s.written && s.err == nil {
		s.err = s.control.Flush()
		s.written = false
	}
}

// writeIfLong writes when Buf is long.
func (s *Stream) writeIfLong() {
	if len(s.Buf) >= Chunk || s.big != nil {
		s.write()
	}
}

func (s *Stream) write() {
	if s.big != nil {
		s.send(s.Buf[:s.split])
		s.send(s.big.text)
		s.release()
		s.send(s.Buf[s.split:])
	} else {
		s.send(s.Buf)
	}
	s.Buf = s.Buf[:0]
	if cap(s.Buf) > 2*Chunk {
		s.Buf = nil
	}
}

// send gives the peer time to read b.
func (s *Stream) send(b []byte) {
	if s.err == nil {
		s.err = s.control.SetWriteDeadline(time.Now().Add(s.streams.WriteTimeout))
	}
	if s.streams.ending() { // checked only now, so as not to undo what another Hurry has set
		Hurry(s.control)
	}
	if s.cut.Load() { // likewise
		s.err = os.ErrDeadlineExceeded
	}
	if s.err == nil {
		_, s.err = s.w.Write(b)
		s.written = true
	}
}

func (s *Stream) release() {
	if s.big != nil {
		s.big.Release()
		s.big = nil
	}
}

// Run sends what next puts into Buf, until the peer is gone, the server or ctx ends or next
// fails. When next returns false, Run calls it again after something arrives on
// wake or after a heartbeat, which beat puts into Buf. All of that is called in the
// stream's turns. While the stream waits for its peer it must not hold more than it has said: next
// puts in about one Chunk at a time.
func (s *Stream) Run(ctx context.Context, wake <-chan struct{}, next func() (more bool, err error), beat func()) error {
	ticker := s.streams.Clock.NewTicker(s.streams.Heartbeat)
	defer ticker.Stop()
	for s.err == nil && !s.streams.ending() && ctx.Err() == nil {
		if s.Turn.over() {
			s.Turn.End()
		}
		s.Turn.Begin()
		more, err := next()
		if s.writeIfLong(); more && err == nil {
			continue
		}
		s.Flush()
		s.Turn.End()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.streams.Closing:
			return nil
		case <-wake:
		case <-ticker.C():
			s.Turn.Begin()
			beat()
			s.Flush()
		}
	}
	return nil
}
