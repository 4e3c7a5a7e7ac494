package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Limits of what is read for one Head.
const (
	maxInflated   = 128 << 20 // bytes of objects
	maxObject     = 16 << 20  // bytes of one of them
	maxPacks      = 256
	maxAlternates = 8
	maxChain      = 1000 // deltas on top of each other; git makes 50
)

// kind is a type of object, as packs number them.
type kind byte

const (
	commit   kind = 1
	treeKind kind = 2

	offsetDelta kind = 6
	hashDelta   kind = 7
)

var kindNames = map[string]kind{"commit": commit, "tree": treeKind, "blob": 3, "tag": 4}

var errTooMuch = errors.New("more would have to be read than is reasonable")

// objects are the objects of a repository.
type objects struct {
	dirs    []string // of objects, the repository's own first
	hashLen int
	left    int64 // bytes that may still be read
	packs   []*pack
	listed  bool // packs are known
}

func newObjects(dir string, hashLen int) *objects {
	o := &objects{dirs: []string{dir}, hashLen: hashLen, left: maxInflated}
	for i := 0; i < len(o.dirs) && len(o.dirs) < maxAlternates; i++ {
		text, _ := readFile(filepath.Join(o.dirs[i], "info", "alternates"))
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' && len(o.dirs) < maxAlternates {
				o.dirs = append(o.dirs, within(o.dirs[i], line))
			}
		}
	}
	return o
}

func (o *objects) close() (err error) {
	for _, p := range o.packs {
		err = errors.Join(err, p.index.Close())
		if p.data != nil {
			err = errors.Join(err, p.data.Close())
		}
	}
	o.packs = nil
	return err
}

// blob is the hash of a file's contents.
func (o *objects) blob(contents []byte) []byte {
	var h hash.Hash = sha1.New()
	if o.hashLen == sha256Len {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(contents))
	h.Write(contents)
	return h.Sum(nil)
}

// read returns an object of a kind.
func (o *objects) read(hash []byte, want kind) ([]byte, error) {
	got, text, err := o.object(hash, 0)
	if err == nil && got != want {
		err = fmt.Errorf("object %x is of another kind", hash)
	}
	return text, err
}

func (o *objects) object(hash []byte, depth int) (kind, []byte, error) {
	if len(hash) != o.hashLen {
		return 0, nil, fs.ErrNotExist
	}
	name := hex.EncodeToString(hash)
	for _, dir := range o.dirs {
		f, err := open(filepath.Join(dir, name[:2], name[2:]))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		defer f.Close()
		return o.loose(f)
	}
	o.list()
	for _, p := range o.packs {
		if at, found := p.find(hash); found {
			return o.packed(p, at, depth)
		}
	}
	return 0, nil, fmt.Errorf("object %s is missing: %w", name, errMissing)
}

var errMissing = errors.New("it may be elsewhere, as in a partial clone")

// loose reads an object that has a file of its own.
func (o *objects) loose(f io.Reader) (kind, []byte, error) {
	z, err := zlib.NewReader(bufio.NewReader(f))
	if err != nil {
		return 0, nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	head, err := in.ReadSlice(0)
	if err != nil {
		return 0, nil, err
	}
	var name string
	var size int64
	if _, err := fmt.Sscanf(string(head[:len(head)-1]), "%s %d", &name, &size); err != nil {
		return 0, nil, err
	}
	text, err := o.inflated(in, size)
	return kindNames[name], text, err
}

// inflated reads an object of a known size.
func (o *objects) inflated(in io.Reader, size int64) ([]byte, error) {
	if o.left -= size; size < 0 || size > maxObject || o.left < 0 {
		return nil, errTooMuch
	}
	var text bytes.Buffer // grows with what there is, not with what is said
	if n, err := io.Copy(&text, io.LimitReader(in, size)); err != nil || n < size {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return text.Bytes(), nil
}

// list finds the packs.
func (o *objects) list() {
	if o.listed {
		return
	}
	o.listed = true
	for _, dir := range o.dirs {
		entries, _ := os.ReadDir(filepath.Join(dir, "pack"))
		for _, e := range entries {
			path, isIndex := strings.CutSuffix(filepath.Join(dir, "pack", e.Name()), ".idx")
			if !isIndex || len(o.packs) == maxPacks {
				continue
			}
			if p := openPack(path, o.hashLen); p != nil {
				o.packs = append(o.packs, p)
			}
		}
	}
}
