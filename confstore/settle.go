package confstore

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
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
	// gitLately is how long after git has written its index a work tree may be what it has just made it.
	gitLately = time.Second
)

// settling collects changes on the disk that have not been taken in yet.
type settling struct {
	cfg   *Config             // set at open
	names map[string]struct{} // to be read
	dirs  map[string]struct{} // to be listed
	links bool                // something that symlinks may lead through has changed
	first time.Time           // of the events not taken in
	due   time.Time           // when to take them in, zero = nothing to do

	heldTo time.Time // nothing is taken in before
	git    gitWork

	missing map[string]time.Time // known files that are not there, and when they count as removed
	suspect map[string]time.Time // good files that do not parse, and when they count as broken
	rootDue time.Time            // when to look for the directory again, zero = it is there
	graceTo time.Time            // until then removals wait longer

	lastRemoval time.Time // the latest time given out for a removal
}

// gitWork is what is known of git commands that change files.
type gitWork struct {
	since   time.Time // when the running one was first seen, zero = none
	last    time.Time // when one has last changed files, as far as was looked
	changed bool      // what has changed may be what git has done
	partly  bool      // and it may be a part of it
}

func newSettling(cfg *Config) settling {
	return settling{
		cfg:   cfg,
		names: make(map[string]struct{}), dirs: make(map[string]struct{}),
		missing: make(map[string]time.Time), suspect: make(map[string]time.Time),
	}
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

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// takeEvents takes over what the watcher has collected.
func (in *intake) takeEvents() {
	ev := in.dir.watch.collect()
	if ev.lost != "" {
		in.cfg.Log.Warn().Str("reason", ev.lost).Msg("file events were lost, scanning the configuration directory")
		in.scanAgain = in.scanning // that scan may have passed by already
		in.startScan()
	}
	if ev.root {
		in.settle.rootDue = in.cfg.Clock.Now()
	}
	interesting := false
	for rel := range ev.names {
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
		return len(in.tree.linked)+len(in.tree.linkedDirs) > 0
	}
	if _, known := in.tree.dirs[rel]; known || !strings.HasSuffix(rel, suffix) {
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
	if info, err := in.dir.root.Lstat(rel); err == nil && (strings.HasSuffix(rel, suffix) || info.Mode().IsRegular()) {
		text = notServed(fault)
	}
	in.dir.problems.set(OfDirectory, shownName(rel), text)
}

// deadline returns when something is due next; zero = only after an event.
func (t *settling) deadline() time.Time {
	next := t.due
	take := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	take(t.rootDue)
	for _, at := range t.missing {
		take(at)
	}
	for _, at := range t.suspect {
		take(at)
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
	for _, waiting := range [...]map[string]time.Time{in.settle.missing, in.settle.suspect} {
		for name, t := range waiting {
			if due(t, now) {
				names[name] = struct{}{}
			}
		}
	}
	in.look(slices.Collect(maps.Keys(names)), now, false)
}

// waitForGit holds everything back while a git command changes files, since its changes belong
// together. The wait is bounded, because a lock left behind by a killed git must not stop the
// store.
func (in *intake) waitForGit(now time.Time) bool {
	works, last := in.dir.gitWorks(in.settle.changing())
	lately := now.Sub(last).Abs() < gitLately
	in.settle.git.changed = lately || !in.settle.git.since.IsZero()
	in.settle.git.partly = in.settle.git.partly || lately && !last.Equal(in.settle.git.last) || !in.settle.git.since.IsZero()
	if !works {
		in.settle.git.last = last
		in.settle.git.since = time.Time{}
		return false
	}
	if in.settle.git.since.IsZero() {
		in.settle.git.since = now
	}
	if now.After(in.settle.git.since.Add(in.cfg.GitLockWait)) {
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
	for name := range t.missing {
		dirs[path.Dir(name)] = struct{}{}
	}
	return dirs
}

func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// settled clears the events that were taken in.
func (t *settling) settled(now time.Time) {
	if due(t.due, now) {
		clear(t.names)
		t.due = time.Time{}
	}
}

// look reads names and takes in what has changed. final means that the directory is known to
// be complete, so nothing waits any longer. now is the time by which names were chosen: what
// has become due since is not among them.
func (in *intake) look(names []string, now time.Time, final bool) {
	readings := in.dir.readAll(names)
	defer in.dir.room.done(readings)
	if !final && (in.hold(readings, now) || in.awaitsRemovals(readings, now)) {
		return
	}
	in.settle.settled(now)
	if !final && in.anyRemoval(readings, now) && !in.dir.present() {
		// The directory is gone, not the files. Look again when it is back.
		in.postpone(readings, now)
		return
	}
	var edits []edit
	for _, r := range readings {
		if ed, ok := in.takeReading(r, now, final); ok {
			edits = append(edits, ed)
		}
	}
	in.dir.sign(edits)
	in.rec.found(edits)
	if in.rec.faulted {
		in.rec.checkMeta()
	}
}

// hold reports whether to wait because a good file of this batch does not parse and
// there is time left for its writer to finish.
func (in *intake) hold(readings []reading, now time.Time) bool {
	if !due(in.settle.due, now) || now.After(in.settle.first.Add(in.cfg.MaxSettle)) {
		return false
	}
	for _, r := range readings {
		if _, suspected := in.settle.suspect[r.name]; r.fault != "" && !r.noRoom && !suspected {
			if f := in.files[r.name]; f == nil || f.broken == "" {
				in.settle.heldTo = now.Add(holdPeriod)
				return true
			}
		}
	}
	return false
}

// awaitsRemovals reports whether to wait because git has taken files away: they count as removed
// after RemoveDelay only, and what git does is one change.
func (in *intake) awaitsRemovals(readings []reading, now time.Time) bool {
	if !in.settle.git.changed || now.Before(in.settle.graceTo) { // a replaced directory may take long to be filled
		return false
	}
	last := now
	for _, r := range readings {
		if !r.missing || !in.node(r.name).live() {
			continue
		}
		at, waiting := in.settle.missing[r.name]
		if !waiting {
			at = in.settle.removedAt(now)
			in.settle.missing[r.name] = at
		}
		if at.After(last) {
			last = at
		}
	}
	in.settle.heldTo = last
	return last.After(now)
}

// takeReading updates what is known of one file and returns the change, if any.
func (in *intake) takeReading(r reading, now time.Time, final bool) (edit, bool) {
	in.tree.noteLink(in.dir, r.name)
	switch {
	case in.placer.stale(r):
		return edit{}, false
	case r.missing:
		return in.takeMissing(r, now, final)
	case r.fault != "":
		in.takeFault(r, now, final)
		return edit{}, false
	}
	return in.takeGood(r)
}

func (in *intake) takeGood(r reading) (edit, bool) {
	if !in.admit(r.name) {
		return edit{}, false
	}
	delete(in.settle.missing, r.name)
	delete(in.settle.suspect, r.name)
	f := in.file(r.name)
	f.onDisk, f.sig = true, r.sig
	in.setBroken(r.name, "")
	in.noteTwice(r.name, f, r.twice)
	n := in.node(r.name)
	if n.live() && n.own.hash == r.raw {
		return edit{}, false
	}
	ed := edit{name: r.name, text: r.text, given: r.mtime, actor: onDisk, file: r.data, hash: r.raw, info: r.info}
	if n.known() {
		ed.replaces = n.own.hash
	}
	if sameContents(n, r.text) { // only its layout has changed
		ed.quiet, ed.given = true, n.own.given
		return ed, true
	}
	if r.ahead {
		in.cfg.Log.Warn().Str("name", r.name).Msg("the file's time is more than a day ahead of the clock; it is served as if it had been changed now")
	}
	return ed, true
}

// admit enforces the limit on the number of names.
func (in *intake) admit(name string) bool {
	if in.full(name, 0) == nil && (in.files[name] != nil || isRole(name) || !in.cfg.Documents.Over()) {
		return true
	}
	in.dir.problems.set(OfRoot, "files", "there are more files than the limit, or than there is memory for; those beyond are not served: remove some, or raise the server's --memory")
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
	delete(in.settle.missing, r.name)
	f := in.file(r.name)
	f.onDisk, f.sig = true, r.sig
	if f.broken == "" && !final {
		if t, ok := in.settle.suspect[r.name]; !ok || !due(t, now) {
			if !ok {
				in.settle.suspect[r.name] = now.Add(in.cfg.BreakDelay)
			}
			return
		}
	}
	delete(in.settle.suspect, r.name)
	if r.noRoom && f.broken != r.fault {
		in.cfg.Documents.Refuse()
	}
	in.setBroken(r.name, r.fault)
}

func (in *intake) takeMissing(r reading, now time.Time, final bool) (edit, bool) {
	if r.isDir {
		in.settle.dirs[r.name] = struct{}{}
		in.settle.soon()
	}
	if in.files[r.name] == nil {
		return edit{}, false
	}
	if !final {
		since, waiting := in.settle.missing[r.name]
		if !waiting {
			in.settle.missing[r.name] = in.settle.removedAt(now)
		}
		if !waiting || !due(since, now) {
			return edit{}, false
		}
	}
	return in.removed(r.name, now)
}

// anyRemoval reports whether taking readings in would remove a document.
func (in *intake) anyRemoval(readings []reading, now time.Time) bool {
	return slices.ContainsFunc(readings, func(r reading) bool { return r.missing && due(in.settle.missing[r.name], now) })
}

// postpone schedules the readings again because the directory was not there.
func (in *intake) postpone(readings []reading, now time.Time) {
	in.settle.rootDue = now
	for _, r := range readings {
		if r.missing {
			in.settle.missing[r.name] = now.Add(rootPoll)
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
func (in *intake) removed(name string, now time.Time) (edit, bool) {
	delete(in.settle.missing, name)
	delete(in.settle.suspect, name)
	f, n := in.file(name), in.node(name)
	in.noteTwice(name, f, "")
	f.onDisk, f.sig = false, signature{}
	shown := f.broken != ""
	in.setBroken(name, "")
	if !n.known() {
		delete(in.files, name) // never good and now gone: nothing to remember
		in.cfg.Documents.Give(fileCost(name))
		if shown {
			in.rec.shown(name)
		}
	}
	if !n.live() {
		return edit{}, false
	}
	return edit{name: name, given: max(seconds(now, now), n.own.given), actor: onDisk, replaces: n.own.hash}, true
}

// noteTwice reports that a member stands twice in a file that is served, until that is mended.
func (in *intake) noteTwice(name string, f *file, text string) {
	if text != "" || f.twice {
		in.dir.problems.set(OfFile, name, text)
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
	in.rec.setBroken(name, fault)
	in.rec.faulted = in.rec.faulted || !in.node(name).known()
	if fault != "" && in.node(name).live() {
		fault += "; the last good version stays in service"
	}
	in.dir.problems.set(OfFile, name, fault)
}
