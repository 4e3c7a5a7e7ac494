package client

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"reflect"
	"time"

	jsoniter "github.com/json-iterator/go"

	"confcenter/client/internal/connection"
	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/protocol"
)

// manner is how a request meets lost connections. Nothing of it sent, it is always sent again.
type manner struct {
	again   bool // also if a server may have executed it
	patient bool // it waits for a server even the first time
	state   bool // likewise, if Config.StateWaits is set
	tries   int  // how often it is sent at most, unless it waits; 0: no limit, and then it waits
}

const maxTries = 3

var (
	reading  = manner{again: true, tries: maxTries}
	asking   = manner{again: true, tries: maxTries, state: true} // what changes nothing in the state store
	never    = manner{state: true}                               // a write that must not be executed twice
	again    = manner{again: true, state: true}                  // a write that is executed once, by its token
	stubborn = manner{again: true, patient: true}
)

// resendable is again if ok, otherwise never.
func resendable(ok bool) manner {
	if ok {
		return again
	}
	return never
}

type reply struct {
	body     []byte
	sess     *session // it came by
	repeated bool     // an earlier attempt of one without a limit of tries may have been executed
}

// send sends a request, the frame of which is not finished yet.
func (c *Client) send(ctx context.Context, cmd protocol.Command, frame []byte, how manner) (r reply, err error) {
	ctx, end := c.observe(ctx, cmd)
	defer func() { end(r.body, err) }()
	return c.insist(ctx, c.cfg.RequestTimeout, cmd, protocol.FinishFrame(frame, 0), how)
}

// insist is send without the observer. With Config.StateWaits limit counts from the connection on.
func (c *Client) insist(ctx context.Context, limit time.Duration, cmd protocol.Command, frame []byte, how manner) (r reply, err error) {
	waits := how.state && c.cfg.StateWaits
	timer := c.cfg.Clock.NewTimer(limit)
	defer timer.Stop()
	for try := 1; ; try++ {
		if waits {
			if err = c.WaitConnected(ctx); err != nil {
				break
			}
			timer.Reset(limit)
		}
		r.sess, r.body, err = c.attempt(ctx, timer.C(), cmd, frame, r.repeated || how.patient)
		sent := !SafeToRetry(err)
		if !lost(err) || sent && !how.again || !waits && (r.sess == nil || try == how.tries) {
			break
		}
		r.repeated = r.repeated || sent && how.tries == 0
	}
	if last, ok := errors.AsType[*connection.Error](err); ok && r.repeated {
		unknown := *last
		unknown.Sent = true
		err = &unknown
	}
	return r, err
}

// attempt sends a request once. The session is nil if there is none to send it by.
func (c *Client) attempt(ctx context.Context, expired <-chan time.Time, cmd protocol.Command, frame []byte, patient bool) (*session, []byte, error) {
	if err := c.take(ctx, expired, c.inFlight); err != nil {
		return nil, nil, err
	}
	defer give(c.inFlight)
	sess, err := c.awaitSession(ctx, expired, patient)
	if err != nil {
		return nil, nil, err
	}
	body, err := sess.Request(ctx, expired, cmd, frame)
	return sess, body, err
}

// take waits for a token of turns, one of the client's limits; give gives it back.
func (c *Client) take(ctx context.Context, expired <-chan time.Time, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return connection.ContextError(ctx, false)
	case <-expired:
		return connection.TimeoutError(false)
	case <-c.ctx.Done():
		return closedError()
	}
}

func give(turns chan struct{}) { <-turns }

func begin(cmd protocol.Command) []byte { return protocol.BeginFrame(nil, cmd, 0) }

func ask[T any](ctx context.Context, c *Client, cmd protocol.Command, frame []byte, how manner, parse func(body []byte) (T, error)) (T, error) {
	r, err := c.send(ctx, cmd, frame, how)
	return answer(r.body, err, parse)
}

// answer parses a reply, if there is one.
func answer[T any](body []byte, err error, parse func(body []byte) (T, error)) (none T, _ error) {
	if err != nil {
		return none, err
	}
	found, err := parse(body)
	if err != nil {
		return none, unreadable(err)
	}
	return found, nil
}

// say asks what changes nothing if it is asked twice. Question, a pointer, and answer are messages by their tags.
func say[A any](ctx context.Context, c *Client, cmd protocol.Command, question any) (A, error) {
	return ask(ctx, c, cmd, protocol.AppendMessage(begin(cmd), question), asking, protocol.ParseReply[A])
}

