package confstore

import (
	"maps"
	"slices"
	"strings"
	"time"

	"confcenter/internal/atomicfile"
)

const (
	// holdPeriod is how long a batch waits for a file in it that does not parse:
	// most likely it is being written.
	holdPeriod = 10 * time.Millisecond
	// gitPoll is how often the end of a git command is looked for, rootPoll that of
	// a missing directory.
	gitPoll  = 20 * time.Millisecond
	rootPoll = 250 * time.Millisecond
)

// settling is what has happened on the disk and was not taken in yet.
type settling struct {
	names map[string]struct{} // to be read
	dirs  map[string]struct{} // to be listed
	links bool                // something that symlinks may lead through has changed
	first time.Time           // of the events not taken in
	due   time.Time           // when to take them in, zero = nothing to do

	heldTo   time.Time // nothing is taken in before
	gitSince time.Time // when the running git command was first seen, zero = none

	missing map[string]time.Time // known files that are not there, and when they count as removed
	suspect map[string]time.Time // good files that do not parse, and when they count as broken
	rootDue time.Time            // when to look for the directory again, zero = it is there
	graceTo time.Time            // until then removals wait longer

	lastRemoval time.Time // the latest time given out for a removal
}

func newSettling() settling {
	return settling{
		names: make(map[string]struct{}), dirs: make(map[string]struct{}),
		missing: make(map[string]time.Time), suspect: make(map[string]time.Time),
	}
}

