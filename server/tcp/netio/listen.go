package netio

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// The kernel's keep-alive detects dead peers: a half-open connection would block its client
// id as long as it lasts.
const (
	tcpKeepIdle     = 30 * time.Second
	tcpKeepInterval = 10 * time.Second
	tcpKeepCount    = 3
)

// Unix begins the address of a unix socket.
const Unix = "unix:"

// listen opens the listener. Connections inherit its options.
func listen(address string) (net.Listener, error) {
	path, local := strings.CutPrefix(address, Unix)
	if !local {
		return tcp.Listen(context.Background(), "tcp", address)
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && forsaken(path) {
		if err = os.Remove(path); err == nil {
			l, err = net.Listen("unix", path)
		}
	}
	return l, err
}

// forsaken reports whether path is a socket that a server has left behind which was killed.
func forsaken(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
