package confstore

import (
	"io/fs"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"

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
	owners, trees, states := map[uint32]*access.Actor{}, newWorkTrees(d.path), map[*git.Repository]string{}
	for i := range edits {
		if r := trees.repository(path.Dir(edits[i].name)); r != nil {
			if states[r] == "" {
				states[r] = r.State()
			}
			edits[i].state = states[r]
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

// believes reports whether a repository's owner may have changed a document as well. Anybody might
// put a repository into a directory above.
func (p *workTrees) believes(owner uint32, name string) bool {
	if owner == 0 || owner == p.topUser || owner == uint32(os.Geteuid()) {
		return true
	}
	info, err := os.Stat(filepath.Join(p.top, name))
	ofFile, owned := ownerOf(info)
	return err == nil && owned && owner == ofFile
}

// gitLocked reports whether a git command changes the work tree that the directory, or one of the
// directories named, is in: it has a lock.
func (d *directory) gitLocked(dirs map[string]struct{}) bool {
	if d.cfg.FS != atomicfile.OS() {
		return false
	}
	p := newWorkTrees(d.path)
	locked := func(dir string) bool {
		r := p.repository(dir)
		if r == nil {
			return false
		}
		_, err := os.Lstat(r.Lock())
		return err == nil
	}
	if locked(".") {
		return true
	}
	for dir := range dirs {
		if locked(dir) {
			return true
		}
	}
	return false
}
