package http

import (
	"io"
	"sync/atomic"

	"confcenter/internal/memory"
	"confcenter/server/http/sse"
)

// A header takes much more memory than its bytes if its lines are short: net/http keeps
// two texts, a slice and a place in a map of each.
const (
	headRoom   = 4 << 10 // bytes of a header that its connection has paid for
	headFactor = 16      // how much more a header takes than its bytes, at worst
	mostHead   = 64 << 10
)

// head is what the header takes of the request that a connection is sending, with TLS its
// handshake included. Until the
// request has reached its handler nothing else knows of it.
type head struct {
	pool *memory.Pool // set at open

	read    atomic.Int64 // bytes of it
	handled atomic.Bool  // it is complete: what is read now is the body

	held int64 // of the pool; only the goroutine that serves the connection uses it
}

// begin is called when the header is complete, and end when the request is over, also for
// net/http, which may read the rest of a body that no one wanted.
func (h *head) begin() { h.handled.Store(true) }

func (h *head) end() {
	h.pool.Give(h.held)
	h.held = 0
	h.read.Store(0)
	h.handled.Store(false)
}

// take counts n bytes more, and returns false if there is no memory for them.
func (h *head) take(n int) bool {
	if n == 0 || h.handled.Load() {
		return true
	}
	read := h.read.Add(int64(n))
	if read <= headRoom {
		return true
	}
	more := read*headFactor - h.held
	if !h.pool.Take(more) {
		return false
	}
	h.held += more
	return true
}

const headRefusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.head.take(n) {
		return n, err
	}
	if !s.secure {
		sse.Hurry(s)
		_, _ = s.Conn.Write([]byte(headRefusal))
	}
	return 0, io.EOF // without another answer of net/http
}
