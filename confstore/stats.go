package confstore

// Stats describes a store. The tags are for internal/metric.
//
// wide: a list of numbers.
type Stats struct {
	Files        int    `metric:"config_files" help:"Configuration files, broken ones included."`
	Broken       int    `metric:"config_broken_files" help:"Configuration files that cannot be served as they are now."`
	Deleted      int    `metric:"config_deleted_files" help:"Names of which only the tombstone is left."`
	Bytes        int64  `metric:"config_bytes" help:"Contents of the files that are served."`
	Seq          uint64 `metric:"config_sequence" help:"Number of the newest change; it goes on rising across restarts."`
	Problems     int    `metric:"config_problems" help:"What someone should look at, broken files included."`
	Unwatched    int64  `metric:"config_unwatched_directories" help:"Directories whose changes are found only by scans, because file events are not to be had for them."`
	Pending      int    `metric:"config_pending_writes" help:"Writes that wait."`
	PendingBytes int64  `metric:"config_pending_bytes" help:"Contents of the writes that wait."`
	Recent       int64  `metric:"config_recent_bytes" help:"The newest changes, kept for watches on documents."`
	Untold       int64  `metric:"config_untold_bytes" help:"Changes that watches on documents have not been told yet."`
	Lapses       uint64 `metric:"config_untold_lapses_total" help:"How often watches on documents were not told of changes because that was too much: they read them back, or begin again."`
	GitAsked     uint64 `metric:"config_git_questions_total" help:"How often git was asked with which commits files came that were found on disk."`
	GitFailed    uint64 `metric:"config_git_failures_total" help:"Questions to git that it did not answer within its limit, or not at all, and versions of which it was not asked because too many were waiting: they are the changes of the files' owners."`
	Uncommitted  int64  `metric:"config_git_waiting" help:"Versions found on disk with which a commit may have come, or may come yet."`
	Panics       uint64 `metric:"config_panics_total" help:"Panics of the configuration store, which takes no changes after one until a restart."`
}

// Stats may be called from any goroutine. It is cheap, except for the first call after a
// change, which looks at every file.
func (s *Store) Stats() Stats {
	stats := s.Snapshot().count()
	s.publisher.mu.Lock()
	stats.Files += len(s.publisher.faults)
	s.publisher.mu.Unlock()
	problems := s.Problems()
	stats.Problems = len(problems)
	for _, p := range problems {
		if p.Kind == OfFile {
			stats.Broken++
		}
	}
	stats.Unwatched = s.directory.unwatched.Load()
	stats.Pending, stats.PendingBytes = len(s.writer.jobs), s.writer.queued.Load()
	r := s.Revisions()
	stats.Recent, stats.Untold, stats.Lapses = r.held.Held(), r.left.Weight(), r.lapses.Load()
	if c := s.publisher.commits; c != nil {
		stats.GitAsked, stats.GitFailed, stats.Uncommitted = c.asked.Load(), c.failures.Load(), c.waiting.Load()
	}
	stats.Panics = s.troubles.panics.Load()
	return stats
}

// count counts the files, once.
func (s *Snapshot) count() Stats {
	s.countOnce.Do(func() {
		s.counted.Seq = s.seq
		for _, name := range s.names {
			if n := s.Node(name); n.Deleted() {
				s.counted.Deleted++
			} else {
				s.counted.Files++
				s.counted.Bytes += int64(n.Size())
			}
		}
	})
	return s.counted
}
