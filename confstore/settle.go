package confstore

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/confstore/snapshot"
	"confcenter/internal/atomicfile"
)

const (
	// holdPeriod is how long a batch waits for a file in it that does not parse:
	// most likely it is being written.
	holdPeriod = 10 * time.Millisecond
	// gitPoll is how often to check whether a git command has ended, rootPoll how often to
	// look for a missing directory.
	gitPoll  = 20 * time.Millisecond
	rootPoll = 250 * time.Millisecond
	// maxLinked is how many files behind symlinks are checked with each batch; beyond it they are
	// left to events beside them and to scans.
	maxLinked = 256
	// gitLately is how long after git has written its index a work tree may be what it has just made it.
	gitLately = time.Second
)

// settling is what may have changed on the disk and has not been taken in. It is read together when
// events have been quiet for QuietPeriod, at most MaxSettle after the first of them. What is gone or
// does not parse then waits by itself, because its writer may not have finished, and while git works all
// does.
type settling struct {
	cfg   *Config             // set at open
	names map[string]struct{} // to be read
	dirs  map[string]struct{} // to be listed
	links bool                // something that symlinks may lead through has changed
	first time.Time           // of the events not taken in
	due   time.Time           // when to take them in, zero = nothing to do

	waiting map[string]wait // known files that are not there, and good ones that do not parse
	heldTo  time.Time       // nothing is taken in before
	git     gitWork

	rootDue     time.Time // when to look for the directory again, zero = it is there
	graceTo     time.Time // until then removals wait longer
	lastRemoval time.Time // the latest time given out for a removal
}

// wait is that for a file to come back, or to be complete.
type wait struct {
	missing bool
	due     time.Time // when it counts as removed, or as broken
}

// gitWork is what is known of git commands that change files.
type gitWork struct {
	since   time.Time // when the running one was first seen, zero = none
	last    time.Time // when one has last changed files, as far as was looked
	changed bool      // what has changed may be what git has done
	partly  bool      // and it may be a part of it
}

// soon schedules a look after a quiet period, twice as long if several files change, because
// more may follow. A stream of events cannot postpone it for ever.
func (t *settling) soon() {
	now, quiet := t.cfg.Clock.Now(), t.cfg.QuietPeriod
	if t.due.IsZero() {
		t.first = now
	}
	if len(t.names)+len(t.dirs) > 1 {
		quiet *= 2
	}
	t.due = earlier(now.Add(quiet), t.first.Add(t.cfg.MaxSettle))
}

// earlier is the first of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}

// over reports whether a file has been missing, or has not parsed, for as long as its writer may take.
func (t *settling) over(name string, missing bool, now time.Time) bool {
	w, waits := t.waiting[name]
	switch {
	case waits && w.missing == missing:
		return due(w.due, now)
	case missing:
		t.waiting[name] = wait{true, t.removedAt(now)}
	default:
		t.waiting[name] = wait{false, now.Add(t.cfg.BreakDelay)}
	}
	return false
}

// takeEvents takes over what the watcher has collected.
func (in *intake) takeEvents() {
	ev := in.dir.watch.Collect()
	if ev.Lost != "" {
		in.cfg.Log.Warn().Str("reason", ev.Lost).Msg("file events were lost, scanning the configuration directory")
		in.scanAgain = in.scanning // that scan may have passed by already
		in.startScan()
	}
	if ev.Root {
		in.settle.rootDue = in.cfg.Clock.Now()
	}
	interesting := false
	for rel := range ev.Names {
		interesting = in.noteEvent(rel) || interesting
	}
	if interesting {
		in.settle.soon()
	}
}

func (in *intake) noteEvent(rel string) bool {
	if atomicfile.IsTemp(rel) {
		return false
	}
	if hidden(rel) {
		in.settle.links = true
		return in.tree.hasLinks()
	}
	if _, known := in.tree.dirs[rel]; known || !strings.HasSuffix(rel, snapshot.Suffix) {
		if fault := otherFormat(rel); fault != "" && !known {
			in.reportName(rel, fault)
		}
		in.settle.dirs[rel] = struct{}{}
		return true
	}
	if fault := nameFault(rel); fault != "" {
		in.reportName(rel, fault)
		return false
	}
	in.settle.names[rel] = struct{}{}
	return true
}

// reportName reports a file that a scan would skip because of its name.
func (in *intake) reportName(rel, fault string) {
	text := ""
	if info, err := in.dir.root.Lstat(rel); err == nil && (strings.HasSuffix(rel, snapshot.Suffix) || info.Mode().IsRegular()) {
		text = notServed(fault)
	}
	in.dir.problems.Set(OfDirectory, shownName(rel), text)
}

// deadline returns when something is due next; zero = only after an event.
func (t *settling) deadline() time.Time {
	next := earlier(t.due, t.rootDue)
	for _, w := range t.waiting {
		next = earlier(next, w.due)
	}
	if !next.IsZero() && next.Before(t.heldTo) {
		return t.heldTo
	}
	return next
}

