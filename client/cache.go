package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
	"confcenter/protocol"
)

// cache keeps on disk the last known state of each document, absence included, and the
// main config that the server assigned. Each has a file of its own, named by a hash of
// its key, which does not include the server. A nil cache keeps nothing.
//
// A file has three parts: a line with a checksum of the rest, a line of JSON that
// describes the document, and the document.
type cache struct {
	// set at open
	root   atomicfile.Root
	clock  clock.Clock
	limit  int64 // of a file, in bytes
	report func(error)

	// mu guards written. It is held while a document is written, so that the newest one
	// stays.
	mu      sync.Mutex
	written map[feedKey]writtenState // what is on disk, to write only changes
}

// writtenState identifies a state of a document without keeping it.
type writtenState struct {
	mtime  int32
	epoch  string
	exists bool
	sum    [sha256.Size]byte
}

// maxWritten limits the size of cache.written. Beyond it the cache forgets, and writes
// some documents once more.
const maxWritten = 4096

// maxCacheHeader limits the part of a cache file before the document, in bytes.
const maxCacheHeader = 64 << 10

// openCache opens Config.CacheDir; without one the cache is nil.
func openCache(cfg *Config, report func(error)) (*cache, error) {
	if cfg.CacheDir == "" {
		return nil, nil
	}
	// Configurations may hold passwords, so only the owner may read them.
	if err := os.MkdirAll(cfg.CacheDir, 0o700); err != nil {
		return nil, codes.Errorf(codes.Storage, "cache directory: %w", err)
	}
	root, err := atomicfile.OS().OpenRoot(cfg.CacheDir)
	if err != nil {
		return nil, codes.Errorf(codes.Storage, "cache directory: %w", err)
	}
	c := &cache{
		root: root, clock: cfg.Clock, limit: int64(cfg.MaxBody) + maxCacheHeader,
		report: report, written: make(map[feedKey]writtenState),
	}
	c.sweep()
	return c, nil
}

// abandoned is the age at which a temporary file must be from a process that was
// killed. A younger one may belong to another program that shares the directory.
const abandoned = time.Hour

// sweep removes temporary files of killed processes. Those that cannot be removed do no
// harm.
func (c *cache) sweep() {
	files, err := c.root.ReadDir(".")
	if err != nil {
		return
	}
	for _, f := range files {
		if !atomicfile.IsTemp(f.Name()) {
			continue
		}
		if info, err := c.root.Lstat(f.Name()); err == nil && c.clock.Now().Sub(info.ModTime()) > abandoned {
			_ = c.root.Remove(f.Name())
		}
	}
}

func (c *cache) close() error {
	if c == nil {
		return nil
	}
	return c.root.Close()
}

// entry is the contents of a cache file.
type entry struct {
	kind   string // "config" or "main"
	key    feedKey
	mtime  int32
	epoch  string
	stored time.Time // to the millisecond
	exists bool
	raw    []byte // compact JSON if exists
}

const (
	kindConfig = "config"
	kindMain   = "main" // key.name is the program's name, key.path its tag, raw the main config's name
)

// cacheMagic begins every cache file; the digit is the format's version.
const cacheMagic = "confcenter cache 1 "

func fileName(kind string, key feedKey) string {
	text := fmt.Appendf(nil, "%s\x00%s\x00%s\x00%t", kind, key.name, key.path, key.merged)
	if key.marks {
		text = append(text, "\x00marks"...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]) + ".cache"
}

func (e *entry) encode() []byte {
	about := []byte(`{"kind":`)
	about = jsontext.AppendQuote(about, e.kind)
	about = jsontext.AppendQuote(append(about, `,"name":`...), e.key.name)
	about = jsontext.AppendQuote(append(about, `,"path":`...), e.key.path)
	about = jsontext.AppendQuote(append(about, `,"epoch":`...), e.epoch)
	about = fmt.Appendf(about, `,"merged":%t,"marks":%t,"exists":%t,"mtime":%d,"stored":"%d"}`, e.key.merged, e.key.marks, e.exists, e.mtime, e.stored.UnixMilli())
	rest := append(append(about, '\n'), e.raw...)
	sum := sha256.Sum256(rest)
	out := hex.AppendEncode([]byte(cacheMagic), sum[:])
	return append(append(out, '\n'), rest...)
}

var errDamaged = errors.New("cache file is damaged")

