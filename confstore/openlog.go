package confstore

import (
	"context"

	"confcenter/codes"
	"confcenter/confstore/doclog"
)

// journalName is where builds before the state store had documents kept their versions.
const journalName = "config.journal"

// openLog opens the log. What only a journal knows would fall silently, so that one is refused.
func (s *Store) openLog(restored bool) (*doclog.Log, error) {
	if _, err := s.data.Lstat(journalName); err == nil {
		return nil, codes.Errorf(codes.Storage, "the data directory has a %s, of a build before versions of files were in the state store, which this one cannot read: start the server once with a build that takes it over, or move it away, and all files are new to the server, in a new epoch", journalName)
	}
	epoch := ""
	if restored {
		epoch = s.cfg.State.Identity()
	}
	log, err := doclog.Open(context.Background(), s.cfg.State, epoch)
	if err == nil && restored {
		now := s.cfg.Clock.Now()
		err = log.Reissue(context.Background(), seconds(now, now)) // it begins a new life
	}
	return log, err
}
