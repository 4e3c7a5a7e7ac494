package confstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/confstore/doclog"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/meta"
)

// recorder is the path of every change, no matter who made it: planned, remembered, published.
// Only the store's goroutine uses it.
type recorder struct {
	// set at open
	*publisher
	clock     clock.Clock
	problems  *problems
	troubles  *troubles
	log       *doclog.Log
	documents *memory.Pool
	placer    *placer

	// store's goroutine only
	known   kv.Revision           // all versions through it are served, or were
	unsaved map[string]*doclog.By // who made versions that the log does not have; nil: only the list of bases is missing
	tries   attempts
	fault   error // why nothing is accepted until a restart; nil: no reason
	faulted bool  // a file that was never good has come or gone since the last checkMeta
}

// attempts to write the log are made at growing distances while they fail.
type attempts struct {
	first  time.Duration // set at open: between the first two
	failed error         // why the last one failed; nil: it did not
	pause  time.Duration // between the last two
	next   time.Time     // not before this
}

// ended takes note of how an attempt ended. One that was made before its time, because of a
// request, does not put off the next.
func (a *attempts) ended(now time.Time, err error) {
	if err == nil {
		a.pause = 0
		return
	}
	if now.Before(a.next) {
		return
	}
	a.pause = min(max(a.first, 2*a.pause), maxPause)
	a.next = now.Add(a.pause)
}

// errPanicked is why nothing is written after a panic of the store's goroutine: what it leaves is
// not to be used.
var errPanicked = codes.Errorf(codes.Storage, "the configuration store has failed and takes no changes until a restart; the server's log says why")

// maxPause is the longest time between attempts to write the log.
const maxPause = 30 * time.Second

func (r *recorder) planner() planner {
	return planner{prev: r.snapshot.Load(), now: r.clock.Now()}
}

// recall makes the state of the last run the one with which edits since are compared.
func (r *recorder) recall(now *Snapshot) {
	for _, name := range now.names {
		r.documents.Add(now.Node(name).cost())
		r.known = max(r.known, now.Node(name).own.revision())
	}
	r.snapshot.Store(now)
	r.logged(r.known)
}

// found records edits that were found on disk and publishes them as one batch. If the log
// cannot be written they are served anyway: the files are the truth, and a later commit catches
// up.
func (r *recorder) found(edits []edit) {
	if len(edits) == 0 {
		return
	}
	planner := r.planner()
	p, err := planner.plan(edits, false)
	if err != nil {
		// _meta.json was checked when it was read; if it fails here, serve as before.
		r.problems.set(OfFile, meta.FileName, err.Error())
		return
	}
	for i, doc := range p.docs {
		if _, highest := planner.highest(edits[i].name, p.rules); highest == math.MaxInt32 && doc.served == highest {
			r.problems.set(OfFile, edits[i].name, "has changed, but its version is at the end of all versions, so that clients do not fetch it; "+wayOut)
		}
	}
	r.take(p)
}

// take carries out a plan whether or not it can be remembered. The files are in place.
func (r *recorder) take(p *plan) {
	revisions, err := r.commit(p.change())
	if err == nil && len(revisions) > 0 {
		p.recorded(revisions[0])
		files := make([]placedFile, len(p.edits))
		for i := range p.edits {
			files[i] = placedFile{p.edits[i].name, revisions[0]}
		}
		r.placer.inPlace(files...)
	}
	r.carryOut(p.apply(&r.limits), err != nil)
	list := make([]found, len(p.edits))
	for i := range p.edits {
		list[i] = found{name: p.edits[i].name, rev: p.revision, state: p.edits[i].state}
	}
	r.completes(list...)
}

// completes has git asked about versions that may have been found on disk, when they are in the log.
func (r *recorder) completes(list ...found) {
	if r.commits == nil || len(list) == 0 || list[0].rev == 0 {
		return
	}
	until := r.clock.Now().Add(r.commits.cfg.CommitWait)
	for i := range list {
		list[i].until = until
	}
	r.commits.find(list...)
}

