package client

import "context"

// Handle is a document as a value of type T that follows its changes. End it
// with Stop.
type Handle[T any] struct{}

// Bind decodes a document into a T, as Document.Decode does, and keeps it up to
// date. If there is no such document, or it does not decode now, Bind fails; if
// a later change does not decode, or the document goes away, the handle keeps
// the last good value. ctx limits the wait for the first value only; see Watch.
func Bind[T any](ctx context.Context, c *Client, q Query) (*Handle[T], error) {
	return nil, ErrUnreachable
}

// Load is the newest good value. It is shared: nobody may change it. It never
// waits and is never nil.
func (h *Handle[T]) Load() *T { return nil }

// Err says why the newest state of the document is not what Load gives:
// codes.NotFound or an error of decoding. Nil if it is.
func (h *Handle[T]) Err() error { return nil }

// Document is what Load's value was decoded from.
func (h *Handle[T]) Document() *Document { return nil }

// OnChange has fn called with each new value from now on, on the goroutine of
// all callbacks. Several functions are called in the order they were given.
func (h *Handle[T]) OnChange(fn func(*T)) {}

// Stop ends following; Load keeps its last value.
func (h *Handle[T]) Stop() {}
