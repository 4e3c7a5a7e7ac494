package git

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"confcenter/internal/atomicfile"
)

// Trees are the work trees that a directory, and what is below it, is in at one moment. Names are
// relative to the directory, with slashes. One goroutine uses it.
type Trees struct {
	top   string                 // the directory, without symlinks
	owner uint32                 // who owns it
	repos map[string]*Repository // by directory; nil: it is in none
}

// TreesOf returns those of a directory. They are looked for when they are asked for.
func TreesOf(dir string) *Trees {
	t := &Trees{top: dir, repos: map[string]*Repository{}}
	if top, err := filepath.EvalSymlinks(dir); err == nil {
		t.top = top
	}
	if info, err := os.Stat(t.top); err == nil {
		t.owner, _ = OwnerOf(info)
	}
	return t
}

// Of finds the repository in whose work tree a directory is; nil: there is none.
func (t *Trees) Of(dir string) *Repository {
	r, known := t.repos[dir]
	if known {
		return r
	}
	if dir == "." {
		r = Above(t.top)
	} else if r = At(filepath.Join(t.top, dir)); r == nil {
		r = t.Of(path.Dir(dir))
	}
	t.repos[dir] = r
	return r
}

// Within is the path of a file in the work tree of its repository, with slashes; "": it has none.
func (t *Trees) Within(r *Repository, name string) string {
	within, err := filepath.Rel(r.Work, filepath.Join(t.top, name))
	if err != nil {
		return ""
	}
	return filepath.ToSlash(within)
}

// Believes reports whether a repository's owner may have changed a file as well; of the name "", the
// directory. Anyone might put a repository into a directory above.
func (t *Trees) Believes(r *Repository, name string) bool {
	if r.Owner == 0 || r.Owner == t.owner || r.Owner == uint32(os.Geteuid()) {
		return true
	}
	info, err := os.Stat(filepath.Join(t.top, name))
	if err != nil {
		return false
	}
	owner, known := OwnerOf(info)
	return known && r.Owner == owner
}

// Works reports whether a git command changes the work tree that the directory, or one of those named,
// is in, so that it has a lock; and when one has done so last. states are those of the repositories by
// then, by their directories.
func (t *Trees) Works(dirs map[string]struct{}) (works bool, last time.Time, states map[string]string) {
	states = map[string]string{}
	look := func(dir string) {
		r := t.Of(dir)
		if r == nil || states[r.Dir] != "" {
			return
		}
		states[r.Dir] = r.State()
		if _, err := os.Lstat(filepath.Join(r.Dir, "index.lock")); err == nil { // while a command changes the tree
			works = true
		}
		if info, err := os.Lstat(filepath.Join(r.Dir, "index")); err == nil && info.ModTime().After(last) { // when it has
			last = info.ModTime()
		}
	}
	look(".")
	for dir := range dirs {
		look(dir)
	}
	return works, last, states
}

// OwnerOf is the user who owns a file; false: that is not known.
func OwnerOf(info fs.FileInfo) (uid uint32, known bool) {
	stat, known := atomicfile.StatOf(info)
	return stat.Owner, known
}
