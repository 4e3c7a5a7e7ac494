package codes

import (
	"errors"
	"fmt"
	"time"
)

// Error is an error with a code. Stores and handlers return it; an edge (TCP, HTTP,
// command line) converts it to its own form with Of and Message.
type Error struct {
	Code Code
	// Text says what failed, where and what to do. Peers see it, unless the code
	// is Internal, so it names no path of the server's machine. Empty means the
	// sentence of the code.
	Text string
	// Err is the cause, or nil. It is for the log and for errors.Is; no edge
	// shows it.
	Err error
	// After is how long to wait before the same is worth trying again; 0: not known.
	After time.Duration
}

// Errorf makes an Error whose Text is the formatted text. A %w verb records its
// operand as the cause and, as in fmt.Errorf, also puts the operand's text into
// Text; to keep that text from peers, set Err in an Error literal instead.
func Errorf(c Code, format string, args ...any) *Error {
	formatted := fmt.Errorf(format, args...)
	e := &Error{Code: c, Text: formatted.Error(), Err: errors.Unwrap(formatted)}
	if _, several := formatted.(interface{ Unwrap() []error }); several {
		e.Err = formatted
	}
	return e
}

// Error is Text, or the code's sentence if there is no Text.
func (e *Error) Error() string {
	if e.Text == "" {
		return e.Code.Error()
	}
	return e.Text
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, codes.Conflict) true for an Error with that code. An
// Error whose cause carries another code is both.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// Of is the code of err: OK for nil, the outermost code in err's chain, Internal
// if it has none.
func Of(err error) Code {
	if err == nil {
		return OK
	}
	c, _ := find(err)
	return c
}

// Message is what a peer may see of err: the text of the outermost Error, without what
// was wrapped around it, or the code's sentence. For an Internal error it is always the
// sentence, because the text belongs in the server's log. It is "success" for nil.
func Message(err error) string {
	if err == nil {
		return OK.Error()
	}
	c, e := find(err)
	if e == nil || c == Internal {
		return c.Error()
	}
	return e.Error()
}

// RetryAfter is how long to wait before trying again what failed with err; 0: not known.
// Nothing was done then.
func RetryAfter(err error) time.Duration {
	if _, e := find(err); e != nil {
		return e.After
	}
	return 0
}

// carrier is a Code or an Error. It lets one walk of the chain find the outermost of both;
// with an errors.As for each, an Error below a bare Code would win.
type carrier interface {
	error
	error
	carried() (Code, *Error)
}

func (c Code) carried() (Code, *Error)   { return c, nil }
func (e *Error) carried() (Code, *Error) { return e.Code, e }

func find(err error) (Code, *Error) {
	if outermost, ok := errors.AsType[carrier](err); ok { // errors.As would allocate
		return outermost.carried()
	}
	return Internal, nil
}
