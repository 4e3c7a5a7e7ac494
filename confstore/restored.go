package confstore

import (
	"errors"
	"io/fs"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/confstore/doclog"
)

// RestoredMark is a file in the data directory that says that its state store was restored from a
// backup. The first Open that finds it makes the configuration directory what the backup says:
// files that differ, and documents that it does not know, are set aside in the data directory.
// Clients may know of what came after the backup, so the epoch is a new one, and everything is
// served as a new version. Then the mark goes.
const RestoredMark = "config.restored"

// isRestored reports whether there is a mark.
func (s *Store) isRestored() (bool, error) {
	_, err := s.data.Lstat(RestoredMark)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err == nil, nil
	}
	return false, codes.Errorf(codes.Storage, "data directory: %w", err)
}

// forgetRestore removes the mark once everything is in place.
func (s *Store) forgetRestore() error {
	err := s.data.Remove(RestoredMark)
	if err == nil {
		err = s.data.SyncDir(".")
	}
	if err != nil {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	return nil
}

// removeStrangers sets aside documents that a backup does not know, and returns the names of the
// others.
func (s *Store) removeStrangers(names []string, known map[string]doclog.Document) ([]string, error) {
	var err error
	names = slices.DeleteFunc(names, func(name string) bool {
		if known[name].N > 0 || err != nil {
			return false
		}
		var kept string
		if kept, err = s.keepAside(name, 0, time.Time{}); err == nil {
			err = s.directory.root.Remove(name)
		}
		if err != nil {
			err = codes.Errorf(codes.Storage, "%s is not in the backup that was restored, and cannot be removed: %w; empty the configuration directory", name, err)
			return false
		}
		s.cfg.Log.Warn().Str("name", name).Str("found", kept).Msg("a document is not in the backup that was restored: its file is set aside in the data directory")
		return true
	})
	return names, err
}
