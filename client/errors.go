package client

import (
	"cmp"
	"errors"
	"fmt"

	"confcenter/client/internal/connection"
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
	r, ok := errors.AsType[*connection.Error](err)
	return ok && !r.Sent
}

// notSent is the error of a request that this side refuses.
func notSent(kind error, format string, args ...any) error {
	return &connection.Error{Text: fmt.Sprintf(format, args...), Kind: kind}
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
	cause := errors.New(err.Error()) // without its code, which could be mistaken for one that the server has sent
	return &connection.Error{Text: "the server's answer cannot be read", Kind: codes.Internal, Cause: cause, Sent: true}
}

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
	return &connection.Error{Text: "no server can be reached", Kind: ErrUnreachable, Cause: why}
}

// unanswered reports whether the server may have executed a request without answering.
func unanswered(err error) bool {
	r, ok := errors.AsType[*connection.Error](err)
	return ok && r.Sent
}

func late(err error) bool {
	r, ok := errors.AsType[*connection.Error](err)
	return ok && r.Kind == codes.Timeout
}

// lost reports whether the connection broke during the request, or there was none.
func lost(err error) bool { return errors.Is(err, ErrUnreachable) }