// soon asks for a look after a quiet moment, twice as long if several files change,
// because then more may come. A stream of events does not put it off for ever.
func (s *Store) soon() {
	now, quiet := s.clock.Now(), s.cfg.QuietPeriod
	if s.settle.due.IsZero() {
		s.settle.first = now
	}
	if len(s.settle.names)+len(s.settle.dirs) > 1 {
		quiet *= 2
	}
	s.settle.due = earlier(now.Add(quiet), s.settle.first.Add(s.cfg.MaxSettle))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// takeEvents notes what the watcher has collected.
func (s *Store) takeEvents() {
	ev := s.watch.collect()
	if ev.lost != "" {
		s.log.Warn().Str("reason", ev.lost).Msg("file events were lost, scanning the configuration directory")
		s.scanAgain = s.scanning // that scan may have passed by already
		s.startScan()
	}
	if ev.root {
		s.settle.rootDue = s.clock.Now()
	}
	interesting := false
	for rel := range ev.names {
		interesting = s.noteEvent(rel) || interesting
	}
	if interesting {
		s.soon()
	}
}

func (s *Store) noteEvent(rel string) bool {
	if atomicfile.IsTemp(rel) {
		return false
	}
	if hidden(rel) {
		s.settle.links = true
		return len(s.linked)+len(s.linkedDirs) > 0
	}
	if _, known := s.dirs[rel]; known || !strings.HasSuffix(rel, suffix) {
		s.settle.dirs[rel] = struct{}{}
		return true
	}
	if fault := nameFault(rel); fault != "" {
		s.reportName(rel, fault)
		return false
	}
	s.settle.names[rel] = struct{}{}
	return true
}

// reportName is for a file that a scan would leave out because of its name.
func (s *Store) reportName(rel, fault string) {
	text := ""
	if _, err := s.root.Lstat(rel); err == nil {
		text = notServed(fault)
	}
	s.problems.set(OfDirectory, shownName(rel), text)
}

// deadline is when the settling wants attention next; zero = not by itself.
func (s *Store) deadline() time.Time {
	next := s.settle.due
	take := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	take(s.settle.rootDue)
	for _, t := range s.settle.missing {
		take(t)
	}
	for _, t := range s.settle.suspect {
		take(t)
	}
	if !next.IsZero() && next.Before(s.settle.heldTo) {
		return s.settle.heldTo
	}
	return next
}

// settleNow does what is due.
func (s *Store) settleNow() {
	now := s.clock.Now()
	if now.Before(s.settle.heldTo) || s.waitForGit(now) {
		return
	}
	if due(s.settle.rootDue, now) {
		s.settle.rootDue = time.Time{}
		s.rewatch()
	}
	names := make(map[string]struct{})
	if due(s.settle.due, now) {
		s.gather(names)
	}
	for _, waiting := range [...]map[string]time.Time{s.settle.missing, s.settle.suspect} {
		for name, t := range waiting {
			if due(t, now) {
				names[name] = struct{}{}
			}
		}
	}
	s.look(slices.Collect(maps.Keys(names)), now, false)
}

// waitForGit holds everything back while a git command changes files: what it
// does belongs together. A lock that a killed git left behind must not stop the
// store, so the wait is bounded.
func (s *Store) waitForGit(now time.Time) bool {
	if !s.gitLocked() {
		s.settle.gitSince = time.Time{}
		return false
	}
	if s.settle.gitSince.IsZero() {
		s.settle.gitSince = now
	}
	if now.After(s.settle.gitSince.Add(s.cfg.GitLockWait)) {
		return false
	}
	s.settle.heldTo = now.Add(gitPoll)
	return true
}

func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// settled forgets the events that were taken in.
func (s *Store) settled(now time.Time) {
	if due(s.settle.due, now) {
		clear(s.settle.names)
		s.settle.due = time.Time{}
	}
}

// look reads names and takes in what is different. final is for when somebody has
// said that the directory is as it should be: nothing waits any longer. now is the
// moment by which names were chosen: what has fallen due since is not among them.
func (s *Store) look(names []string, now time.Time, final bool) {
	readings := s.readAll(s.root, names)
	if !final && s.hold(readings, now) {
		s.settle.heldTo = now.Add(holdPeriod)
		return
	}
	s.settled(now)
	if !final && s.anyRemoval(readings, now) && !s.rootPresent() {
		// Not the files are gone, the directory is. Look again when that is clear.
		s.postpone(readings, now)
		return
	}
	var edits []edit
	for _, r := range readings {
		if ed, ok := s.takeReading(r, now, final); ok {
			edits = append(edits, ed)
		}
	}
	s.found(edits)
}

// hold tells whether to wait because a good file of this batch does not parse and
// there is time left for whoever writes it.
func (s *Store) hold(readings []reading, now time.Time) bool {
	if !due(s.settle.due, now) || now.After(s.settle.first.Add(s.cfg.MaxSettle)) {
		return false
	}
	for _, r := range readings {
		if r.fault != "" && !s.settle.suspected(r.name) {
			if e := s.entries[r.name]; e == nil || e.broken == "" {
				return true
			}
		}
	}
	return false
}

func (t *settling) suspected(name string) bool {
	_, ok := t.suspect[name]
	return ok
}

// takeReading updates what is known of one file and says what has changed.
func (s *Store) takeReading(r reading, now time.Time, final bool) (edit, bool) {
	switch {
	case r.missing:
		return s.takeMissing(r, now, final)
	case r.fault != "":
		s.takeFault(r, now, final)
		return edit{}, false
	}
	return s.takeGood(r)
}

func (s *Store) takeGood(r reading) (edit, bool) {
	if !s.admit(r.name) {
		return edit{}, false
	}
	delete(s.settle.missing, r.name)
	delete(s.settle.suspect, r.name)
	e := s.entry(r.name)
	e.onDisk, e.sig = true, r.sig
	s.setBroken(r.name, "")
	if sameContents(e, r.text) {
		return edit{}, false
	}
	if r.ahead {
		s.log.Warn().Str("name", r.name).Msg("the file's time is more than a day ahead of the clock; it is served as if it had been changed now")
	}
	return edit{name: r.name, text: r.text, given: r.mtime, actor: onDisk}, true
}

// admit keeps the number of names within its limit.
func (s *Store) admit(name string) bool {
	if s.entries[name] != nil || len(s.entries) < s.cfg.MaxFiles {
		return true
	}
	s.problems.set(OfRoot, "files", "there are more files than the limit; those beyond are not served: remove some or raise the limit")
	return false
}

func (s *Store) takeFault(r reading, now time.Time, final bool) {
	if !s.admit(r.name) {
		return
	}
	delete(s.settle.missing, r.name)
	e := s.entry(r.name)
	e.onDisk, e.sig = true, r.sig
	if e.broken == "" && !final {
		if t, ok := s.settle.suspect[r.name]; !ok || !due(t, now) {
			if !ok {
				s.settle.suspect[r.name] = now.Add(s.cfg.BreakDelay)
			}
			return
		}
	}
	delete(s.settle.suspect, r.name)
	s.setBroken(r.name, r.fault)
}

func (s *Store) takeMissing(r reading, now time.Time, final bool) (edit, bool) {
	if r.isDir {
		s.settle.dirs[r.name] = struct{}{}
		s.soon()
	}
	e := s.entries[r.name]
	if e == nil {
		return edit{}, false
	}
	if !final {
		since, waiting := s.settle.missing[r.name]
		if !waiting {
			s.settle.missing[r.name] = s.removedAt(now)
		}
		if !waiting || !due(since, now) {
			return edit{}, false
		}
	}
	return s.removed(r.name, e, now)
}

// anyRemoval tells whether taking readings in would remove a document.
func (s *Store) anyRemoval(readings []reading, now time.Time) bool {
	for _, r := range readings {
		if r.missing && due(s.settle.missing[r.name], now) {
			return true
		}
	}
	return false
}

// postpone puts readings back because the directory was not there.
func (s *Store) postpone(readings []reading, now time.Time) {
	s.settle.rootDue = now
	for _, r := range readings {
		if r.missing {
			s.settle.missing[r.name] = now.Add(rootPoll)
		} else {
			s.settle.names[r.name] = struct{}{}
			s.soon()
		}
	}
}

// removedAt is when a file that is missing now counts as removed. Files that went
// shortly after one another, as those of a directory do, go in one batch.
func (s *Store) removedAt(now time.Time) time.Time {
	delay := s.cfg.RemoveDelay
	if now.Before(s.settle.graceTo) {
		delay = s.cfg.ReplaceGrace
	}
	if left := s.settle.lastRemoval.Sub(now); left > delay/2 && left <= delay {
		return s.settle.lastRemoval
	}
	s.settle.lastRemoval = now.Add(delay)
	return s.settle.lastRemoval
}

// removed takes in that a file is gone for good.
func (s *Store) removed(name string, e *entry, now time.Time) (edit, bool) {
	delete(s.settle.missing, name)
	delete(s.settle.suspect, name)
	e.onDisk, e.sig = false, signature{}
	shown := e.broken != ""
	s.setBroken(name, "")
	if !e.known() {
		delete(s.entries, name) // never good and now gone: nothing to remember
		if shown {
			s.tellFollowers([]string{name})
		}
	}
	if !e.live() {
		return edit{}, false
	}
	return edit{name: name, given: max(seconds(now, now), e.doc.given), actor: onDisk}, true
}

// setBroken notes why the file cannot be served now, "" if it can.
func (s *Store) setBroken(name, fault string) {
	e := s.entry(name)
	if fault == e.broken {
		return
	}
	e.broken = fault
	text := fault
	if fault != "" && e.live() {
		text += "; the last good version stays in service"
	}
	s.setFault(name, e)
	s.refresh(name)
	s.problems.set(OfFile, name, text)
}
