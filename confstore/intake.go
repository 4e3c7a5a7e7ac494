package confstore

import (
	"maps"
	"slices"
	"sync"
	"time"

	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
)

// intake finds what people have changed in the directory, waits for it to settle, and hands it
// over. Only the store's goroutine uses it.
type intake struct {
	// set at open
	*publisher
	cfg      *Config
	dir      *directory
	placer   *placer
	found    func([]snapshot.Edit) // carries out what was found
	scans    chan *listing
	closing  <-chan struct{}
	scanners sync.WaitGroup

	// store's goroutine only
	files     map[string]*file // of all names that are documents or have a file
	settle    settling
	tree      tree
	scanning  bool
	scanAgain bool // events were lost while scanning
	faulted   bool // a file that was never good has come or gone since _meta.json was checked
}

// file is what was last read of one name.
type file struct {
	onDisk bool
	sig    signature
	broken string // why it cannot be served, or ""
	twice  bool   // it is served, and a member stands twice in it
}

// tree is the rest of the directory, besides documents.
type tree struct {
	linked     map[string][]string // files behind symlinks; of those that are symlinks themselves their way
	linkedDirs map[string]struct{} // symlinks to directories, or to nothing
	dirs       map[string]struct{} // directories that were listed
}

func newTree() tree {
	return tree{linked: make(map[string][]string), linkedDirs: make(map[string]struct{}), dirs: make(map[string]struct{})}
}

func (in *intake) node(name string) *snapshot.Node { return in.snapshot.Load().Node(name) }

func (in *intake) file(name string) *file {
	f := in.files[name]
	if f == nil {
		f = &file{}
		in.files[name] = f
		in.cfg.Documents.Add(fileCost(name))
	}
	return f
}

// recall expects the files of the documents that existed in the last run.
func (in *intake) recall() {
	now := in.snapshot.Load()
	for _, name := range now.Names() {
		in.file(name).onDisk = !now.Node(name).Deleted() // if it is not, it was removed meanwhile
	}
}

// list lists the directory, and removes what is left of writes that were interrupted. Directories
// are watched before they are listed, so that a change in between is seen by one or the other.
func (in *intake) list() []string {
	w := in.dir.walker(in.dir.watchDir)
	w.stat = false
	list := w.walk(".")
	for _, temp := range list.temps {
		if err := in.dir.root.Remove(temp); err != nil {
			in.cfg.Log.Warn().Str("name", temp).Msg("a temporary file of an interrupted write cannot be removed: " + atomicfile.Cause(err))
		}
	}
	in.noteAll(list)
	names := make([]string, 0, len(list.files))
	for _, f := range list.files {
		names = append(names, f.name)
	}
	return names
}

// retryPlacing tries to put in place the files that could not be put there before, and looks at
// those that were changed meanwhile.
func (in *intake) retryPlacing() {
	for _, name := range in.placer.retry() {
		in.settle.names[name] = struct{}{}
		in.settle.soon()
	}
}

// rewatch reopens the directory if it was replaced, watches everything in it again and finds
// what has changed. If there is no directory the last contents stay in service: treating a
// directory that is being moved or not mounted yet as ten thousand removals would do more harm
// than waiting. An empty directory does mean that everything was removed. The result is nil if there is
// none.
func (in *intake) rewatch() *listing {
	replaced, err := in.dir.reopen()
	if err != nil {
		in.settle.rootDue = in.cfg.Clock.Now().Add(rootPoll)
		return nil
	}
	in.settle.rootDue = time.Time{}
	if replaced {
		in.settle.graceTo = in.cfg.Clock.Now().Add(in.cfg.ReplaceGrace)
	}
	in.tree = newTree()
	list := in.compare()
	if len(in.settle.names) > 0 {
		in.settle.soon()
	}
	return list
}

// compare finds all names whose files differ from those that were read.
func (in *intake) compare() *listing {
	list := in.dir.walker(in.dir.watchDir).walk(".")
	in.noteAll(list)
	in.differing(list, ".")
	return list
}

// noteAll takes note of a listing of the whole directory.
func (in *intake) noteAll(list *listing) {
	in.dir.problems.Replace(OfDirectory, list.problems)
	in.noteListing(list)
}

// takeEdits publishes unseen edits of files as one batch. The readings are current.
func (in *intake) takeEdits(readings []reading) {
	good := slices.DeleteFunc(readings, func(r reading) bool { return r.fault != "" }) // no edit yet
	in.found(in.take(good, in.cfg.Clock.Now(), true))
}

// placed records that a write has put name's file in place, or removed it.
func (in *intake) placed(name string, onDisk bool) {
	f := in.file(name)
	in.noteTwice(name, f, "")
	*f = file{onDisk: onDisk}
	delete(in.settle.waiting, name)
	in.setFault(name, "", true)
}

// startScan lists the whole directory on a goroutine of its own, to compare it with the known
// state. There is one scan at a time.
func (in *intake) startScan() {
	switch {
	case in.scanning:
		return
	case !in.dir.present():
		in.rewatch()
		return
	}
	in.dir.openEvents()
	in.scanning = true
	w := in.dir.walker(nil)
	in.scanners.Go(func() {
		list := w.walk(".")
		select {
		case in.scans <- list:
		case <-in.closing:
		}
	})
}

// takeScan takes in the result of a scan. Differences are treated like events, so that they settle
// too.
func (in *intake) takeScan(list *listing) {
	in.scanning = false
	if in.scanAgain {
		in.scanAgain = false
		in.startScan()
	}
	if list.root != in.dir.root {
		return
	}
	in.noteAll(list)
	if len(in.files) < in.cfg.MaxFiles && !in.cfg.Documents.Over() {
		in.dir.problems.Set(OfRoot, "files", "")
	}
	in.noteRoom()
	in.dir.noteDirs(list.dirs)
	if in.dir.watch != nil {
		for _, dir := range list.dirs {
			if in.dir.watch.Missing(dir) {
				in.settle.dirs[dir.Name] = struct{}{}
			}
		}
	}
	in.differing(list, ".")
	if len(in.settle.names)+len(in.settle.dirs) > 0 {
		in.settle.soon()
	}
}

// reload does the work of Reload.
func (in *intake) reload() {
	list := in.rewatch()
	if list == nil {
		return
	}
	names := make(map[string]struct{}, len(in.files))
	for _, f := range list.files {
		names[f.name] = struct{}{}
	}
	for name, f := range in.files {
		if f.onDisk {
			names[name] = struct{}{}
		}
	}
	in.look(slices.Sorted(maps.Keys(names)), in.cfg.Clock.Now(), true)
}