// commit makes changes durable, behind what the log missed while it could not be written. It waits
// as long as the disk takes. It returns the revisions of those that are durable, and why the next is
// not. Of one that failed midway no one knows before a restart, so nothing more is tried.
func (r *recorder) commit(list ...doclog.Change) (revisions []kv.Revision, err error) {
	if r.fault != nil {
		return nil, r.fault
	}
	missed, names := r.missed()
	switch {
	case len(list) == 1 && list[0].Lessens && !isAbout(&list[0], names):
		names = nil // that may find no space; it comes later
	case len(names) > 0:
		list = append([]doclog.Change{missed}, list...)
	}
	if len(list) == 0 || len(list) == 1 && list[0].Empty() {
		r.ended(r.troubles.stillFailed())
		return nil, nil
	}
	err = r.troubles.during(func() (err error) {
		revisions, err = r.log.Commit(context.Background(), list)
		return err
	})
	if len(revisions) > 0 {
		r.known = max(r.known, revisions[len(revisions)-1])
		if len(names) > 0 {
			r.saved(names, revisions[0])
			revisions = revisions[1:]
		}
	}
	if code := codes.Of(err); err != nil && (code == codes.Timeout || code == codes.Conflict) {
		r.fault = codes.Errorf(codes.Storage, "the configuration store takes no changes until a restart, because a write has failed midway: %w", err)
	}
	r.ended(err)
	return revisions, err
}

// isAbout reports whether a change is about one of these documents.
func isAbout(c *doclog.Change, names []string) bool {
	return slices.ContainsFunc(c.Versions, func(v doclog.Version) bool { return slices.Contains(names, v.Name) })
}

// missed is a change that brings the log up to what is served, of these names.
func (r *recorder) missed() (c doclog.Change, names []string) {
	c = doclog.Change{Seq: r.snapshot.Load().seq, By: by(onDisk, r.clock.Now())}
	for name, by := range r.unsaved {
		if n := r.snapshot.Load().Node(name); n.known() {
			if by != nil {
				v := n.own.remembered(name, r.placer.bytesOf(n))
				v.By = by
				c.Versions = append(c.Versions, v)
				noteDocument(&c.Note, &access.Actor{Author: by.Author, Origin: by.Origin, Address: by.Peer}, name, v.Deleted)
			}
			if n.floor != 0 || n.list != (doclog.Digest{}) {
				c.Lists = append(c.Lists, doclog.List{Name: name, Floor: n.floor, Digest: n.list})
			}
			names = append(names, name)
		}
	}
	c.Sign()
	return c, names
}

// saved takes note of documents that the log has by now.
func (r *recorder) saved(names []string, rev kv.Revision) {
	now := r.snapshot.Load()
	var placed []placedFile
	var list []found
	for _, name := range names {
		if n := now.Node(name); n.known() && r.unsaved[name] != nil {
			placed = append(placed, placedFile{name, rev})
			n.own.setRevision(rev)
			list = append(list, found{name: name, rev: rev})
		}
		delete(r.unsaved, name)
	}
	r.placer.inPlace(placed...)
	r.logged(rev)
	r.completes(list...)
}

// retry has the log remember what it missed, if it is time.
func (r *recorder) retry() {
	if r.fault != nil || r.clock.Now().Before(r.tries.next) && !r.troubles.over() {
		return
	}
	if r.tries.failed != nil || len(r.unsaved) > 0 {
		_, _ = r.commit() // noted
	}
}

// ended takes note of how the last attempt to write the log ended.
func (r *recorder) ended(err error) {
	r.tries.ended(r.clock.Now(), err)
	err = cmp.Or(err, r.fault)
	r.tries.failed = err
	r.troubles.ofLog(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.problems.set(OfLog, "log", text)
}

// stop refuses all writes until a restart.
func (r *recorder) stop(why error) {
	r.fault = why
	r.ended(nil)
}

// carryOut publishes an outcome; unsaved: it could not be remembered.
func (r *recorder) carryOut(out *outcome, unsaved bool) {
	p := out.plan
	for _, e := range p.edits {
		r.documents.Add(out.next.Node(e.name).cost() - p.prev.Node(e.name).cost())
	}
	if unsaved {
		for _, e := range p.edits {
			by := by(e.actor, p.now)
			r.unsaved[e.name] = &by
		}
		for _, l := range p.lists {
			r.unsaved[l.Name] = r.unsaved[l.Name] // nil, unless it misses the version, too
		}
	}
	r.publish(out)
	if p.newRules || p.existence {
		r.checkMeta()
	}
}

// checkMeta reports what is wrong with _meta.json, given the documents that exist.
func (r *recorder) checkMeta() {
	r.faulted = false
	var list []Problem
	now := r.snapshot.Load()
	add := func(name, text string) { list = append(list, Problem{Name: name, Text: text}) }
	for _, p := range now.rules.problems {
		add(p.Name, p.Text)
	}
	for _, p := range now.rules.meta.CheckEach(func(name string) string {
		if n := now.Node(name); n.live() {
			if !n.own.object() {
				return meta.NoObject
			}
			return ""
		}
		if broken := r.neverGood([]byte(name)); broken != nil {
			return broken.Says()
		}
		return "does not exist"
	}) {
		add(p.Name, p.Text)
	}
	r.problems.replace(OfMeta, list)
}
