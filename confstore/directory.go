package confstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"confcenter/access/secret"
	"confcenter/codes"
	"confcenter/confstore/log"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/internal/jsontext"
	"confcenter/internal/parallel"
	"confcenter/internal/watch"
	"confcenter/meta"
)

// directory is the directory of the documents. It reads, writes and watches files. Only the
// store's goroutine uses it, unless noted otherwise.
type directory struct {
	// set at open
	cfg      *Config
	room     room
	path     string // absolute
	problems *health.Problems
	troubles *troubles
	watch    *watch.Watcher // nil without events

	// store's goroutine only
	root   atomicfile.Root
	rootID watch.ID
	states map[string]string // of repositories, by their directories, before files were read

	blind     map[string]struct{} // directories that should be watched and are not
	unwatched atomic.Int64        // how many
	first     bool                // what is read is served first by this start, without a memory of what was
}

func (d *directory) open() error {
	var err error
	if d.root, d.rootID, err = d.there(); err != nil {
		return missingDir(d.path, err)
	}
	d.openEvents()
	return nil
}

// there opens the directory that is there now.
func (d *directory) there() (root atomicfile.Root, id watch.ID, err error) {
	if root, err = d.cfg.FS.OpenRoot(d.path); err != nil {
		return nil, id, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, id, errors.Join(err, root.Close())
	}
	return root, watch.IDOf(info), nil
}

// openEvents has file events come, if they do not yet: with each scan it is tried again.
func (d *directory) openEvents() {
	if d.cfg.NoEvents {
		return
	}
	if d.watch == nil {
		var err error
		if d.watch, err = d.cfg.events(d.path); err != nil {
			d.problems.Set(OfWatch, ".", "file events are not available, changes are found only by the scan: "+watch.WhyNone(err))
			return
		}
		d.problems.Set(OfWatch, ".", "")
	}
	d.watchParent()
}

// wake is where it is told that there are events to take; nil without.
func (d *directory) wake() <-chan struct{} {
	if d.watch == nil {
		return nil
	}
	return d.watch.Wake()
}

// sees notes whether a directory is watched as it should be. What was said of it is over if it is.
func (d *directory) sees(name string, watched bool) {
	delete(d.blind, name)
	switch {
	case watched:
		d.problems.Set(OfWatch, name, "")
	case !d.cfg.NoEvents:
		d.blind[name] = struct{}{}
	}
	d.unwatched.Store(int64(len(d.blind)))
}

func missingDir(dir string, err error) error {
	return codes.Errorf(codes.NotFound, "the configuration directory %s cannot be opened, create it or name another: %w", dir, err)
}

// present reports whether the directory is there and the one that is open. It may have
// been moved away with everything in it.
func (d *directory) present() bool {
	root, id, err := d.there()
	if err != nil {
		return false
	}
	root.Close()
	return id == d.rootID
}

// reopen opens the directory that is there now and watches for its replacement. replaced
// reports whether it is a different one.
func (d *directory) reopen() (replaced bool, err error) {
	root, id, err := d.there()
	if err != nil {
		d.problems.Set(OfRoot, ".", "the configuration directory is gone, its last contents stay in service: "+atomicfile.Cause(err))
		d.troubles.ofRoot(false)
		return false, err
	}
	d.problems.Set(OfRoot, ".", "")
	d.troubles.ofRoot(true)
	if id == d.rootID {
		root.Close()
	} else {
		d.cfg.Log.Info().Str("dir", d.path).Msg("the configuration directory was replaced")
		d.root.Close()
		d.root, d.rootID, replaced = root, id, true
	}
	if d.watch != nil {
		d.watch.Remove(".")
		d.watchParent()
	}
	return replaced, nil
}

// noteDirs notes which directories there are, and are not watched.
func (d *directory) noteDirs(dirs []watch.Dir) {
	there := make(map[string]struct{}, len(dirs))
	for _, dir := range dirs {
		if there[dir.Name] = struct{}{}; d.watch == nil {
			d.sees(dir.Name, false)
		}
	}
	for name := range d.blind {
		if _, ok := there[name]; !ok {
			d.sees(name, true)
		}
	}
}