// decodeEntry parses a cache file. It does not rely on the checksum, which anyone can
// compute.
func decodeEntry(file []byte) (*entry, error) {
	rest, ok := bytes.CutPrefix(file, []byte(cacheMagic))
	if !ok || len(rest) < 2*sha256.Size+1 || rest[2*sha256.Size] != '\n' {
		return nil, errDamaged
	}
	wanted, rest := rest[:2*sha256.Size], rest[2*sha256.Size+1:]
	sum := sha256.Sum256(rest)
	about, raw, ok := bytes.Cut(rest, []byte("\n"))
	if !ok || hex.EncodeToString(sum[:]) != string(wanted) {
		return nil, errDamaged
	}
	var r protocol.Request
	if r.Parse(about) != nil || !r.IsObject() {
		return nil, errDamaged
	}
	stored, err := strconv.ParseInt(string(r.Text("stored")), 10, 64)
	mtime, hasMtime := r.Int("mtime")
	if err != nil || !hasMtime {
		return nil, errDamaged
	}
	e := &entry{
		kind:  string(r.Text("kind")),
		key:   feedKey{string(r.Text("name")), string(r.Text("path")), r.Flag("merged"), r.Flag("marks")},
		epoch: string(r.Text("epoch")), exists: r.Flag("exists"),
		mtime: mtime, stored: time.UnixMilli(stored),
	}
	if !e.exists {
		return e, nil
	}
	if _, err := jsontext.Check(raw); err != nil {
		return nil, errDamaged
	}
	e.raw = jsontext.AppendCompact(nil, raw)
	return e, nil
}

// read returns the entry, nil if there is none or it is damaged.
func (c *cache) read(kind string, key feedKey) *entry {
	name := fileName(kind, key)
	file, info, err := atomicfile.ReadFile(c.root, name, c.limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var e *entry
	if err == nil {
		e, err = decodeEntry(file)
	}
	if err == nil && (e.kind != kind || e.key != key) {
		err = errDamaged // the file has another entry's name
	}
	if err != nil {
		c.report(codes.Errorf(codes.Storage, "cache: %s of %s is ignored: %w", name, key.name, err))
		return nil
	}
	// confirm sets the file's time.
	if at := info.ModTime(); at.After(e.stored) && !at.After(c.clock.Now()) {
		e.stored = at
	}
	return e
}

func (c *cache) write(e *entry) {
	err := atomicfile.Write(c.root, fileName(e.kind, e.key), e.encode(), atomicfile.Attr{Perm: 0o600, ModTime: e.stored})
	if err != nil {
		c.report(codes.Errorf(codes.Storage, "cache: %s cannot be written: %w", e.key.name, err))
	}
}

// load returns what is kept for key, nil if nothing is. A part of a document may also
// come from the whole one.
func (c *cache) load(key feedKey) *Document {
	if c == nil {
		return nil
	}
	return partly(key, func(key feedKey) *Document {
		e := c.read(kindConfig, key)
		if e == nil {
			return nil
		}
		return &Document{
			Name: key.name, Path: key.path, Merged: key.merged, Mtime: e.mtime,
			raw: e.raw, epoch: e.epoch, stored: e.stored, stale: true, clock: c.clock,
		}
	})
}

// partly finds a document, or cuts it from the whole one. What find returns is changed.
func partly(key feedKey, find func(feedKey) *Document) *Document {
	doc := find(key)
	if doc == nil && key.path != "" {
		if doc = find(feedKey{key.name, "", key.merged, key.marks}); doc != nil {
			doc.Path, doc.raw = key.path, cut(doc.raw, key.path)
		}
	}
	return doc
}

// cut returns what is at path in a document, nil if nothing is, as the server would
// answer.
func cut(raw []byte, path string) []byte {
	if raw == nil {
		return nil
	}
	part, ok := jsonpath.Lookup(raw, []byte(path))
	if !ok || string(part) == "null" {
		return nil
	}
	return part
}

func (c *cache) store(key feedKey, doc *Document) {
	if c == nil {
		return
	}
	now := writtenState{doc.Mtime, doc.epoch, doc.Exists(), sha256.Sum256(doc.raw)}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, known := c.written[key]
	switch {
	case known && last == now:
		c.confirm(key, doc.stored)
		return
	case known && last.epoch == now.epoch && last.mtime > now.mtime && now.mtime != 0:
		return // a newer one has been stored in the meantime
	case len(c.written) >= maxWritten:
		clear(c.written)
	}
	c.written[key] = now
	c.write(&entry{kind: kindConfig, key: key, mtime: doc.Mtime, epoch: doc.epoch, stored: doc.stored, exists: doc.Exists(), raw: doc.raw})
}

// confirm records that what is kept was still the newest at that time.
func (c *cache) confirm(key feedKey, at time.Time) {
	if c == nil {
		return
	}
	// The file may be gone: people are allowed to remove it.
	if err := c.root.Chtimes(fileName(kindConfig, key), at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.report(codes.Errorf(codes.Storage, "cache: %s: %w", key.name, err))
	}
}

func (c *cache) storeIdentity(name, tag string, who protocol.Identified) {
	if c == nil {
		return
	}
	c.write(&entry{
		kind: kindMain, key: feedKey{name: name, path: tag}, epoch: who.Epoch,
		stored: c.clock.Now(), exists: true, raw: jsontext.AppendQuote(nil, who.MainConf),
	})
}

// loadIdentity returns the main config that the server assigned last. It is false if the
// program never reached a server with this cache.
func (c *cache) loadIdentity(name, tag string) (string, bool) {
	if c == nil {
		return "", false
	}
	e := c.read(kindMain, feedKey{name: name, path: tag})
	if e == nil || jsontext.KindOf(append(e.raw, 0)) != jsontext.String {
		return "", false
	}
	return string(jsontext.Unquote(e.raw)), true
}
