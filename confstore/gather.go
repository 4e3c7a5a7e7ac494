package confstore

import (
	"io/fs"
	"maps"
)

// maxLinked is how many files behind symlinks are looked at with each batch; more
// are left to events beside them and to scans.
const maxLinked = 256

// gather collects the names that events speak of, directly or through directories
// and symlinks.
func (s *Store) gather(names map[string]struct{}) {
	s.forgetWatches()
	for dir := range s.settle.dirs {
		s.gatherDir(dir)
	}
	clear(s.settle.dirs)
	for name := range s.settle.names {
		if info, err := s.root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			s.linked[name] = struct{}{}
		}
	}
	if s.settle.links || len(s.linked) <= maxLinked {
		s.gatherLinks()
	}
	s.settle.links = false
	maps.Copy(names, s.settle.names)
}

// forgetWatches ends the watches on what is going to be listed: the kernel's end
// with the directory, and a new one can look the same. All first, because the
// directory behind one name may be that which was behind another. A name that was
// no directory and is none is not looked at further.
func (s *Store) forgetWatches() {
	for dir := range s.settle.dirs {
		if _, known := s.dirs[dir]; !known && !s.mayBeDir(dir) {
			delete(s.settle.dirs, dir)
			continue
		}
		if s.watch != nil {
			s.watch.remove(dir)
		}
		if _, linked := s.linkedDirs[dir]; linked {
			s.startScan() // the directory may have been watched under this name only
		}
	}
}

func (s *Store) mayBeDir(name string) bool {
	info, err := s.root.Lstat(name)
	return err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
}

// gatherDir is for a name that is, was or may be a directory.
func (s *Store) gatherDir(dir string) {
	delete(s.linkedDirs, dir)
	for known := range s.dirs {
		if known == dir || below(known, dir) {
			delete(s.dirs, known)
		}
	}
	list := &listing{}
	if info, err := s.root.Lstat(dir); err == nil {
		if info.Mode()&fs.ModeSymlink != 0 {
			s.linkedDirs[dir] = struct{}{} // perhaps its target is yet to come
		}
		list = s.walker(s.watchDir).walk(dir)
	}
	s.noteListing(list)
	s.differing(list, dir)
}

// gatherLinks finds what has changed behind symlinks, of which no event may tell.
func (s *Store) gatherLinks() {
	for dir := range s.linkedDirs {
		list := s.walker(s.watchDir).walk(dir)
		s.noteListing(list)
		s.differing(list, dir)
	}
	for name := range s.linked {
		info, err := s.root.Stat(name)
		e := s.entries[name]
		if err == nil && (e == nil || signatureOf(info) != e.sig) || err != nil && e != nil && e.onDisk {
			s.settle.names[name] = struct{}{}
		}
		if err == nil {
			continue
		}
		if _, err := s.root.Lstat(name); err != nil {
			delete(s.linked, name)
		}
	}
}

// differing notes the names below dir whose files are not those that were read.
func (s *Store) differing(list *listing, dir string) {
	listed := make(map[string]struct{}, len(list.files))
	for _, f := range list.files {
		listed[f.name] = struct{}{}
		if e := s.entries[f.name]; e == nil || e.sig != f.sig || f.sig == (signature{}) {
			s.settle.names[f.name] = struct{}{}
		}
	}
	for name, e := range s.entries {
		if _, ok := listed[name]; !ok && e.onDisk && below(name, dir) {
			s.settle.names[name] = struct{}{}
		}
	}
}

// noteListing remembers which directories there are and what lies behind symlinks.
func (s *Store) noteListing(list *listing) {
	for _, dir := range list.dirs {
		s.dirs[dir.name] = struct{}{}
	}
	for _, f := range list.files {
		if f.linked {
			s.linked[f.name] = struct{}{}
		}
	}
	for _, dir := range list.links {
		s.linkedDirs[dir] = struct{}{}
	}
}