func (d *directory) watchParent() {
	text := ""
	if err := d.watch.AddParent(); err != nil {
		text = "the directory above cannot be watched, so a replaced directory is found only by the scan: " + watch.WhyNone(err)
	}
	d.problems.Set(OfWatch, "..", text)
}

// watchDir makes sure that events below dir are received, under its own name: the kernel knows
// one name for a directory, which must not be that of a symlink.
func (d *directory) watchDir(dir watch.Dir) {
	if d.watch == nil {
		d.sees(dir.Name, false)
		return
	}
	if other, known := d.watch.Named(dir.ID); known && other != dir.Name {
		if info, err := d.root.Stat(other); dir.Linked && err == nil && watch.IDOf(info) == dir.ID {
			return
		}
		d.watch.Remove(other) // a symlink's name, or the directory was moved here
	}
	err := d.watch.Add(dir)
	if d.sees(dir.Name, err == nil); err != nil {
		d.problems.Set(OfWatch, dir.Name, "cannot be watched, so its changes are found only by the scan every "+d.cfg.ScanPeriod.String()+": "+watch.WhyNone(err))
	}
}

// walker returns a walker of the current root that fills in signatures.
func (d *directory) walker(enter func(watch.Dir)) *walker {
	return &walker{root: d.root, enter: enter, stat: true, maxFiles: 2 * d.cfg.MaxFiles}
}

// prepare makes the temporary file of name, complete. The log has what it says, so it need not be
// durable.
func (d *directory) prepare(name string, data []byte, mtime int32, before reading) (*atomicfile.Pending, error) {
	if err := atomicfile.MkdirAll(d.root, path.Dir(name), 0o755); err != nil {
		return nil, err
	}
	attr := atomicfile.Attr{ModTime: time.Unix(int64(mtime), 0), Unsynced: true}
	if before.info != nil && before.info.Mode().IsRegular() {
		attr.Perm = before.info.Mode().Perm()
	}
	return atomicfile.Prepare(d.root, name, data, attr)
}

// read reads and checks one file; keep includes the bytes in the result.
func (d *directory) read(name string, keep bool) reading {
	r := reading{name: name, layout: ownLayout}
	now := d.cfg.Clock.Now()
	data, info, err := atomicfile.ReadFileIf(d.root, name, d.cfg.MaxFileBytes, func(info fs.FileInfo) error {
		if keep { // by a writer, one file after the other
			return nil
		}
		return d.room.forFile(&r, info.Size())
	})
	if info != nil {
		r.info, r.mtime, r.ahead = info, snapshot.Seconds(info.ModTime(), now), snapshot.Ahead(info.ModTime(), now)
		r.sig = signatureOf(info)
		r.changed = time.Unix(0, r.sig.ctime)
		if !r.sig.settled(now) {
			r.sig = signature{}
		}
	}
	switch {
	case errors.Is(err, errNoRoom): // r.fault says so
	case err == nil:
		r.raw = log.DigestOf(data)
		if keep || r.raw != d.room.served(name) {
			r.data = append([]byte{}, data...) // which no data is not
		}
		r.check(data, d.first || r.raw == d.room.served(name))
		if r.fault == "" {
			r.fault = RoleFault(d.root, name)
		}
		if r.fault == "" {
			if err := d.cfg.Check(name, nil, r.text, nil); err != nil {
				r.fault, r.text = "is refused: "+codes.Message(err), nil
			}
		}
		d.room.forText(&r, info.Size())
	case info != nil && info.IsDir():
		r.missing, r.isDir = true, true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		r.missing = true
	case errors.Is(err, atomicfile.ErrTooLarge):
		r.fault = fmt.Sprintf("is larger than the limit of %d bytes; make it smaller", d.cfg.MaxFileBytes)
	case errors.Is(err, atomicfile.ErrNotRegular):
		r.fault = "is not a regular file"
	default:
		r.fault = unreadable(d.root, name, err)
	}
	return r
}

// look reads a file for a moment: what is read is not kept.
func (d *directory) look(name string) reading {
	r := d.read(name, true)
	d.room.done([]reading{r})
	return r
}

// changedSince reports whether a file is another than the one that was read.
func (d *directory) changedSince(r *reading) bool {
	if r.info == nil && !r.missing || r.isDir {
		return false // it could not be looked at
	}
	info, err := d.root.Stat(r.name)
	if err != nil || r.info == nil {
		return (err == nil) != (r.info != nil)
	}
	return signatureOf(info) != signatureOf(r.info)
}

