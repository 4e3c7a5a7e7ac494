package sse

import "golang.org/x/sys/unix"

// holdLittle sets unsentBytes; kernels without this option hold more.
func holdLittle(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
}

// transmit does not wait.
func transmit(fd uintptr, b []byte) (int, error) { return unix.Write(int(fd), b) }
