// Package looptest has a socket for tests that is none.
package looptest

import "bytes"

// Wire is a transport without a socket: it takes Room bytes, and buffers what Send
// adds to that.
type Wire struct {
	Lost func(error) // set at open: is told by Close

	Room     int          // what the socket still takes
	Got      bytes.Buffer // what it has taken
	Writes   int          // how often it was written to
	HalfShut bool         // CloseWrite was called
	Deaf     bool         // Listen(false) was called
	Closed   bool
	Panic    bool // TrySend panics

	buffered []byte
}

// TrySend takes as much of p as there is room for.
func (w *Wire) TrySend(p []byte) int {
	if w.Panic {
		panic("planted")
	}
	if len(w.buffered) > 0 {
		panic("TrySend while something is buffered")
	}
	n := min(w.Room, len(p))
	w.Got.Write(p[:n])
	w.Room -= n
	w.Writes++
	return n
}

// Send takes all of p.
func (w *Wire) Send(p []byte) {
	if w.Closed || w.Deaf {
		panic("Send on a transport that is closed or does not listen")
	}
	w.buffered = append(w.buffered, p...)
}

// Buffered is how much there is no room for.
func (w *Wire) Buffered() int { return len(w.buffered) }

// Listen notes whether the peer is heard.
func (w *Wire) Listen(on bool) { w.Deaf = !on }

// CloseWrite notes that nothing more will come.
func (w *Wire) CloseWrite() { w.HalfShut = true }

// Close ends the connection.
func (w *Wire) Close() {
	w.Closed = true
	w.Lost(nil)
}

// Reset is Close.
func (w *Wire) Reset() { w.Close() }

// Read makes room for n bytes, as a peer that reads does.
func (w *Wire) Read(n int) {
	k := min(n, len(w.buffered))
	w.Got.Write(w.buffered[:k])
	w.buffered = w.buffered[k:]
	w.Room += n - k
}
