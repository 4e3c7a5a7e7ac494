package main

import (
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The three calls of the hot path go to the kernel without telling Go's
// scheduler: on a descriptor that cannot block that would only cost time.

func pollNow(epfd int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno == unix.EINTR {
		return 0, nil
	}
	return count(n, errno)
}

func readNow(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return count(n, errno)
}

func writeNow(fd int, p []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return count(n, errno)
}

func count(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// dialSocket connects to addr and returns a socket that does not block. receive,
// if not 0, fixes the receive buffer, in bytes. The socket ends with a reset,
// not with TIME_WAIT: thousands of connections a minute would use up the ports.
func dialSocket(addr string, receive int) (int, error) {
	family, sa, err := resolve(addr)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := prepare(fd, sa, receive); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("connect %s: %w", addr, err)
	}
	return fd, nil
}

func prepare(fd int, sa unix.Sockaddr, receive int) error {
	if receive > 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receive); err != nil {
			return err
		}
	}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
		return err
	}
	if err := connect(fd, sa); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	return unix.SetNonblock(fd, true)
}

// connect blocks, and survives the signals Go's runtime sends to its threads.
func connect(fd int, sa unix.Sockaddr) error {
	err := unix.Connect(fd, sa)
	if err != unix.EINTR {
		return err
	}
	// The connect goes on by itself; repeating the call would be an error.
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 10_000); err != nil && err != unix.EINTR {
		return err
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return err
}

func resolve(addr string) (int, unix.Sockaddr, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return 0, nil, err
	}
	if ip := a.IP.To4(); ip != nil || a.IP == nil {
		sa := &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte{127, 0, 0, 1}}
		copy(sa.Addr[:], ip)
		return unix.AF_INET, sa, nil
	}
	sa := &unix.SockaddrInet6{Port: a.Port}
	copy(sa.Addr[:], a.IP.To16())
	return unix.AF_INET6, sa, nil
}

// boundAddr is the local address of a listening socket, which it closes.
func boundAddr(fd int) (net.Addr, error) {
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	return ln.Addr(), nil
}