// settleNow does what is due.
func (in *intake) settleNow() {
	now := in.cfg.Clock.Now()
	if now.Before(in.settle.heldTo) || in.waitForGit(now) {
		return
	}
	if due(in.settle.rootDue, now) {
		in.settle.rootDue = time.Time{}
		in.rewatch()
	}
	names := make(map[string]struct{})
	if due(in.settle.due, now) {
		if in.settle.git.partly { // events come one after the other, and git has ended already
			in.compare()
			in.settle.git.partly = false
		}
		in.gather(names)
	}
	for name, w := range in.settle.waiting {
		if due(w.due, now) {
			names[name] = struct{}{}
		}
	}
	in.look(slices.Collect(maps.Keys(names)), now, false)
}

// waitForGit holds everything back while a git command changes files, since its changes belong
// together. The wait is bounded, because a lock left behind by a killed git must not stop the
// store.
func (in *intake) waitForGit(now time.Time) bool {
	works, last := in.dir.gitWorks(in.settle.changing())
	g, lately := &in.settle.git, now.Sub(last).Abs() < gitLately
	g.changed = lately || !g.since.IsZero()
	g.partly = g.partly || lately && !last.Equal(g.last) || !g.since.IsZero()
	if !works {
		g.last, g.since = last, time.Time{}
		return false
	}
	if g.since.IsZero() {
		g.since = now
	}
	if now.After(g.since.Add(in.cfg.GitLockWait)) {
		return false
	}
	in.settle.heldTo = now.Add(gitPoll)
	return true
}

// changing are the directories in which something has changed.
func (t *settling) changing() map[string]struct{} {
	dirs := maps.Clone(t.dirs)
	for name := range t.names {
		dirs[path.Dir(name)] = struct{}{}
	}
	for name := range t.waiting {
		dirs[path.Dir(name)] = struct{}{}
	}
	return dirs
}

func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// look reads names and takes in what has changed. final means that the directory is known to
// be complete, so nothing waits any longer. now is the time by which names were chosen: what
// has become due since is not among them.
func (in *intake) look(names []string, now time.Time, final bool) {
	readings := in.dir.readAll(names)
	defer in.dir.room.done(readings)
	if !final && in.hold(readings, now) {
		return
	}
	if due(in.settle.due, now) {
		clear(in.settle.names)
		in.settle.due = time.Time{}
	}
	if !final && in.anyRemoval(readings, now) && !in.dir.present() {
		// The directory is gone, not the files. Look again when it is back.
		in.postpone(readings, now)
		return
	}
	in.found(in.take(readings, now, final))
}

// hold holds the batch back, and reports that, while a good file in it does not parse and there is time
// left for its writer to finish; and while files are gone that git may have taken away, because they
// count as removed after RemoveDelay only, and what git does is one change.
func (in *intake) hold(readings []reading, now time.Time) bool {
	t, last := &in.settle, now
	young := due(t.due, now) && !now.After(t.first.Add(in.cfg.MaxSettle))
	git := t.git.changed && !now.Before(t.graceTo) // a replaced directory may take long to be filled
	for _, r := range readings {
		at := now
		w, waits := t.waiting[r.name]
		switch f := in.files[r.name]; {
		case young && r.fault != "" && !r.noRoom && (!waits || w.missing) && (f == nil || f.broken == ""):
			at = now.Add(holdPeriod)
		case git && r.missing && in.node(r.name).Live():
			t.over(r.name, true, now)
			at = t.waiting[r.name].due
		}
		if at.After(last) {
			last, t.heldTo = at, at
		}
	}
	return last.After(now)
}

// take updates what is known of files, and returns what has become of documents. final: see look.
func (in *intake) take(readings []reading, now time.Time, final bool) (edits []snapshot.Edit) {
	for _, r := range readings {
		var ed *snapshot.Edit
		in.tree.noteLink(in.dir, r.name)
		switch {
		case in.placer.stale(r):
		case r.missing:
			ed = in.takeMissing(r, now, final)
		case r.fault != "":
			in.takeFault(r, now, final)
		default:
			ed = in.takeGood(r)
		}
		if ed != nil {
			edits = append(edits, *ed)
		}
	}
	in.dir.sign(edits, readings)
	return edits
}

func (in *intake) takeGood(r reading) *snapshot.Edit {
	if !in.admit(r.name) {
		return nil
	}
	delete(in.settle.waiting, r.name)
	f := in.file(r.name)
	f.onDisk, f.sig = true, r.sig
	in.setBroken(r.name, "")
	in.noteTwice(r.name, f, r.twice)
	n := in.node(r.name)
	if n.Live() && n.Hash() == r.raw {
		return nil
	}
	ed := &snapshot.Edit{Name: r.name, Text: r.text, Given: r.mtime, Actor: onDisk, File: r.data, Hash: r.raw, Replaces: n.Hash()}
	if snapshot.SameContents(n, r.text) { // only its layout has changed
		ed.Quiet, ed.Given = true, n.GivenMtime()
		return ed
	}
	if r.ahead {
		in.cfg.Log.Warn().Str("name", r.name).Msg("the file's time is more than a day ahead of the clock; it is served as if it had been changed now")
	}
	return ed
}

