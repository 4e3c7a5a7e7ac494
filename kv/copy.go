package kv

import "context"

// Copier is an optional interface of a store: one whose contents can be copied while it is used.
type Copier interface {
	// Copy begins a copy of everything that is kept at the newest revision. It may wait for a
	// disk. codes.NotImplemented: the engine cannot do it.
	Copy(ctx context.Context) (Copy, error)
}

// Copy is everything a store keeps, at one revision: rows in the engine's own form and order. It
// takes no memory while nothing is read, but disk space as the store changes: what it refers to
// stays. One goroutine uses it.
type Copy interface {
	// Revision is that of the newest transaction in it, and Time when it was begun, in ms since
	// 1970.
	Revision() Revision
	Time() int64
	// Next appends whole rows to dst until it has about half a MiB, or one row that is longer;
	// io.EOF: there are no more. Each row is the length of its key, the key, the length of its
	// value, and the value; lengths are as those of encoding/binary.AppendUvarint. After an error
	// the copy is of no use, and dst belongs to it.
	Next(dst []byte) (rows []byte, err error)
	// Close must be called exactly once, after all other calls. It does not wait.
	Close()
}
