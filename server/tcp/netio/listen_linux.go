package netio

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const tcpUserTimeout = 60 * time.Second

// tcpUnsent is how much unsent output the kernel accepts for one connection, in bytes.
// Without it, a few thousand peers that do not read fill the kernel's memory for TCP, and
// every connection of the machine stalls for seconds.
const tcpUnsent = 128 << 10

var tcpOptions = map[string]struct{ level, option, value int }{
	"SO_KEEPALIVE":      {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	"TCP_KEEPIDLE":      {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(tcpKeepIdle.Seconds())},
	"TCP_KEEPINTVL":     {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(tcpKeepInterval.Seconds())},
	"TCP_KEEPCNT":       {unix.IPPROTO_TCP, unix.TCP_KEEPCNT, tcpKeepCount},
	"TCP_USER_TIMEOUT":  {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds())},
	"TCP_NOTSENT_LOWAT": {unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, tcpUnsent},
}

var tcp = net.ListenConfig{
	KeepAlive: -1, // ours is set here, once for all connections
	Control: func(_, _ string, c syscall.RawConn) (err error) {
		if failed := c.Control(func(fd uintptr) {
			for name, o := range tcpOptions {
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
