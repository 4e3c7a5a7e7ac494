package confstore

// Stats is what a store tells about itself.
type Stats struct {
	Files    int   // all that are there, whether good or broken
	Broken   int   // of these, not served as they are now
	Deleted  int   // names of which only the tombstone is left
	Bytes    int64 // of the compact contents that are served
	Seq      uint64
	Problems int // of all kinds, broken files included

	Pending      int   // writes that wait
	PendingBytes int64 // and their contents
}

// Stats may be called from any goroutine. It is cheap, but for the first call after
// a change, which looks at every file.
func (s *Store) Stats() Stats {
	stats := s.Snapshot().count()
	s.mu.Lock()
	stats.Files += len(s.faults)
	s.mu.Unlock()
	problems := s.Problems()
	stats.Problems = len(problems)
	for _, p := range problems {
		if p.Kind == OfFile {
			stats.Broken++
		}
	}
	stats.Pending, stats.PendingBytes = len(s.sets), s.queued.Load()
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
