package client

import "context"

// Watch is a document that is followed. End it with Stop.
type Watch struct{}

// Watch follows a document: fn gets its present state first and then every
// change, in order, on the goroutine of all callbacks. If changes come faster
// than fn returns it gets the newest state only; contents it has seen last are
// not reported again. A file that is not there yet, or is deleted, is reported
// as a Document that does not Exist.
//
// An empty Query.Name follows the main config, also when _meta.json assigns
// another file.
//
// Watch waits for the present state, at most until ctx ends; afterwards ctx
// plays no part and the watch lasts until Stop or Close, across any number of
// connections. While no server answers the state comes from the disk cache, and
// without one the error is ErrUnreachable.
func (c *Client) Watch(ctx context.Context, q Query, fn func(*Document)) (*Watch, error) {
	return nil, ErrUnreachable
}

// Document is the newest state known, which fn may not have been given yet.
func (w *Watch) Document() *Document { return nil }

// Stop ends the watch. fn is not called again, but a call that has begun may
// still be running when Stop returns.
func (w *Watch) Stop() {}
