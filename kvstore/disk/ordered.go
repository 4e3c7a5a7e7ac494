package disk

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// orderedFS makes files durable in the order in which the database needs them. It
// makes a manifest, then a marker file whose name says which manifest counts, and
// syncs the directory after both. A power cut before that may leave the marker
// without the manifest, and then nothing opens.
type orderedFS struct{ vfs.FS }

// Create syncs the directory before a marker is made in it.
func (o orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(o.PathBase(name), "marker.") {
		if err := syncDir(o.FS, o.PathDir(name)); err != nil {
			return nil, err
		}
	}
	return o.FS.Create(name, category)
}

// Unwrap lets the database find the wrapped file system.
func (o orderedFS) Unwrap() vfs.FS { return o.FS }
