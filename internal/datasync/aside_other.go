//go:build !linux

package datasync

// Aside is f.SyncData.
func Aside(f File) error { return f.SyncData() }
