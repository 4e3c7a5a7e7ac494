package client

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"time"

	jsoniter "github.com/json-iterator/go"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/storage/field"
)

// manner is how a request meets lost connections. Nothing of it sent, it is always sent again.
type manner struct {
	again   bool // also if a server may have executed it
	insists bool // having been sent again so, it waits for a server
	patient bool // it waits for a server even the first time
	state   bool // likewise, if Config.StateWaits is set
	tries   int  // how often it is sent at most, unless it waits; 0: no limit
}

const maxTries = 3

var (
	reading  = manner{again: true, tries: maxTries}
	asking   = manner{again: true, tries: maxTries, state: true} // what changes nothing in the state store
	never    = manner{state: true}                               // a write that must not be executed twice
	again    = manner{again: true, insists: true, state: true}   // a write that is executed once, by its token
	stubborn = manner{again: true, insists: true, patient: true}
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
	repeated bool     // an earlier attempt of one that insists may have been executed
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
	if waits {
		if err := c.WaitConnected(ctx); err != nil { // without a turn
			return r, err
		}
	}
	timer := c.cfg.Clock.NewTimer(limit)
	defer timer.Stop()
	if err := c.take(ctx, timer.C(), c.inFlight); err != nil {
		return r, err
	}
	defer give(c.inFlight)
	for try := 1; ; try++ {
		if waits {
			if err = c.WaitConnected(ctx); err != nil {
				break
			}
			timer.Reset(limit)
		}
		if r.sess, err = c.awaitSession(ctx, timer.C(), r.repeated || how.patient); err != nil {
			break
		}
		r.body, err = r.sess.conn.request(ctx, timer.C(), cmd, frame)
		sent := !SafeToRetry(err)
		if !lost(err) || sent && !how.again || try == how.tries && !waits {
			break
		}
		r.repeated = r.repeated || sent && how.insists
	}
	if last, ok := errors.AsType[*requestError](err); ok && r.repeated {
		unknown := *last
		unknown.sent = true
		err = &unknown
	}
	return r, err
}

// take waits for a token of turns, one of the client's limits; give gives it back.
func (c *Client) take(ctx context.Context, expired <-chan time.Time, turns chan struct{}) error {
	select {
	case turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return contextError(ctx, false)
	case <-expired:
		return timeoutError(false)
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

// Call sends a command whose question and answer are structs that are JSON on the way, as
// those of the models of a cluster's state are: see package state/remote, which has a method
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

// request sends a request and waits for the reply. One that the server refuses because too
// much is sent has had no effect: it is sent again when the server says. If there is no time
// for that, the refusal is the reply.
func (c *conn) request(ctx context.Context, expired <-chan time.Time, cmd protocol.Command, frame []byte) ([]byte, error) {
	for {
		if ctx.Err() != nil { // the answer might be there before wait looks
			return nil, contextError(ctx, false)
		}
		body, err := c.start(cmd, frame).wait(ctx, expired)
		if err != nil || !c.later(ctx, expired, retryAfter(body)) {
			return body, err
		}
	}
}

// later waits for a little more than after, or until the connection ends. It returns false
// if there is nothing to wait for or no time.
func (c *conn) later(ctx context.Context, expired <-chan time.Time, after time.Duration) bool {
	if after <= 0 {
		return false
	}
	timer := c.cfg.Clock.NewTimer(after + rand.N(after/4+1)) // not all at the same moment
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-c.dead:
		return true
	case <-ctx.Done():
		return false
	case <-expired:
		return false
	}
}

// busyStart is how the refusals begin that may be worth repeating.
var busyStart = []byte(`{"code":503,`)

// retryAfter is when the request is worth sending again that body answers; 0: it is not.
func retryAfter(body []byte) time.Duration {
	if !bytes.HasPrefix(body, busyStart) {
		return 0
	}
	r, _ := protocol.ParseResult(body)
	return codes.RetryAfter(refusal(r))
}
