package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"confcenter/codes"
	"confcenter/protocol"
)

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
