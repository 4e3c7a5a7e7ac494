package confstore

import (
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"confcenter/access"
	"confcenter/internal/atomicfile"
	"confcenter/internal/git"
)

// onDisk is the actor for edits of files of which no more is known.
var onDisk = &access.Actor{Origin: access.OnDisk}

// sign says of edits that were found on disk that they are those of the files' owners. What git
// knows of them comes later, see commits.
func (d *directory) sign(edits []edit) {
	if d.cfg.FS != atomicfile.OS() || len(edits) == 0 {
		return
	}
	owners, trees := map[uint32]*access.Actor{}, newWorkTrees(d.path)
	for i := range edits {
		if r := trees.repository(path.Dir(edits[i].name)); r != nil {
			edits[i].state = d.states[r.Dir]
		}
		uid, ok := ownerOf(edits[i].info)
		if !ok {
			continue
		}
		if owners[uid] == nil {
			owners[uid] = owner(uid)
		}
		edits[i].actor = owners[uid]
	}
}

// owner is the actor of edits of files of a user.
func owner(uid uint32) *access.Actor {
	id := strconv.FormatUint(uint64(uid), 10)
	name := "uid " + id
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		name = access.Fitted(u.Username, access.MaxAuthor)
	}
	return &access.Actor{Origin: access.OnDisk, Author: name}
}

func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	if info == nil {
		return 0, false
	}
	stat, ok := atomicfile.StatOf(info)
	return stat.Owner, ok
}

// workTrees are where the repositories of documents are at one moment.
type workTrees struct {
	dir     string                     // the directory
	top     string                     // likewise, without symlinks
	topUser uint32                     // who owns it
	repos   map[string]*git.Repository // by directory of documents; nil: it is in none
}

func newWorkTrees(dir string) *workTrees {
	p := &workTrees{dir: dir, top: dir, repos: map[string]*git.Repository{}}
	if top, err := filepath.EvalSymlinks(dir); err == nil {
		p.top = top
	}
	if info, err := os.Stat(p.top); err == nil {
		p.topUser, _ = ownerOf(info)
	}
	return p
}

// repository finds the one in whose work tree a directory of documents is; nil: there is none.
func (p *workTrees) repository(dir string) *git.Repository {
	r, known := p.repos[dir]
	if known {
		return r
	}
	if dir == "." {
		r = git.Above(p.top)
	} else if r = git.At(filepath.Join(p.top, dir)); r == nil {
		r = p.repository(path.Dir(dir))
	}
	p.repos[dir] = r
	return r
}

// within is the path of a document in the work tree of its repository, with slashes.
func (p *workTrees) within(r *git.Repository, name string) (string, bool) {
	path, err := filepath.Rel(r.Work, filepath.Join(p.top, name))
	return filepath.ToSlash(path), err == nil
}

// believes reports whether a repository's owner may have changed a document as well. Anyone might
// put a repository into a directory above.
func (p *workTrees) believes(owner uint32, name string) bool {
	if owner == 0 || owner == p.topUser || owner == uint32(os.Geteuid()) {
		return true
	}
	info, err := os.Stat(filepath.Join(p.top, name))
	ofFile, owned := ownerOf(info)
	return err == nil && owned && owner == ofFile
}

// gitWorks reports whether a git command changes the work tree that the directory, or one of the
// directories named, is in, so that it has a lock; and when one has done so last. It is asked before
// files are read, and takes note of the states of repositories by then.
func (d *directory) gitWorks(dirs map[string]struct{}) (works bool, last time.Time) {
	if d.cfg.FS != atomicfile.OS() {
		return false, last
	}
	trees := newWorkTrees(d.path)
	d.states = map[string]string{}
	look := func(dir string) {
		r := trees.repository(dir)
		if r == nil || d.states[r.Dir] != "" {
			return
		}
		d.states[r.Dir] = r.State()
		if _, err := os.Lstat(r.Lock()); err == nil {
			works = true
		}
		if info, err := os.Lstat(r.Index()); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	look(".")
	for dir := range dirs {
		look(dir)
	}
	return works, last
}
