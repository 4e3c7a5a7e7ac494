package confstore

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
)

// Fault is a file that was never good: no snapshot has it.
type Fault struct {
	Name string
	Text string // why it cannot be served
}

// Faults are the files that were never good, sorted by name. Of a file that was
// good once Node.Broken tells. The slice is the caller's.
func (s *Store) Faults() []Fault {
	s.mu.Lock()
	faults := make([]Fault, 0, len(s.faults))
	for name, text := range s.faults {
		faults = append(faults, Fault{name, text})
	}
	s.mu.Unlock()
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.Name, b.Name) })
	return faults
}

// Fault is why the file of that name was never good, "" if it was or if there is
// none.
func (s *Store) Fault(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults[name]
}

// setFault keeps Faults up to date with what e says of its file.
func (s *Store) setFault(name string, e *entry) {
	s.mu.Lock()
	_, before := s.faults[name]
	fault := e.broken != "" && !e.known()
	switch {
	case fault && s.faults == nil:
		s.faults = map[string]string{name: e.broken}
	case fault:
		s.faults[name] = e.broken
	case before:
		delete(s.faults, name)
	}
	s.mu.Unlock()
	if fault { // one that heals is told of with its document, one that goes by removed
		s.tellFollowers([]string{name})
	}
}

// Follow has fn called with the names of files of which something is now
// different that a person would be shown: own or resolved contents or version,
// list of bases, whether the file is broken and why. Other than Subscribe it also
// tells of what programs are not to be bothered with. The snapshot is the newest;
// names are sorted and shared. fn is called on the store's goroutine and must only
// take note.
func (s *Store) Follow(fn func(now *Snapshot, names []string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follow = append(s.follow[:len(s.follow):len(s.follow)], fn)
}

func (s *Store) tellFollowers(names []string) {
	s.mu.Lock()
	follow := s.follow
	s.mu.Unlock()
	for _, fn := range follow {
		fn(s.snapshot.Load(), names)
	}
}

// ReadFile is the file as it is on the disk at this moment, whether or not it is
// good and whether or not it was taken in already. codes.BadName, codes.NotFound,
// codes.TooLarge, codes.Storage. It may be called from any goroutine.
func (s *Store) ReadFile(name string) ([]byte, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err != nil {
		return nil, &codes.Error{Code: codes.Storage, Text: "the configuration directory cannot be opened", Err: err}
	}
	defer root.Close()
	data, info, err := atomicfile.ReadFile(root, name, s.cfg.MaxFileBytes)
	switch {
	case err == nil:
		return data, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), info != nil && info.IsDir():
		return nil, codes.Errorf(codes.NotFound, "there is no file %q", name)
	case errors.Is(err, atomicfile.ErrTooLarge):
		return nil, codes.Errorf(codes.TooLarge, "%s is larger than the limit of %d bytes", name, s.cfg.MaxFileBytes)
	}
	return nil, &codes.Error{Code: codes.Storage, Text: name + " cannot be read: " + cause(err), Err: err}
}
