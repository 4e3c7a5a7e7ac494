package gateway

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// listener limits the open connections and knows the unused ones. net/http's
// Shutdown waits five seconds for each of those, and browsers open connections in
// advance.
type listener struct {
	net.Listener
	limit   int
	refused atomic.Uint64

	mu sync.Mutex
	// guarded by mu
	open    int
	unused  map[net.Conn]struct{}
	closing bool
	empty   sync.Cond // signals that open is 0

	fresh atomic.Int64 // len(unused), lets requests skip mu
}

func newListener(l net.Listener, limit int) *listener {
	listener := &listener{Listener: l, limit: limit, unused: map[net.Conn]struct{}{}}
	listener.empty.L = &listener.mu
	return listener
}

// Accept implements net.Listener. It closes connections beyond the limit: left in
// the kernel's queue, they would get no answer at all and hold up others.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.take() {
			return c, nil
		}
		l.refused.Add(1)
		_ = c.Close()
	}
}

func (l *listener) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.limit || l.closing {
		return false
	}
	l.open++
	return true
}

// count returns the number of open connections.
func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// connState is net/http's hook for connections that begin, are used and end.
func (g *Gateway) connState(c net.Conn, state http.ConnState) {
	l := g.listener
	switch state {
	case http.StateNew:
		l.add(c)
	case http.StateClosed, http.StateHijacked:
		l.remove(c, true)
	default:
		if l.fresh.Load() > 0 {
			l.remove(c, false)
		}
	}
}

func (l *listener) add(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closing {
		_ = c.Close()
		return
	}
	l.unused[c] = struct{}{}
	l.fresh.Store(int64(len(l.unused)))
}

func (l *listener) remove(c net.Conn, closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unused, c)
	l.fresh.Store(int64(len(l.unused)))
	if !closed {
		return
	}
	if l.open--; l.open == 0 {
		l.empty.Broadcast()
	}
}

// closeUnused closes the connections that have had no request yet.
func (l *listener) closeUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	for c := range l.unused {
		_ = c.Close()
	}
}

// wait returns when no connection has a handler any more. Nothing else keeps track
// of handlers whose connections were cut off.
func (l *listener) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open > 0 {
		l.empty.Wait()
	}
}
