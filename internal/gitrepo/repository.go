// Package gitrepo tells what the newest commit of a git repository has: who made it, and which
// contents its files have.
//
// It reads the files of the repository, and nothing else. It runs no program and reads no
// configuration, so a repository can make nobody do anything, whoever made it, and there need not
// be a git. Reading takes a fraction of a millisecond, and then some microseconds for each
// directory in which something is looked up. How much is read is limited, because the files may
// be anybody's.
//
// What it does not know are reftables and the first format of pack indexes (before git 1.6); the
// answer is an error then, as it is where objects are missing, as in partial clones.
package gitrepo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	slashed "path"
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
	if info, err = os.Stat(r.Dir); err != nil || !info.IsDir() {
		return nil
	}
	stat, _ := atomicfile.StatOf(info)
	r.Owner = stat.Owner
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

// maxFile is how long a file of references is at most that is read.
const maxFile = 16 << 20

// open opens a regular file. It never waits, as it would for the writer of a pipe.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func readFile(path string) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxFile)
	}
	return string(text), err
}

// head returns the hash of the newest commit.
func (r *Repository) head() ([]byte, error) {
	text, err := readFile(filepath.Join(r.Dir, "HEAD"))
	for range 5 { // references to references
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(text)
		ref, symbolic := strings.CutPrefix(text, "ref:")
		if !symbolic {
			return hashOf([]byte(text))
		}
		if ref = strings.TrimSpace(ref); !strings.HasPrefix(ref, "refs/") || !filepath.IsLocal(ref) {
			return nil, fmt.Errorf("%q is no reference", ref)
		}
		if text, err = readFile(filepath.Join(r.common, ref)); errors.Is(err, fs.ErrNotExist) {
			text, err = r.packedRef(ref)
		}
	}
	return nil, errors.New("references go round in circles")
}

func (r *Repository) packedRef(ref string) (string, error) {
	text, err := readFile(filepath.Join(r.common, "packed-refs"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if hash, name, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok && name == ref {
			return hash, nil
		}
	}
	return "", fmt.Errorf("there is no commit on %s yet", ref)
}

// The lengths of hashes: of SHA-1 and SHA-256.
const sha1Len, sha256Len = 20, 32

func hashOf(text []byte) ([]byte, error) {
	hash := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(hash, text); err != nil || len(hash) != sha1Len && len(hash) != sha256Len {
		return nil, fmt.Errorf("%.80q is no hash", text)
	}
	return hash, nil
}

// Head is the newest commit. It must be closed.
type Head struct {
	Author  string // name and address, as the commit has them
	Subject string // the first paragraph of its message, as one line
	Hash    string // in hexadecimal

	objects *objects
	files   *tree
	before  []byte // its first parent; nil: it has none
	earlier *tree  // the files of that; nil: not looked at yet
}

// Head reads the newest commit.
func (r *Repository) Head() (*Head, error) {
	hash, err := r.head()
	if err != nil {
		return nil, err
	}
	h := &Head{Hash: hex.EncodeToString(hash), objects: newObjects(filepath.Join(r.common, "objects"), len(hash))}
	text, err := h.objects.read(hash, commit)
	if err == nil {
		err = h.parse(text)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// Close gives back the files of the repository.
func (h *Head) Close() error { return h.objects.close() }

func (h *Head) parse(text []byte) error {
	headers, message, _ := bytes.Cut(text, []byte("\n\n"))
	for line := range bytes.Lines(headers) {
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\n"), []byte(" "))
		var err error
		switch {
		case string(name) == "tree" && h.files == nil:
			h.files, err = h.objects.tree(value)
		case string(name) == "parent" && h.before == nil:
			h.before, err = hashOf(value)
		case string(name) == "author" && h.Author == "":
			at := bytes.LastIndexByte(value, '>')
			h.Author = string(value[:at+1]) // without the time
		}
		if err != nil {
			return err
		}
	}
	if h.files == nil {
		return errors.New("a commit without files")
	}
	subject, _, _ := bytes.Cut(bytes.TrimLeft(message, "\n"), []byte("\n\n"))
	h.Subject = string(bytes.Join(bytes.Fields(subject), []byte(" ")))
	return nil
}

// Has reports whether the commit has a file of that path in the work tree, with slashes, and with
// these contents. What cannot be read it does not have.
func (h *Head) Has(path string, contents []byte) bool {
	e, err := h.files.find(path)
	return err == nil && e.isFile && bytes.Equal(e.hash, h.objects.blob(contents))
}

// Removed reports whether the commit has removed the file of that path.
func (h *Head) Removed(path string) bool {
	if h.earlier == nil {
		h.earlier = &tree{}
		if text, err := h.objects.read(h.before, commit); err == nil {
			before := Head{objects: h.objects}
			if before.parse(text) == nil {
				h.earlier = before.files
			}
		}
	}
	_, err := h.files.find(path)
	e, earlier := h.earlier.find(path)
	return errors.Is(err, fs.ErrNotExist) && earlier == nil && e.isFile
}

// tree is the files of a commit.
type tree struct {
	objects *objects                    // nil: it has none
	dirs    map[string]map[string]entry // those looked at, "" and "sub/"
}

type entry struct {
	isFile, isDir bool
	hash          []byte
}

// tree is the one that a commit names.
func (o *objects) tree(name []byte) (*tree, error) {
	hash, err := hashOf(name)
	if err != nil {
		return nil, err
	}
	root, err := o.dir(hash)
	return &tree{objects: o, dirs: map[string]map[string]entry{"": root}}, err
}

// find returns what is at a path; fs.ErrNotExist: nothing is.
func (t *tree) find(path string) (entry, error) {
	dir, name := slashed.Split(path)
	list, known := t.dirs[dir]
	if !known {
		if t.objects == nil {
			return entry{}, fs.ErrNotExist
		}
		at, err := t.find(strings.TrimSuffix(dir, "/"))
		if err == nil && at.isDir {
			list, err = t.objects.dir(at.hash)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return entry{}, err
		}
		t.dirs[dir] = list
	}
	e, found := list[name]
	if !found {
		return entry{}, fs.ErrNotExist
	}
	return e, nil
}

// dir reads a directory.
func (o *objects) dir(hash []byte) (map[string]entry, error) {
	text, err := o.read(hash, treeKind)
	if err != nil {
		return nil, err
	}
	list := map[string]entry{}
	for len(text) > 0 {
		mode, rest, ok := bytes.Cut(text, []byte(" "))
		name, rest, named := bytes.Cut(rest, []byte{0})
		if !ok || !named || len(rest) < o.hashLen {
			return nil, errors.New("a damaged directory")
		}
		list[string(name)] = entry{
			isFile: bytes.HasPrefix(mode, []byte("100")), isDir: string(mode) == "40000", hash: rest[:o.hashLen],
		}
		text = rest[o.hashLen:]
	}
	return list, nil
}
