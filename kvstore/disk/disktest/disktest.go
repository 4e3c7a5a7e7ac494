// Package disktest has file systems in memory for stores that are tested.
package disktest

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is a file system in memory that can lose its power while it is used. Make it with New.
type FS struct {
	*vfs.MemFS
	// Held by each Link, and by a copy against all of them: MemFS's own Link takes a lock twice, and
	// would wait for ever for a copy that is made in between.
	links sync.RWMutex
}

// New returns an empty file system.
func New() *FS { return &FS{MemFS: vfs.NewCrashableMem()} }

// Link implements vfs.FS.
func (f *FS) Link(from, to string) error {
	f.links.RLock()
	defer f.links.RUnlock()
	return f.MemFS.Link(from, to)
}

// Lose returns what a loss of power would leave.
func (f *FS) Lose(cfg vfs.CrashCloneCfg) *FS {
	f.links.Lock()
	defer f.links.Unlock()
	return &FS{MemFS: f.CrashClone(cfg)}
}
