package netio

import "golang.org/x/sys/unix"

// receive and transmit do not wait.
func receive(fd int, p []byte) (int, error)  { return unix.Read(fd, p) }
func transmit(fd int, p []byte) (int, error) { return unix.Write(fd, p) }

// peek fails with EAGAIN if there is nothing to read.
func peek(fd int) error {
	var b [1]byte
	_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK)
	return err
}
