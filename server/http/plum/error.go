package plum

import (
	"fmt"
	"net/http"

	"confcenter/codes"
)

// Error is a refusal with Plum's status and text.
type Error struct {
	Status int
	Text   string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap has it count as a fault of the request, not of the server.
func (e *Error) Unwrap() error { return codes.BadRequest }

var (
	errItems   = &Error{http.StatusBadRequest, "items required"}
	errItemKey = &Error{http.StatusBadRequest, "key required"}
	errType    = &Error{http.StatusBadRequest, "invalid type (must be string|int|double|bool|bytes)"}
)

// Bad is what Plum calls a bad request, with what is wrong and what to do.
func Bad(format string, args ...any) error {
	return &Error{http.StatusBadRequest, "bad request: " + fmt.Sprintf(format, args...)}
}
