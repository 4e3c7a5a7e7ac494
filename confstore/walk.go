package confstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/internal/watch"
)

const (
	// maxDepth bounds directories in directories; symlinks can make any depth.
	maxDepth = 32
	// maxDirs bounds how many directories a scan enters, for the same reason.
	maxDirs = 20_000
	// maxSkipped bounds how many files of other formats a scan names.
	maxSkipped = 100
)

// otherFormats are endings of what people may take for a configuration that is served.
var otherFormats = []string{".json", ".json5", ".jsonc", ".yaml", ".yml", ".toml", ".ini", ".properties", ".xml", ".conf", ".cfg", ".env"}

// otherFormat says of the name of a file that is no document why it is none, if people may take it
// for one.
func otherFormat(name string) string {
	end := path.Ext(name)
	if !slices.Contains(otherFormats, strings.ToLower(end)) {
		return ""
	}
	return "ends in " + end + ", and only what ends in .json is read"
}

// foundFile is a file that looks like a document.
type foundFile struct {
	name   string
	sig    signature // zero if not asked for, or if the file is too young to tell changes by it
	linked bool      // reached through a symlink: its target's directory may not be watched
	way    []string  // of a symlink, see way; else nil
}

// listing is what a walk found.
type listing struct {
	root     atomicfile.Root // that was walked
	files    []foundFile
	dirs     []watch.Dir
	links    []string // symlinks to directories, or to nothing
	temps    []string // left by a killed process
	problems []health.Problem
}

// walker lists a directory tree.
type walker struct {
	root     atomicfile.Root
	enter    func(watch.Dir) // before a directory is listed; nil = nothing
	stat     bool            // fill in signatures
	maxFiles int
	full     bool // a limit was reached
	skipped  int  // files of otherFormats that are reported
	out      listing
}

// walk lists dir and everything below it. A directory that does not exist counts as empty.
func (w *walker) walk(dir string) *listing {
	w.out.root = w.root
	chain, err := w.above(dir)
	switch {
	case err == nil:
		w.enterDir(dir, chain, linked(w.root, dir))
	case !errors.Is(err, fs.ErrNotExist):
		w.report(dir, "cannot be read: "+atomicfile.Cause(err))
	}
	return &w.out
}

// above returns the identities of the directories that contain dir, from the root down; none for
// the root.
func (w *walker) above(dir string) ([]watch.ID, error) {
	var chain []watch.ID
	for dir != "." {
		dir = path.Dir(dir)
		info, err := w.root.Stat(dir)
		if err != nil {
			return nil, err
		}
		chain = append(chain, watch.IDOf(info))
	}
	slices.Reverse(chain)
	return chain, nil
}

// linked reports whether there is a symlink on the way to dir.
func linked(root atomicfile.Root, dir string) bool {
	return !slices.Equal(way(root, dir), []string{dir})
}

func (w *walker) report(name, text string) {
	w.out.problems = append(w.out.problems, health.Problem{Name: shownName(name), Text: text})
}

// limit reports, once, that a limit was reached.
func (w *walker) limit(name, text string) {
	if !w.full {
		w.full = true
		w.report(name, text)
	}
}

// dir lists one directory; chain has the identities from the root down to it.
func (w *walker) dir(dir string, chain []watch.ID, linked bool) {
	if len(w.out.dirs) >= maxDirs {
		w.limit(dir, "there are too many directories; this one and others are not looked at")
		return
	}
	found := watch.Dir{Name: dir, ID: chain[len(chain)-1], Linked: linked}
	w.out.dirs = append(w.out.dirs, found)
	if w.enter != nil {
		w.enter(found)
	}
	entries, err := w.root.ReadDir(dir)
	if err != nil {
		w.report(dir, "cannot be read: "+atomicfile.Cause(err))
		return
	}
	for _, e := range entries {
		w.item(dir, e, chain, linked)
	}
}

func (w *walker) item(dir string, e fs.DirEntry, chain []watch.ID, linked bool) {
	name := path.Join(dir, e.Name())
	switch {
	case atomicfile.IsTemp(name):
		w.out.temps = append(w.out.temps, name)
	case strings.HasPrefix(e.Name(), "."):
	case e.Type()&fs.ModeSymlink != 0:
		w.symlink(name, chain)
	case e.IsDir():
		w.enterDir(name, chain, linked)
	default:
		w.file(foundFile{name: name, linked: linked}, nil)
	}
}

