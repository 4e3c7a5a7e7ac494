package confstore

import (
	"maps"
	"slices"
)

// startScan lists the whole directory on a goroutine of its own, to compare it with the known
// state. There is one scan at a time.
func (in *intake) startScan() {
	if in.scanning || !in.dir.present() {
		if !in.scanning {
			in.rewatch()
		}
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
	in.dir.problems.replace(OfDirectory, list.problems)
	if len(in.files) < in.cfg.MaxFiles && !in.cfg.Documents.Over() {
		in.dir.problems.set(OfRoot, "files", "")
	}
	in.noteRoom()
	in.noteListing(list)
	in.dir.look(list.dirs)
	if in.dir.watch != nil {
		for _, dir := range list.dirs {
			if in.dir.watch.missing(dir) {
				in.settle.dirs[dir.name] = struct{}{}
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
	if !in.rewatch() {
		return
	}
	names := make(map[string]struct{}, len(in.files))
	list := in.dir.walker(nil).walk(".")
	for _, f := range list.files {
		names[f.name] = struct{}{}
	}
	for name, f := range in.files {
		if f.onDisk {
			names[name] = struct{}{}
		}
	}
	in.dir.problems.replace(OfDirectory, list.problems)
	in.look(slices.Sorted(maps.Keys(names)), in.cfg.Clock.Now(), true)
}