// readAll reads files in parallel; the result is in the order of names.
func (d *directory) readAll(names []string) []reading {
	readings := make([]reading, len(names))
	parallel.Each(len(names), min(runtime.GOMAXPROCS(0)+1, 16, len(names)/4), func(i int) { readings[i] = d.read(names[i], false) })
	return readings
}

// fileText formats text for people, as far as possible like the file that it replaces. Text
// that is both long and deeply nested would grow without bounds, so it stays compact.
func (d *directory) fileText(compact []byte, before reading) []byte {
	layout := before.layout
	size := layout.Len(compact)
	if int64(size) > d.cfg.MaxFileBytes {
		layout.Newline, size = "", len(compact)+len(layout.End)
	} else if before.fault == "" && !before.missing {
		if text := layout.AppendAlike(nil, compact, before.data); int64(len(text)) <= d.cfg.MaxFileBytes {
			return text
		}
	}
	return layout.Append(make([]byte, 0, size), compact)
}

// signature shows with one stat whether a file may have changed. No file has the zero
// value.
type signature struct {
	size, mtime, ctime int64
	ino, dev           uint64
}

func signatureOf(info fs.FileInfo) signature {
	stat, _ := atomicfile.StatOf(info) // where there is none, size and time must do
	return signature{size: info.Size(), mtime: info.ModTime().UnixNano(), ctime: stat.Changed, ino: stat.Inode, dev: stat.Device}
}

// tick is longer than the resolution of file times. A file changed less than that ago may
// change again and look the same.
const tick = 50 * time.Millisecond

func (s signature) settled(now time.Time) bool {
	return max(s.mtime, s.ctime) < now.Add(-tick).UnixNano()
}

// reading is a file as it is on the disk.
//
// wide: all that is found in one look, of which each later step needs some.
type reading struct {
	name    string
	missing bool
	isDir   bool   // a directory that has a document's name
	fault   string // why it cannot be served, or ""
	twice   string // that a member stands twice in it though it is served, or ""
	noRoom  bool   // because there is no memory for it, and it was not read
	room    int64  // reserved for it; see room.done
	sig     signature
	raw     log.Digest // zero if the bytes could not be read
	data    []byte     // the bytes, if they were to be kept
	text    []byte     // compact, if there is no fault
	layout  jsontext.Layout
	mtime   int32
	changed time.Time   // contents, name or attributes; zero if missing
	ahead   bool        // the file's time is too far ahead; mtime is the present
	info    fs.FileInfo // nil: it could not be looked at
}

func unreadable(root atomicfile.Root, name string, err error) string {
	if info, statErr := root.Lstat(name); statErr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "is a symlink that cannot be followed inside the configuration directory; make it relative and keep it inside: " + atomicfile.Cause(err)
	}
	return "cannot be read: " + atomicfile.Cause(err)
}

// check takes ownership of data and may change it. What is in service stays so though a member stands
// twice in it, as it could before that was refused.
func (r *reading) check(data []byte, serves bool) {
	kind, err := jsontext.CheckUTF8(data)
	if err != nil {
		r.fault = "is not valid JSON: " + faultAt(data, err)
		return
	}
	if r.name == meta.FileName && kind != jsontext.Object {
		r.fault = "must hold a JSON object"
		return
	}
	if secret.Asks(data) {
		r.fault = sealFault
		return
	}
	if err := jsontext.Twice(data); err != nil {
		if !serves {
			r.fault = "is not valid JSON: " + faultAt(data, err)
			return
		}
		r.twice = "is served, but programs do not agree on what it says; mend it: " + faultAt(data, err)
	}
	r.layout = jsontext.LayoutOf(data, ownLayout)
	r.text = jsontext.Fitted(jsontext.AppendCompact(data[:0], data))
}

func faultAt(text []byte, err error) string {
	if syntax, ok := errors.AsType[*jsontext.SyntaxError](err); ok {
		line, col := syntax.Position(text)
		return fmt.Sprintf("line %d column %d: %s", line, col, syntax.Reason)
	}
	return err.Error()
}
