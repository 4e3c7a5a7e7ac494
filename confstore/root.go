package confstore

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// rootPresent tells whether the directory is there and the one that is open. It
// may have been moved away with everything in it.
func (s *Store) rootPresent() bool {
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err != nil {
		return false
	}
	defer root.Close()
	info, err := root.Stat(".")
	return err == nil && idOf(info) == s.rootID
}

// rewatch opens the directory anew if it was replaced, watches everything in it
// anew and finds what is different. If there is no directory the last contents
// stay in service: to take a directory that is moved, or not yet mounted, for ten
// thousand removals would do more harm than to wait. An empty directory does mean
// that everything was removed.
func (s *Store) rewatch() bool {
	root, err := s.cfg.FS.OpenRoot(s.dir)
	if err != nil {
		s.problems.set(OfRoot, ".", "the configuration directory is gone, its last contents stay in service: "+cause(err))
		s.settle.rootDue = s.clock.Now().Add(rootPoll)
		return false
	}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return false
	}
	s.settle.rootDue = time.Time{}
	s.problems.set(OfRoot, ".", "")
	if id := idOf(info); id == s.rootID {
		root.Close()
	} else {
		s.log.Info().Str("dir", s.dir).Msg("the configuration directory was replaced")
		s.root.Close()
		s.root, s.rootID = root, id
		s.settle.graceTo = s.clock.Now().Add(s.cfg.ReplaceGrace)
	}
	if s.watch != nil {
		s.watch.remove(".")
		if err := s.watch.watchParent(); err != nil {
			s.problems.set(OfWatch, "..", "the directory above cannot be watched, so a replaced directory is found only by the scan: "+cause(err))
		}
	}
	s.gitLock = s.findGitLock()
	clear(s.linked)
	clear(s.linkedDirs)
	clear(s.dirs)
	list := s.walker(s.watchDir).walk(".")
	s.problems.replace(OfDirectory, list.problems)
	s.noteListing(list)
	s.differing(list, ".")
	if len(s.settle.names) > 0 {
		s.soon()
	}
	return true
}

// findGitLock is the path that exists while a git command changes the work tree
// the directory is in, "" if it is in none.
func (s *Store) findGitLock() string {
	if s.watch == nil {
		return ""
	}
	for dir := s.dir; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git")
		info, err := os.Lstat(git)
		if err == nil && info.Mode().IsRegular() {
			git = gitFile(dir, git)
		}
		if err == nil {
			return filepath.Join(git, "index.lock")
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}

// gitFile follows the file that stands for the repository in a linked work tree.
func gitFile(dir, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return name
	}
	target := strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
	if filepath.IsAbs(target) {
		return target
	}
	return filepath.Join(dir, target)
}

func (s *Store) gitLocked() bool {
	if s.gitLock == "" {
		return false
	}
	_, err := os.Lstat(s.gitLock)
	return err == nil
}
