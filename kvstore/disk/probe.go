package disk

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Probe reports whether the directory takes writes: it makes a file, syncs it and removes
// it.
func Probe(cfg Config) error {
	cfg = cfg.withDefaults()
	path := cfg.FS.PathJoin(cfg.Dir, "probe")
	file, err := cfg.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("the store's directory takes no writes: %w", err)
	}
	if _, err = file.Write([]byte("probe")); err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if removed := cfg.FS.Remove(path); err == nil {
		err = removed
	}
	if err != nil {
		return fmt.Errorf("the store's directory takes no writes: %w", err)
	}
	return syncDir(cfg.FS, cfg.Dir)
}
