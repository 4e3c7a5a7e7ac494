package http

import (
	"fmt"
	"time"

	"confcenter/codes"
	"confcenter/internal/memory"
)

// Memory of requests. What a request makes the process hold is taken from the pool Bodies
// before it is there, and given back when the handler has ended. What is small is not:
// its connection has paid for it.

const (
	smallRoom = 4 << 10  // bytes that a request may hold without asking
	lastShare = 4        // the last quarter of the pool is kept for what is not large, and for administrators
	largeRoom = 64 << 10 // above this it is
)

// room is what one request holds of the pool.
type room struct {
	pool *memory.Pool
	held int64
}

// take reserves n bytes more, or refuses the request if there is no memory for it now.
func (w *reply) take(n int64) error {
	if n <= smallRoom {
		return nil
	}
	pool := w.room.pool
	large := n > largeRoom && !w.Account.Administrator() && !pool.Fits(n+pool.Limit()/lastShare)
	if !large && pool.For(w.Account).Take(n) {
		w.room.held += n
		return nil
	}
	if large {
		pool.Refuse()
	}
	w.Header().Set("Connection", "close") // instead of reading the body
	return &codes.Error{
		Code: codes.Busy, After: time.Second,
		Text: fmt.Sprintf("the request needs %d bytes of memory, which other requests have; try again later", n),
	}
}

func (m *room) give() {
	m.pool.Give(m.held)
	m.held = 0
}

// takeStream reserves what a stream takes.
func (g *Gateway) takeStream() error {
	if g.cfg.Memory.Connections.Take(memory.StreamCost) {
		return nil
	}
	return &codes.Error{
		Code: codes.Busy, After: time.Second,
		Text: fmt.Sprintf("a stream needs %d bytes of memory, which other connections have; try again later, or raise the server's --memory", memory.StreamCost),
	}
}

// mostRoom is what one request can have at all.
func mostRoom(pool *memory.Pool) int64 { return pool.Limit() - pool.Limit()/lastShare }

// quotedSize is about how long a text is as a JSON string.
func quotedSize(text []byte) (n int) {
	for _, c := range text {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < ' ':
			n += len(`\u0000`) - 1
		}
	}
	return n + len(text)
}
