package client

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"confcenter/codes"
	"confcenter/protocol"
)

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
