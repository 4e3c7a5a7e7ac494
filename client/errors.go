package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"confcenter/codes"
	"confcenter/protocol"
)

// Errors of the client itself. For those of the server use errors.Is(err,
// codes.Conflict) and the like.
var (
	// ErrUnreachable: no server answers, and nothing is cached, so it is not known
	// whether the requested thing exists. If a server says that it does not, the
	// error is codes.NotFound.
	ErrUnreachable error = &codes.Error{Code: codes.Unreachable, Text: "no server can be reached; check address and network"}
	// ErrClosed: Close was called.
	ErrClosed error = &codes.Error{Code: codes.Closed, Text: "the client is closed"}
	// ErrUpToDate: the server has nothing newer than Query.NewerThan.
	ErrUpToDate = errors.New("there is nothing newer")
	// ErrNeverGood: the file is there, but broken, and no version of it was ever good. The error
	// is codes.NotFound, too, and says what is wrong with the file.
	ErrNeverGood = errors.New("the file is broken and was never good")
)

// SafeToRetry reports whether nothing of the request left this process, so that
// sending it again cannot apply it twice. It is false for answers of the server,
// including refusals.
func SafeToRetry(err error) bool {
	r, ok := errors.AsType[*requestError](err)
	return ok && !r.sent
}

// requestError is the error of a request without an answer.
type requestError struct {
	text  string
	kind  error // ErrUnreachable, ErrClosed, codes.Timeout, codes.TooLarge, …; nil when the context ended
	cause error // may be nil
	sent  bool  // the server may have received it
}

func (e *requestError) Error() string {
	if e.cause == nil {
		return e.text
	}
	return e.text + ": " + e.cause.Error()
}

func (e *requestError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.kind, e.cause}, func(err error) bool { return err == nil })
}

func contextError(ctx context.Context, sent bool) error {
	e := &requestError{text: "gave up waiting for the server", cause: context.Cause(ctx), sent: sent}
	if errors.Is(e.cause, context.DeadlineExceeded) {
		e.kind = codes.Timeout
	}
	return e
}

func timeoutError(sent bool) error {
	return &requestError{text: "the server did not answer in time", kind: codes.Timeout, sent: sent}
}

// notSent is the requestError for a request that this side refuses.
func notSent(kind error, format string, args ...any) error {
	return &requestError{text: fmt.Sprintf(format, args...), kind: kind}
}

func closedError() error { return notSent(ErrClosed, "the client is closed") }

// refusal is the error for a reply with a code other than 0, nil for success.
func refusal(r protocol.Result) error {
	if r.Code == 0 {
		return nil
	}
	c := codes.Code(r.Code)
	return &codes.Error{Code: c, Text: cmp.Or(r.Desc, c.Error()), After: r.RetryAfter}
}

// during adds what was being done to err; nil stays nil.
func during(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// unreadable is the error for a reply that could not be parsed: it is a refusal, or it
// breaks the protocol.
func unreadable(err error) error {
	if r, ok := errors.AsType[*protocol.RefusedError](err); ok {
		return refusal(r.Result)
	}
	return &requestError{text: "the server's answer cannot be read", kind: codes.Internal, cause: withoutCode(err), sent: true}
}

// withoutCode keeps the text of err and drops its code, which could be mistaken for a
// code that the server has sent.
func withoutCode(err error) error { return errors.New(err.Error()) }

// refused reports whether a server has answered with a refusal.
func refused(err error) bool {
	var e *codes.Error
	return errors.As(err, &e) && e != ErrUnreachable && e != ErrClosed
}

// notConnected is the error while the last attempts to connect have failed because of
// why; nil if why is nil.
func notConnected(why error) error {
	if why == nil {
		return nil
	}
	return &requestError{text: "no server can be reached", kind: ErrUnreachable, cause: why}
}

// unanswered reports whether the server may have executed a request without answering.
func unanswered(err error) bool {
	r, ok := errors.AsType[*requestError](err)
	return ok && r.sent
}

func late(err error) bool {
	r, ok := errors.AsType[*requestError](err)
	return ok && r.kind == codes.Timeout
}

// lost reports whether the connection broke during the request, or there was none.
func lost(err error) bool { return errors.Is(err, ErrUnreachable) }