// tell is say without an answer.
func tell(ctx context.Context, c *Client, cmd protocol.Command, question any) error {
	_, err := say[field.Nothing](ctx, c, cmd, question)
	return err
}

// paged yields what is on page after page, to the first error, which comes with a zero item. read
// returns what the next page comes after; "": there is none.
func paged[E any](read func(after string) (page []E, next string, err error)) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		for after, more := "", true; more; more = after != "" {
			page, next, err := read(after)
			if err != nil {
				yield(*new(E), err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			after = next
		}
	}
}

// Call sends a command whose question and answer are structs that are JSON on the way, as
// those of the models of a cluster's state are: see package client/calls, which has a method
// for each. question and answer are pointers to structs; answer may be nil.
//
// A question that only reads is sent again after a lost connection. So is one that writes, if
// it has a field Token: without a token it gets one of its own, in a copy, so that it is
// carried out once.
func (c *Client) Call(ctx context.Context, cmd protocol.Command, writes bool, question, answer any) error {
	how := asking
	if writes {
		own := reflect.New(reflect.TypeOf(question).Elem())
		own.Elem().Set(reflect.ValueOf(question).Elem())
		token := own.Elem().FieldByName("Token")
		how = resendable(token.IsValid())
		if token.IsValid() && token.Len() == 0 {
			token.SetString(c.tokens.next())
		}
		question = own.Interface()
	}
	object, err := jsoniter.ConfigDefault.Marshal(question)
	if err != nil {
		return codes.Errorf(codes.BadRequest, "the question cannot be written as JSON: %w", err)
	}
	r, err := c.send(ctx, cmd, append(begin(cmd), object...), how)
	if err != nil {
		return err
	}
	if err := protocol.CheckSuccess(r.body); err != nil {
		return unreadable(err)
	}
	if answer == nil {
		return nil
	}
	return decodeInto(r.body, answer)
}

// Observer sees requests, for metrics and traces. docs/go.md connects it to
// Prometheus and OpenTelemetry.
type Observer interface {
	// Begin is called when a method begins a request that its caller waits for, on
	// the caller's goroutine. op is the command's name in PROTOCOL.md, such as
	// GETCONFIG and KVPUT: one of a few dozen, fit for a label or the name of a span.
	// The request goes on with the context that Begin gives, which must come from ctx.
	//
	// end is called once, with why there was no answer, or the codes.Code of the
	// server's refusal, or nil; the wait for a connection, a turn or a lock and all
	// repetitions lie in between. An absent key, or a condition that does not hold,
	// is an answer and not an error here.
	//
	// Background requests of watches, handles and leases are not reported.
	Begin(ctx context.Context, op string) (_ context.Context, end func(err error))
}

// observe reports a request to Config.Observer and Config.Logger. The function that it
// returns must be called with the result.
func (c *Client) observe(ctx context.Context, cmd protocol.Command) (context.Context, func(body []byte, err error)) {
	log := c.cfg.Logger.Enabled(ctx, slog.LevelDebug)
	if c.cfg.Observer == nil && !log {
		return ctx, func([]byte, error) {}
	}
	began, tell := c.cfg.Clock.Now(), func(error) {}
	if c.cfg.Observer != nil {
		ctx, tell = c.cfg.Observer.Begin(ctx, cmd.String())
	}
	return ctx, func(body []byte, err error) {
		err = outcome(body, err)
		tell(err)
		if log {
			c.logRequest(ctx, cmd, c.cfg.Clock.Now().Sub(began), err)
		}
	}
}

// logRequest logs command and code only, since error texts may contain keys.
func (c *Client) logRequest(ctx context.Context, cmd protocol.Command, took time.Duration, err error) {
	fields := []slog.Attr{slog.String("op", cmd.String()), slog.Duration("took", took)}
	switch {
	case err == nil:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		fields = append(fields, slog.String("failed", "the caller gave up"))
	default:
		fields = append(fields, slog.String("failed", codes.Of(err).Name()))
	}
	c.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "request", fields...)
}

// refusing is how a reply with a code other than 0 begins.
var refusing = []byte(`{"code":`)

// outcome returns err, or the code of a reply that is a refusal.
func outcome(body []byte, err error) error {
	rest, found := bytes.CutPrefix(body, refusing)
	if err != nil || !found || bytes.HasPrefix(rest, []byte("0")) {
		return err
	}
	if r, unclear := protocol.ParseResult(body); unclear == nil && r.Code != 0 {
		return codes.Code(r.Code)
	}
	return nil
}