// admit enforces the limit on the number of names.
func (in *intake) admit(name string) bool {
	if in.full(name, 0) == nil && (in.files[name] != nil || isRole(name) || !in.cfg.Documents.Over()) {
		return true
	}
	in.dir.problems.Set(OfRoot, "files", "there are more files than the limit, or than there is memory for; those beyond are not served: remove some, or raise the server's --memory")
	return false
}

// full returns why there is no room for a name in addition to more new ones; nil if there is.
func (in *intake) full(name string, more int) error {
	if in.files[name] != nil || len(in.files)+more < in.cfg.MaxFiles {
		return nil
	}
	return codes.Errorf(codes.Limit, "there are %d files, the limit; remove some", in.cfg.MaxFiles)
}

func (in *intake) takeFault(r reading, now time.Time, final bool) {
	if !in.admit(r.name) {
		return
	}
	f := in.file(r.name)
	f.onDisk, f.sig = true, r.sig
	if f.broken == "" && !final && !in.settle.over(r.name, false, now) {
		return
	}
	delete(in.settle.waiting, r.name)
	if r.noRoom && f.broken != r.fault {
		in.cfg.Documents.Refuse()
	}
	in.setBroken(r.name, r.fault)
}

func (in *intake) takeMissing(r reading, now time.Time, final bool) *snapshot.Edit {
	if r.isDir && !final {
		in.settle.dirs[r.name] = struct{}{}
		in.settle.soon()
	}
	if in.files[r.name] == nil || !final && !in.settle.over(r.name, true, now) {
		return nil
	}
	return in.removed(r.name, now)
}

// anyRemoval reports whether taking readings in would remove a document.
func (in *intake) anyRemoval(readings []reading, now time.Time) bool {
	return slices.ContainsFunc(readings, func(r reading) bool {
		return r.missing && in.settle.waiting[r.name].missing && due(in.settle.waiting[r.name].due, now)
	})
}

// postpone schedules the readings again because the directory was not there.
func (in *intake) postpone(readings []reading, now time.Time) {
	in.settle.rootDue = now
	for _, r := range readings {
		if r.missing {
			in.settle.waiting[r.name] = wait{true, now.Add(rootPoll)}
		} else {
			in.settle.names[r.name] = struct{}{}
			in.settle.soon()
		}
	}
}

// removedAt returns when a file that is missing now counts as removed. Files that disappear
// shortly after one another, as those of a directory do, are removed in one batch.
func (t *settling) removedAt(now time.Time) time.Time {
	delay := t.cfg.RemoveDelay
	if now.Before(t.graceTo) {
		delay = t.cfg.ReplaceGrace
	}
	if left := t.lastRemoval.Sub(now); left > delay/2 && left <= delay {
		return t.lastRemoval
	}
	t.lastRemoval = now.Add(delay)
	return t.lastRemoval
}

// removed takes in the removal of a file.
func (in *intake) removed(name string, now time.Time) *snapshot.Edit {
	delete(in.settle.waiting, name)
	f, n := in.file(name), in.node(name)
	in.noteTwice(name, f, "")
	f.onDisk, f.sig = false, signature{}
	shown := f.broken != ""
	in.setBroken(name, "")
	if !n.Known() {
		delete(in.files, name) // never good and now gone: nothing to remember
		in.cfg.Documents.Give(fileCost(name))
		if shown {
			in.shown(name)
		}
	}
	if !n.Live() {
		return nil
	}
	return &snapshot.Edit{Name: name, Given: max(snapshot.Seconds(now, now), n.GivenMtime()), Actor: onDisk, Replaces: n.Hash()}
}

// noteTwice reports that a member stands twice in a file that is served, until that is mended.
func (in *intake) noteTwice(name string, f *file, text string) {
	if text != "" || f.twice {
		in.dir.problems.Set(OfFile, name, text)
	}
	f.twice = text != ""
}

// setBroken records why the file cannot be served now, "" if it can.
func (in *intake) setBroken(name, fault string) {
	f := in.file(name)
	if fault == f.broken {
		return
	}
	f.broken, f.twice = fault, false // which the problem is about from now on
	in.publisher.setBroken(name, fault)
	in.faulted = in.faulted || !in.node(name).Known()
	if fault != "" && in.node(name).Live() {
		fault += "; the last good version stays in service"
	}
	in.dir.problems.Set(OfFile, name, fault)
}

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
			in.dir.watch.Remove(dir)
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
	maps.DeleteFunc(in.tree.dirs, func(known string, _ struct{}) bool { return known == dir || below(known, dir) })
	list := &listing{}
	if info, err := in.dir.root.Lstat(dir); err == nil {
		if info.Mode()&fs.ModeSymlink != 0 {
			in.tree.linkedDirs[dir] = struct{}{} // its target may appear later
		}
		list = in.dir.walker(in.dir.watchDir).walk(dir)
	}
	in.noteListing(list)
	for known := range in.dir.blind {
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
		in.tree.dirs[dir.Name] = struct{}{}
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
