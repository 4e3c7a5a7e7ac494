package confstore

import (
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/internal/atomicfile"
	"confcenter/internal/gitrepo"
)

// onDisk is the actor for edits of files of which no more is known.
var onDisk = &access.Actor{Origin: access.OnDisk}

// sign finds out who has made edits that were found on disk: the author of git's newest commit, if
// that has what was found, else the file's owner.
func (d *directory) sign(edits []edit) {
	if len(edits) == 0 || d.cfg.FS != atomicfile.OS() {
		return
	}
	s := d.signing()
	defer s.close()
	for i := range edits {
		e := &edits[i]
		if c := s.commit(e.name, e.info); c != nil && (e.text != nil && c.head.Has(c.path, e.file) || e.text == nil && c.head.Removed(c.path)) {
			e.actor = c.actor
		} else if uid, ok := ownerOf(e.info); ok {
			e.actor = s.owner(uid)
		}
	}
}

// signing is what is known for one batch of the owners of files and of their repositories.
type signing struct {
	top     string                 // the directory, without symlinks
	topUser uint32                 // who owns it
	repos   map[string]*repository // by directory of documents; nil: there is none that can be read
	owners  map[uint32]*access.Actor
}

// repository is one with its newest commit.
type repository struct {
	*gitrepo.Repository
	head  *gitrepo.Head
	actor *access.Actor
}

// committed is a document's place in a commit.
type committed struct {
	*repository
	path string
}

func (d *directory) signing() *signing {
	s := &signing{top: d.path, repos: map[string]*repository{}, owners: map[uint32]*access.Actor{}}
	if top, err := filepath.EvalSymlinks(d.path); err == nil {
		s.top = top
	}
	if info, err := os.Stat(s.top); err == nil {
		s.topUser, _ = ownerOf(info)
	}
	return s
}

func (s *signing) close() {
	for _, r := range s.repos {
		if r != nil {
			_ = r.head.Close() // again, where directories share it; it was only read
		}
	}
}

// commit is the newest one of the repository that a document is in; nil if there is none that is
// believed.
func (s *signing) commit(name string, file fs.FileInfo) *committed {
	r := s.repository(path.Dir(name))
	if r == nil || !s.believes(r.Owner, file) {
		return nil
	}
	within, err := filepath.Rel(r.Work, filepath.Join(s.top, name))
	if err != nil {
		return nil
	}
	return &committed{r, filepath.ToSlash(within)}
}

// believes reports whether a repository's owner may have changed the file as well. Anybody might
// put a repository into a directory above.
func (s *signing) believes(owner uint32, file fs.FileInfo) bool {
	ofFile, owned := ownerOf(file)
	return owner == 0 || owner == s.topUser || owner == uint32(os.Geteuid()) || owned && owner == ofFile
}

// repository finds the one that a directory of documents is in, and reads its newest commit.
func (s *signing) repository(dir string) *repository {
	if r, known := s.repos[dir]; known {
		return r
	}
	var found *gitrepo.Repository
	if dir == "." {
		found = gitrepo.Above(s.top)
	} else if found = gitrepo.At(filepath.Join(s.top, dir)); found == nil {
		s.repos[dir] = s.repository(path.Dir(dir))
		return s.repos[dir]
	}
	s.repos[dir] = nil
	if found == nil {
		return nil
	}
	if head, err := found.Head(); err == nil {
		s.repos[dir] = &repository{found, head, &access.Actor{
			Origin: access.OnDisk, Author: access.Fitted(head.Author, access.MaxAuthor), Comment: access.Fitted(head.Subject, access.MaxComment), Commit: head.Hash,
		}}
	}
	return s.repos[dir]
}

// owner is the actor of edits of files of a user.
func (s *signing) owner(uid uint32) *access.Actor {
	if s.owners[uid] == nil {
		id := strconv.FormatUint(uint64(uid), 10)
		name := "uid " + id
		if u, err := user.LookupId(id); err == nil && u.Username != "" {
			name = access.Fitted(u.Username, access.MaxAuthor)
		}
		s.owners[uid] = &access.Actor{Origin: access.OnDisk, Author: name}
	}
	return s.owners[uid]
}

func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	if info == nil {
		return 0, false
	}
	stat, ok := atomicfile.StatOf(info)
	return stat.Owner, ok
}

// gitGrace is how long after git has written its index HEAD may still be what it was before: git
// puts the files in place first.
const gitGrace = 250 * time.Millisecond

// awaitsCommit reports whether to wait because git has just put files in place and HEAD does not
// have them yet. Files do not wait longer than gitGrace, however often git writes its index.
func (in *intake) awaitsCommit(readings []reading, now time.Time) bool {
	since := &in.settle.headSince
	switch {
	case !in.commitPends(readings, now):
	case since.IsZero():
		*since = now
		return true
	case now.Before(since.Add(gitGrace)):
		return true
	}
	*since = time.Time{}
	return false
}

func (in *intake) commitPends(readings []reading, now time.Time) bool {
	index, inGit := strings.CutSuffix(in.dir.gitLock, ".lock")
	if !inGit {
		return false
	}
	if info, err := os.Lstat(index); err != nil || now.Sub(info.ModTime()).Abs() > gitGrace {
		return false
	}
	s := in.dir.signing()
	defer s.close()
	for i := range readings {
		r := &readings[i]
		if n := in.node(r.name); r.missing || r.fault != "" || n.live() && n.own.hash == r.raw {
			continue
		}
		if c := s.commit(r.name, r.info); c != nil && !c.head.Has(c.path, r.data) {
			return true
		}
	}
	return false
}
