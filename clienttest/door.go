package clienttest

import (
	"io"
	"net"
	"sync"
)

// door is a proxy with a fixed address for a server whose own address changes when it
// restarts. It also makes the network fail.
type door struct {
	ln net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex // guards the rest
	thaw   sync.Cond  // of frozen
	to     string     // empty: nothing listens there
	open   map[net.Conn]struct{}
	frozen bool
	closed bool
}

func openDoor() (*door, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{ln: ln, open: map[net.Conn]struct{}{}}
	d.thaw.L = &d.mu
	d.wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.serve(near) })
		}
	})
	return d, nil
}

// close ends all connections and waits for them.
func (d *door) close() {
	d.ln.Close()
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.freeze(false)
	d.cut()
	d.wg.Wait()
}

// lead sends new connections to that address and ends the current ones.
func (d *door) lead(to string) {
	d.mu.Lock()
	d.to = to
	d.mu.Unlock()
	d.cut()
}

func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for nc := range d.open {
		nc.Close()
	}
}

func (d *door) freeze(frozen bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = frozen && !d.closed
	d.thaw.Broadcast()
}

// abandon thaws a frozen door and drops what was held up, as a killed server does.
func (d *door) abandon() {
	d.mu.Lock()
	frozen := d.frozen
	d.mu.Unlock()
	if frozen {
		d.lead("")
		d.freeze(false)
	}
}

// pass waits while the door is frozen.
func (d *door) pass() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.frozen {
		d.thaw.Wait()
	}
}

// enter makes cut end nc; leave undoes that and closes nc.
func (d *door) enter(nc net.Conn) (to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[nc] = struct{}{}
	if d.closed {
		return ""
	}
	return d.to
}

func (d *door) leave(nc net.Conn) {
	nc.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, nc)
}

func (d *door) serve(near net.Conn) {
	to := d.enter(near)
	defer d.leave(near)
	d.pass()
	if to == "" {
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	d.enter(far)
	defer d.leave(far)
	d.wg.Go(func() { d.forward(near, far) })
	d.forward(far, near)
}

// forward copies until one side ends, and then ends the other.
func (d *door) forward(from, to net.Conn) {
	defer to.Close()
	io.Copy(passing{d, to}, from)
}

// passing is a writer that waits while the door is frozen.
type passing struct {
	d  *door
	to io.Writer
}

func (p passing) Write(b []byte) (int, error) {
	p.d.pass()
	return p.to.Write(b)
}
