package gate

import (
	"context"
	"errors"

	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/loop"
)

// Answer appends the body of a reply to dst, or returns why there is none.
type Answer func(ctx context.Context, dst []byte) ([]byte, error)

// Off is who answers a request away from the loop.
type Off func(s *Session, h protocol.Header, answer Answer)

// Works is for what takes long.
func Works(s *Session, h protocol.Header, answer Answer) {
	s.Later(h, s.made(s.Gate.cfg.Life, h, answer))
}

// Waits is for what waits for this server's disk.
func Waits(s *Session, h protocol.Header, answer Answer) {
	loop.AwaitDisk(&s.Conn, h, s.made(s.Gate.cfg.Life, h, answer))
}

// Beside is for reads that may wait for a database, beside each other.
func Beside(s *Session, h protocol.Header, answer Answer) {
	loop.Beside(&s.Conn, h, nil, s.made(s.Gate.cfg.Life, h, answer))
}

// Tried is Beside, first tried by one who does not wait: memory may do.
func Tried(s *Session, h protocol.Header, answer Answer) {
	loop.Beside(&s.Conn, h, s.made(impatient, h, answer), s.made(s.Gate.cfg.Life, h, answer))
}

// impatient is the context of one who does not wait.
var impatient = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// made makes the body of a reply, or of a refusal; nil: who is impatient could not.
func (s *Session) made(ctx context.Context, h protocol.Header, answer Answer) func(dst []byte) []byte {
	return func(dst []byte) []byte {
		body, err := answer(ctx, dst)
		switch {
		case err == nil:
			return body
		case ctx == impatient && errors.Is(err, context.Canceled):
			return nil
		}
		return s.AppendRefusal(dst, h, err)
	}
}

// Cold is the route of a command that is answered away from the loop. read reads the body: what it returns
// must not refer to that. What the row says the request is about is judged. answer appends the reply's body
// for who asks.
func Cold[Q any](off Off, read func(*protocol.Request) (Q, error), answer func(ctx context.Context, r *edge.Request, dst []byte, q *Q) ([]byte, error)) Route {
	return Route{Handle: func(s *Session, h protocol.Header, _ []byte) bool {
		q, err := read(&s.Local.Req)
		if things := s.Gate.routes.row(h.Command).Things; err == nil && things != nil {
			err = s.Judge(things(&q, s.Things()))
		}
		if err != nil {
			s.Refuse(h, err)
			return true
		}
		r := s.Request.Apart()
		off(s, h, func(ctx context.Context, dst []byte) ([]byte, error) { return answer(ctx, r, dst, &q) })
		return true
	}}
}
