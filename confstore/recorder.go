package confstore

import (
	"context"
	"errors"
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
	log       *doclog.Log // used in steps of the scribe
	scribe    *scribe
	documents *memory.Pool
	placer    *placer

	// store's goroutine only
	known   kv.Revision           // all versions through it are served, or were
	unsaved map[string]*doclog.By // who made versions that the log does not have; nil: only the list of bases is missing
	unsure  bool                  // the log may have changes that are not served
	late    *writing              // what the scribe has not ended yet
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

// writing is a commit that is under way, or has ended.
type writing struct {
	missed    []string // names that are saved by its first change
	revisions []kv.Revision
}

// misses reports whether the writing is about a document of a change.
func (w *writing) misses(c *doclog.Change) bool {
	return slices.ContainsFunc(c.Versions, func(v doclog.Version) bool { return slices.Contains(w.missed, v.Name) })
}

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
	_ = r.sure() // else it is remembered later
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
	if r.unsure { // of what came before it
		r.carryOut(p.apply(&r.limits), true)
		return
	}
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

// sure serves what the log may have and the snapshot has not, before anything is planned on top of
// that. It returns why it cannot be known.
func (r *recorder) sure() error {
	if !r.unsure {
		return nil
	}
	if err := r.refusal(); err != nil {
		return err
	}
	err := r.reconcile()
	if err != nil {
		r.ended(err)
	}
	return err
}

// commit makes changes durable, behind what the log missed while it could not be written. It
// returns the revisions of those that are, and why the next is not.
func (r *recorder) commit(list ...doclog.Change) (revisions []kv.Revision, err error) {
	if err := r.refusal(); err != nil {
		return nil, err
	}
	if err := r.sure(); err != nil {
		return nil, err
	}
	w := &writing{}
	missed := r.missed(w)
	switch {
	case len(list) == 1 && list[0].Lessens && !w.misses(&list[0]):
		w.missed = nil // that may find no space; it comes later
	case len(w.missed) > 0:
		list = append([]doclog.Change{missed}, list...)
	}
	if len(list) == 0 || len(list) == 1 && list[0].Empty() {
		r.ended(r.troubles.stillFailed())
		return nil, nil
	}
	r.late = w
	err = r.scribe.do(func() (err error) {
		w.revisions, err = r.log.Commit(context.Background(), list)
		return err
	})
	if errors.Is(err, errHanging) {
		r.ended(err)
		return nil, err
	}
	return r.settled(err, false)
}

// settled goes on after a commit that has ended with err. Of what was late it is found out by
// reconciling what it has saved: it may have been edited meanwhile.
func (r *recorder) settled(err error, late bool) (revisions []kv.Revision, _ error) {
	w := r.late
	r.late = nil
	revisions = w.revisions
	if len(revisions) > 0 {
		r.known = max(r.known, revisions[len(revisions)-1])
		if len(w.missed) > 0 {
			if !late {
				r.saved(w.missed, revisions[0])
			}
			revisions = revisions[1:]
		}
	}
	code := codes.Of(err)
	r.unsure = err != nil && (code == codes.Timeout || code == codes.Conflict)
	r.ended(err)
	return revisions, err
}

// missed is a change that brings the log up to what is served.
func (r *recorder) missed(w *writing) doclog.Change {
	c := doclog.Change{Seq: r.snapshot.Load().seq, By: by(onDisk, r.clock.Now())}
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
			w.missed = append(w.missed, name)
		}
	}
	c.Sign()
	return c
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

// caughtUp goes on after a commit that was late.
func (r *recorder) caughtUp(err error) (revisions []kv.Revision, _ error) {
	r.problems.log.Info().Dur("after", r.clock.Now().Sub(r.scribe.late)).Msg("the disk of the data directory answers again")
	r.scribe.late = time.Time{}
	if r.late != nil {
		known := r.known
		revisions, err = r.settled(err, true)
		r.known = known // what took effect is not served yet
	} else {
		r.ended(err)
	}
	r.unsure, r.tries.next = true, time.Time{}
	return revisions, err
}

// retry has the log remember what it missed, if it is time.
func (r *recorder) retry() {
	if r.fault != nil || r.scribe.hangs() || r.clock.Now().Before(r.tries.next) && !r.troubles.over() {
		return
	}
	if r.tries.failed != nil || r.unsure || len(r.unsaved) > 0 {
		_, _ = r.commit() // noted
	}
}

// ended takes note of how the last attempt to write the log ended.
func (r *recorder) ended(err error) {
	r.tries.ended(r.clock.Now(), err)
	if errors.Is(err, errPanicked) {
		r.fault = errPanicked
	}
	if err == nil {
		err = r.refusal()
	}
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

// refusal returns why nothing can be written, nil if something can.
func (r *recorder) refusal() error {
	switch {
	case r.fault != nil:
		return r.fault
	case r.scribe.hangs():
		return errHanging
	}
	return nil
}

// carryOut publishes an outcome; unsaved: it could not be remembered.
func (r *recorder) carryOut(out *outcome, unsaved bool) {
	p := out.plan
	for _, e := range p.edits {
		r.documents.Add(out.next.Node(e.name).cost() - p.prev.Node(e.name).cost())
	}
	if unsaved {
		for i := range p.edits {
			r.missesEdit(p, i)
		}
		r.missesLists(p)
	}
	r.publish(out)
	if p.newRules || p.existence {
		r.checkMeta()
	}
}

// missesEdit takes note of an edit that the log does not have.
func (r *recorder) missesEdit(p *plan, i int) {
	by := by(p.edits[i].actor, p.now)
	r.unsaved[p.edits[i].name] = &by
}

// missesLists takes note of lists of bases that the log does not have.
func (r *recorder) missesLists(p *plan) {
	for _, l := range p.lists {
		r.unsaved[l.Name] = r.unsaved[l.Name] // nil, unless it misses the version, too
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
