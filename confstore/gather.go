package confstore

import (
	"io/fs"
	"maps"
)

// maxLinked is how many files behind symlinks are checked with each batch; beyond it they are
// left to events beside them and to scans.
const maxLinked = 256

// gather collects the names that events refer to, directly or through directories and
// symlinks.
func (in *intake) gather(names map[string]struct{}) {
	in.forgetWatches()
	for dir := range in.settle.dirs {
		in.gatherDir(dir)
	}
	clear(in.settle.dirs)
	for name := range in.settle.names {
		if info, err := in.dir.root.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			in.tree.linked[name] = way(in.dir.root, name)
		} else if in.tree.linked[name] != nil {
			in.tree.linked[name] = nil
		}
	}
	if in.settle.links || len(in.tree.linked) <= maxLinked {
		before := len(in.settle.names)
		in.gatherLinks()
		if len(in.settle.names) > before {
			// The symlink that all lead through may have been replaced halfway, and what changes
			// with it belongs together.
			in.gatherLinks()
		}
	}
	in.settle.links = false
	maps.Copy(names, in.settle.names)
}

// forgetWatches ends the watches on the directories that are going to be listed: the kernel's
// watch ends with the directory, and a new directory can look the same. It ends all of them
// first, because a directory may have moved from one name to another. Names that neither were
// nor are directories are dropped.
func (in *intake) forgetWatches() {
	for dir := range in.settle.dirs {
		if _, known := in.tree.dirs[dir]; !known && !in.mayBeDir(dir) {
			delete(in.settle.dirs, dir)
			continue
		}
		if in.dir.watch != nil {
			in.dir.watch.remove(dir)
		}
		if _, linked := in.tree.linkedDirs[dir]; linked {
			in.startScan() // the directory may have been watched under this name only
		}
	}
}

func (in *intake) mayBeDir(name string) bool {
	info, err := in.dir.root.Lstat(name)
	return err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0)
}

// gatherDir handles a name that is, was or may be a directory.
func (in *intake) gatherDir(dir string) {
	delete(in.tree.linkedDirs, dir)
	var had []string
	for known := range in.tree.dirs {
		if known == dir || below(known, dir) {
			delete(in.tree.dirs, known)
			had = append(had, known)
		}
	}
	list := &listing{}
	if info, err := in.dir.root.Lstat(dir); err == nil {
		if info.Mode()&fs.ModeSymlink != 0 {
			in.tree.linkedDirs[dir] = struct{}{} // its target may appear later
		}
		list = in.dir.walker(in.dir.watchDir).walk(dir)
	}
	in.noteListing(list)
	for _, known := range had {
		if _, there := in.tree.dirs[known]; !there {
			in.dir.sees(known, true) // there is nothing to watch
		}
	}
	in.differing(list, dir)
}

// gatherLinks finds changes behind symlinks, which may cause no events.
func (in *intake) gatherLinks() {
	for dir := range in.tree.linkedDirs {
		list := in.dir.walker(in.dir.watchDir).walk(dir)
		in.noteListing(list)
		in.differing(list, dir)
	}
	for name, places := range in.tree.linked {
		if places != nil { // a symlink that it leads through may be another
			in.tree.linked[name] = way(in.dir.root, name)
		}
		info, err := in.dir.root.Stat(name)
		f := in.files[name]
		if err == nil && (f == nil || signatureOf(info) != f.sig) || err != nil && f != nil && f.onDisk {
			in.settle.names[name] = struct{}{}
		}
		if err == nil {
			continue
		}
		if _, err := in.dir.root.Lstat(name); err != nil {
			in.tree.noteLink(in.dir, name)
			delete(in.tree.linked, name)
		}
	}
}

// differing records the names below dir whose files differ from those that were read.
func (in *intake) differing(list *listing, dir string) {
	listed := make(map[string]struct{}, len(list.files))
	for _, f := range list.files {
		listed[f.name] = struct{}{}
		if known := in.files[f.name]; known == nil || known.sig != f.sig || f.sig == (signature{}) {
			in.settle.names[f.name] = struct{}{}
		}
	}
	for name, f := range in.files {
		if _, ok := listed[name]; !ok && f.onDisk && below(name, dir) {
			in.settle.names[name] = struct{}{}
		}
	}
}

// noteListing records which directories exist and what lies behind symlinks.
func (in *intake) noteListing(list *listing) {
	for _, dir := range list.dirs {
		in.tree.dirs[dir.name] = struct{}{}
	}
	for _, f := range list.files {
		if f.linked {
			in.tree.linked[f.name] = f.way
		}
	}
	for _, dir := range list.links {
		in.tree.linkedDirs[dir] = struct{}{}
	}
}
