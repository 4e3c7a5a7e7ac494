package netio

import (
	"io"
	"os"
	"syscall"
	"time"

	"confcenter/codes"
	"confcenter/internal/admission"
)

// wire is a socket for one loop, which never waits for it: a read without input fails with
// errWait, and what the socket does not take stays in rest. Only a handshake waits, before
// the connection comes to its loop; crypto/tls then works on a wire as on any connection,
// because a read that failed with errWait can be repeated.
type wire struct {
	admission.Stream

	// set at open
	fd  int
	raw syscall.RawConn

	// instant makes reads and writes not wait. From then on the wire belongs to its loop,
	// which is also who closes it: until then the descriptor is no other's.
	instant bool
	emptied bool   // the last read took all there was
	rest    []byte // written, but not taken by the socket yet
	broken  error  // why nothing can be sent any more
}

// mostRest is how much of what was written a wire keeps, in bytes. Output is passed to it in
// parts of a record; what goes beyond that are answers of crypto/tls to a peer that asks for
// new keys and reads nothing.
const mostRest = 64 << 10

// errWait is a failure that crypto/tls takes for temporary.
var errWait = os.ErrDeadlineExceeded

var errUnread = codes.Errorf(codes.Busy, "the peer asks for more than it reads")

func newWire(s admission.Stream) (*wire, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &wire{Stream: s, raw: raw}
	return w, raw.Control(func(fd uintptr) { w.fd = int(fd) })
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	switch {
	case !w.instant:
		return w.Stream.Read(p)
	case w.emptied:
		return 0, errWait
	}
	for {
		n, err := receive(w.fd, p)
		switch err { //nolint:errorlint // as the kernel says
		case nil:
			if n == 0 && len(p) > 0 {
				return 0, io.EOF
			}
			w.emptied = n < len(p)
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			w.emptied = true
			return 0, errWait
		default:
			return 0, os.NewSyscallError("read", err)
		}
	}
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if !w.instant {
		return w.Stream.Write(p)
	}
	n := len(p)
	if len(w.rest) == 0 {
		p = p[w.send(p):]
	}
	if len(w.rest)+len(p) > mostRest && w.broken == nil {
		w.broken = errUnread
	}
	if w.broken != nil {
		w.rest = nil
		return 0, w.broken
	}
	w.rest = append(w.rest, p...)
	return n, nil
}

// send writes as much of p as the socket takes.
func (w *wire) send(p []byte) (n int) {
	for n < len(p) && w.broken == nil {
		k, err := transmit(w.fd, p[n:])
		switch err { //nolint:errorlint // as the kernel says
		case nil:
			n += k
		case syscall.EINTR:
		case syscall.EAGAIN:
			return n
		default:
			w.broken = os.NewSyscallError("write", err)
		}
	}
	return n
}

// waiting is how much of the rest the socket does not take now either.
func (w *wire) waiting() int {
	if len(w.rest) > 0 {
		if w.rest = w.rest[w.send(w.rest):]; len(w.rest) == 0 || w.broken != nil {
			w.rest = nil
		}
	}
	return len(w.rest)
}

// SetWriteDeadline implements net.Conn. crypto/tls sets one before it says that no more
// comes.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.instant {
		return nil
	}
	return w.Stream.SetWriteDeadline(t)
}

// await returns when something has arrived or the connection has ended. It must not be called
// while another goroutine reads.
func (w *wire) await() {
	asked := false
	_ = w.raw.Read(func(fd uintptr) bool {
		if asked {
			return true
		}
		asked = true
		return peek(int(fd)) != syscall.EAGAIN //nolint:errorlint // as the kernel says
	})
}