func (w *walker) symlink(name string, chain []watch.ID) {
	info, err := w.root.Stat(name)
	link := foundFile{name: name, linked: true}
	if strings.HasSuffix(name, snapshot.Suffix) {
		link.way = way(w.root, name)
	}
	switch {
	case err != nil && strings.HasSuffix(name, snapshot.Suffix):
		w.file(link, nil) // reading it says what is wrong, unless it is missing
		if fault := LinksToNothing(w.root, name); fault != "" {
			w.report(name, fault)
		}
	case err != nil:
		w.out.links = append(w.out.links, name) // its target may appear later
		w.report(name, cmp.Or(LinksToNothing(w.root, name), "is a symlink that cannot be followed inside the configuration directory: "+atomicfile.Cause(err)))
	case info.IsDir():
		w.out.links = append(w.out.links, name)
		w.enterDir(name, chain, true)
	default:
		w.file(link, info)
	}
}

// enterDir lists a directory unless it is one of those that contain it, whose identities are in
// chain.
func (w *walker) enterDir(name string, chain []watch.ID, linked bool) {
	if len(chain) >= maxDepth {
		w.report(name, "is nested too deeply and not looked at")
		return
	}
	info, err := w.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		w.report(name, "cannot be read: "+atomicfile.Cause(err))
		return
	}
	if !info.IsDir() {
		return
	}
	id := watch.IDOf(info)
	for _, above := range chain {
		if above == id {
			w.report(name, "is a symlink to a directory that it is in; it is not followed")
			return
		}
	}
	w.dir(name, append(chain[:len(chain):len(chain)], id), linked)
}

func (w *walker) file(f foundFile, info fs.FileInfo) {
	name := f.name
	if !strings.HasSuffix(name, snapshot.Suffix) {
		if fault := otherFormat(name); fault != "" && w.skipped < maxSkipped {
			w.skipped++
			w.report(name, notServed(fault))
		}
		return
	}
	if fault := nameFault(name); fault != "" {
		w.report(name, notServed(fault))
		return
	}
	if len(w.out.files) >= w.maxFiles {
		w.limit(name, "there are too many files; this one and others are not served: remove some")
		return
	}
	if w.stat && info == nil {
		info, _ = w.root.Stat(name)
	}
	if info != nil {
		f.sig = signatureOf(info)
	}
	w.out.files = append(w.out.files, f)
}

const (
	maxSegment     = 255
	maxNameInError = 80
)

// CheckName returns an error with codes.BadName if name cannot be a document's. A name is the path
// relative to the directory with '/' between its segments, and ends in ".json". No segment is empty,
// begins with a dot or is longer than 255 bytes; there are no backslashes and no control characters;
// the name is UTF-8, has at most 31 directories and is at most 1024 bytes long.
func CheckName(name string) error {
	if reason := nameFault(name); reason != "" {
		return codes.Errorf(codes.BadName, "filename %q: %s", shorten(name), reason)
	}
	return nil
}

func shorten(name string) string {
	if len(name) <= maxNameInError {
		return name
	}
	return name[:maxNameInError] + "..."
}

// nameFault returns what is wrong with a name and what to do about it, or "".
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty; give the path of a file below the configuration directory"
	case len(name) > snapshot.MaxName:
		return "is longer than 1024 bytes; shorten it"
	case !strings.HasSuffix(name, snapshot.Suffix):
		return "does not end in .json; add it"
	case !utf8.ValidString(name):
		return "is not UTF-8; rename it"
	case name[0] == '/':
		return "begins with '/'; names are relative to the configuration directory"
	case strings.Count(name, "/") >= maxDepth: // the walk would not find it
		return fmt.Sprintf("lies in more than %d directories; move it up", maxDepth-1)
	}
	if i := strings.IndexFunc(name, hostileRune); i >= 0 {
		return "contains a backslash or a control character; use '/' and printable characters"
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return "has an empty segment; write one '/' between segments"
		case segment[0] == '.':
			return "has a segment that begins with a dot; such files are not configuration"
		case len(segment) > maxSegment:
			return "has a segment longer than 255 bytes; shorten it"
		}
	}
	return ""
}

func notServed(fault string) string { return "is not served: its name " + fault }

// shownName returns any name in a form that is safe for people and JSON.
func shownName(name string) string {
	return strings.Map(func(r rune) rune {
		if r != '\\' && hostileRune(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(path.Clean(name), "?"))
}

func hostileRune(r rune) bool {
	return r == '\\' || r < ' ' || r >= 0x7f && r < 0xa0
}

// hidden reports whether a segment of a relative path begins with a dot.
func hidden(rel string) bool {
	return strings.HasPrefix(rel, ".") || strings.Contains(rel, "/.")
}

// below reports whether name is in directory dir or deeper.
func below(name, dir string) bool {
	return dir == "." || len(name) > len(dir) && name[len(dir)] == '/' && name[:len(dir)] == dir
}
