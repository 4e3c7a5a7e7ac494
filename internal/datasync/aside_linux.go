package datasync

import (
	"syscall"
	_ "unsafe" // for go:linkname
)

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// Aside is f.SyncData, for which the goroutine gives its processor away. It waits for one afterwards:
// where all are busy, until another goroutine blocks.
func Aside(f File) error {
	fd := f.Fd()
	if fd == ^uintptr(0) {
		return f.SyncData()
	}
	for {
		switch errno := fdatasync(fd); errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}

// Between the two calls the stack must not grow, and no pointer may be written.
//
//go:nosplit
func fdatasync(fd uintptr) syscall.Errno {
	entersyscallblock()
	_, _, errno := syscall.RawSyscall(syscall.SYS_FDATASYNC, fd, 0, 0)
	exitsyscall()
	return errno
}
