// Package git asks git about a repository that may be anyone's.
//
// Where a repository is, is found here, so that its owner can be looked at before git is. Git is
// told where it is, reads no configuration but the repository's own, and of that nothing makes it
// run a program, fetch anything or write: see command. Each question has a context that ends it.
package git

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"confcenter/internal/atomicfile"
)

// Repository is a repository with a work tree. It may be used from any goroutine.
type Repository struct {
	Work  string // where the work tree begins
	Dir   string // the repository's directory; of a linked work tree, its part of it
	Owner uint32 // the user who owns Dir

	common string // what linked work trees share
}

// Above returns the repository in whose work tree dir is, nil if it is in none.
func Above(dir string) *Repository {
	for {
		if r := At(dir); r != nil {
			return r
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil
		}
		dir = above
	}
}

// At returns the repository whose work tree begins at dir, nil if none does.
func At(dir string) *Repository {
	r := &Repository{Work: dir, Dir: filepath.Join(dir, ".git")}
	info, err := os.Lstat(r.Dir)
	if err == nil && info.Mode().IsRegular() { // of a linked work tree, or of a submodule
		text, _ := readFile(r.Dir)
		target, ok := strings.CutPrefix(text, "gitdir:")
		if !ok {
			return nil
		}
		r.Dir = within(dir, target)
	}
	if err != nil {
		return nil
	}
	if info, err = os.Stat(r.Dir); err != nil || !info.IsDir() {
		return nil
	}
	if stat, ok := atomicfile.StatOf(info); ok {
		r.Owner = stat.Owner
	}
	r.common = r.Dir
	if text, err := readFile(filepath.Join(r.Dir, "commondir")); err == nil {
		r.common = within(r.Dir, text)
	}
	return r
}

// within is a path that a file of the repository names, relative to dir.
func within(dir, path string) string {
	path = strings.TrimRight(strings.TrimLeft(path, " "), "\r\n")
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// State is other text when the newest commit may be another: a few files are looked at, as they are
// written by whatever moves HEAD.
func (r *Repository) State() string {
	files := []string{
		filepath.Join(r.Dir, "HEAD"), filepath.Join(r.Dir, "index"), filepath.Join(r.Dir, "logs", "HEAD"),
		filepath.Join(r.common, "packed-refs"), filepath.Join(r.common, "reftable", "tables.list"),
	}
	if text, err := readFile(files[0]); err == nil {
		if ref, ok := strings.CutPrefix(strings.TrimSpace(text), "ref: "); ok && filepath.IsLocal(ref) {
			files = append(files, filepath.Join(r.common, ref))
		}
	}
	var state strings.Builder
	for _, name := range files {
		if info, err := os.Lstat(name); err == nil {
			stat, _ := atomicfile.StatOf(info)
			fmt.Fprintf(&state, "%s %d %d %d\n", name, info.Size(), info.ModTime().UnixNano(), stat.Inode)
		}
	}
	return state.String()
}

// shallow are the commits whose parents the repository has not got.
func (r *Repository) shallow() map[string]bool {
	list := map[string]bool{}
	if text, err := readFile(filepath.Join(r.common, "shallow")); err == nil {
		for line := range strings.Lines(text) {
			list[strings.TrimSpace(line)] = true
		}
	}
	return list
}

// maxFile is how long a file of a repository is at most that is read here.
const maxFile = 16 << 20

// readFile reads a regular file. It never waits, as it would for the writer of a pipe.
func readFile(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return string(text), err
}
