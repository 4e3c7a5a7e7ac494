package netio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"confcenter/internal/admission"
)

// The kernel's keep-alive detects dead peers: a half-open connection would block its client
// id as long as it lasts.
const (
	tcpKeepIdle     = 30 * time.Second
	tcpKeepInterval = 10 * time.Second
	tcpKeepCount    = 3
	tcpUserTimeout  = 60 * time.Second
)

// tcpUnsent is how much unsent output the kernel accepts for one connection, in bytes.
// Without it, a few thousand peers that do not read fill the kernel's memory for TCP, and
// every connection of the machine stalls for seconds.
const tcpUnsent = 128 << 10

// acceptors is how many goroutines accept for each loop. Each waits until a loop has taken
// its connection, so the turns of a busy loop would bound the rate of a single one.
const acceptors = 4

// listen opens the listener. Connections inherit its options.
func listen(address string) (net.Listener, error) {
	options := map[string]struct{ level, option, value int }{
		"SO_KEEPALIVE":      {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"TCP_KEEPIDLE":      {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(tcpKeepIdle.Seconds())},
		"TCP_KEEPINTVL":     {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(tcpKeepInterval.Seconds())},
		"TCP_KEEPCNT":       {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, tcpKeepCount},
		"TCP_USER_TIMEOUT":  {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds())},
		"TCP_NOTSENT_LOWAT": {unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, tcpUnsent},
	}
	cfg := net.ListenConfig{
		KeepAlive: -1, // ours is set here, once for all connections
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			if failed := c.Control(func(fd uintptr) {
				for name, o := range options {
					if e := unix.SetsockoptInt(int(fd), o.level, o.option, o.value); e != nil {
						err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
					}
				}
			}); failed != nil {
				return failed
			}
			return err
		},
	}
	return cfg.Listen(context.Background(), "tcp", address)
}

var errUnregistered = errors.New("the event loop could not watch the connection")

// visitor is a connection on its way to a loop.
type visitor struct {
	*admission.Conn // set at open

	opened bool // written on the loop, before EnrollContext returns
}

// accept lets connections in until the listener is closed.
func (e *Engine) accept() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return
		}
		v := &visitor{Conn: c.(*admission.Conn)}
		// It takes a copy of the descriptor, and reports success also for what it could not
		// register, so only OnOpen counts.
		if _, err = e.loops.EnrollContext(v.TCPConn, v); !v.opened {
			v.Place.Leave()
			e.listener.Rest(cmp.Or(err, errUnregistered))
		}
	}
}
