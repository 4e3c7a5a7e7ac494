package main

import (
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The three calls of the hot path do not tell Go's scheduler: on a descriptor that
// cannot block that would only cost time.

func pollNow(epfd int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	return count(n, errno)
}

func readNow(fd int, p []byte) (int, error) { return transfer(unix.SYS_READ, fd, p) }

func writeNow(fd int, p []byte) (int, error) { return transfer(unix.SYS_WRITE, fd, p) }

func transfer(call uintptr, fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return count(n, errno)
}

func count(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// dialSocket connects to addr, lets begin use the connection, and returns a socket that does
// not block. It is closed
// with a reset, because thousands of connections a minute in TIME_WAIT would use up the
// ports.
func dialSocket(addr string, begin func(net.Conn) error) (fd int, err error) {
	dialer := net.Dialer{KeepAlive: -1}
	c, err := dialer.Dial("tcp", addr)
	if err != nil {
		return -1, err
	}
	defer c.Close() // ours is another descriptor of the same socket
	tcp := c.(*net.TCPConn)
	raw, err := tcp.SyscallConn()
	if err == nil {
		err = tcp.SetLinger(0)
	}
	if err == nil {
		err = begin(c)
	}
	if err != nil {
		return -1, err
	}
	controlErr := raw.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(controlErr, err)
}
