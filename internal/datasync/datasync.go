// Package datasync makes what was written to a file durable, and lets other goroutines run meanwhile.
//
// A goroutine in a system call keeps its processor of the Go runtime until the runtime's monitor looks,
// which may take longer than a disk. Where all others wait for that processor, as on a machine with one
// core, reads would be answered when the disk is done. The runtime has a way for calls that are known to
// block, but package syscall does not use it for files. Others depend on it, so it is kept for them
// (go.dev/issue/67401).
package datasync

// File is an open file of package vfs of Pebble, which stays open until a sync has returned.
type File interface {
	Fd() uintptr // all ones: it is not one of the system's
	SyncData() error
}
