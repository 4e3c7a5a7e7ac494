package confstore

import (
	"errors"
	"math"
	"time"

	"confcenter/confstore/ledger"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/meta"
)

// recorder is the path of every change, no matter who made it: planned, remembered, published.
// Only the store's goroutine uses it.
type recorder struct {
	// set at open
	*publisher
	clock      clock.Clock
	problems   *problems
	troubles   *troubles
	ledger     ledger.Ledger // used in steps of the scribe; Err and Untidy also between them
	scribe     *scribe
	firstPause time.Duration
	documents  *memory.Pool

	// store's goroutine only
	live    int64               // roughly the size of the live data in the ledger
	unsaved map[string]struct{} // names that are out of date in the ledger because it could not be written
	owed    []func() error      // steps for when the ledger answers again
	failed  error               // why the ledger could not be written last; nil: it could
	retryAt time.Time           // when to try again
	pause   time.Duration       // between the last attempts
	fault   error               // why nothing is accepted until a restart, besides a fault of the ledger; nil: no reason
}

// maxPause is the longest time between attempts to write a ledger anew: each writes all of it.
const maxPause = 30 * time.Second

func (r *recorder) planner() planner {
	return planner{prev: r.snapshot.Load(), now: r.clock.Now()}
}

// recall makes the state of the last run the one with which edits since are compared.
func (r *recorder) recall(m ledger.Memory) {
	now := recalled(m, &r.limits)
	for _, name := range now.names {
		r.live += now.Node(name).size()
		r.documents.Add(now.Node(name).cost())
	}
	r.snapshot.Store(now)
}

// found records edits that were found on disk and publishes them as one batch. If the ledger
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

// take carries out a plan whether or not it can be remembered.
func (r *recorder) take(p *plan) {
	err := r.commit(p.change())
	r.carryOut(p.apply(&r.limits), err != nil)
}

// commit makes c durable, together with what the ledger missed while it could not be written.
// After errHanging it may still become durable.
func (r *recorder) commit(c ledger.Change) error {
	if r.fault != nil {
		return r.fault
	}
	all := r.withUnsaved(c)
	err := r.scribe.do(func() error { return r.ledger.Commit(all) })
	if err == nil {
		clear(r.unsaved)
	}
	r.noted(err)
	return err
}

func (r *recorder) withUnsaved(c ledger.Change) ledger.Change {
	if len(r.unsaved) == 0 {
		return c
	}
	var all ledger.Change
	now := r.snapshot.Load()
	for name := range r.unsaved {
		now.Node(name).remembered(&all)
	}
	all.Lists, all.Versions = append(all.Lists, c.Lists...), append(all.Versions, c.Versions...)
	return all
}

// owe has the ledger carry out step now or, if it does not answer, before anything else when it
// does.
func (r *recorder) owe(step func() error) {
	if r.scribe.hangs() {
		r.owed = append(r.owed, step)
		return
	}
	r.noted(r.scribe.do(step))
}

// caughtUp goes on after a step that was late has ended with err.
func (r *recorder) caughtUp(err error) {
	r.problems.log.Info().Dur("after", r.clock.Now().Sub(r.scribe.late)).Msg("the disk of the data directory answers again")
	r.scribe.late = time.Time{}
	owed := r.owed
	r.owed = nil
	if len(owed) > 0 {
		err = errors.Join(err, r.scribe.do(func() error {
			var errs []error
			for _, step := range owed {
				errs = append(errs, step())
			}
			return errors.Join(errs...)
		}))
	}
	r.noted(err)
	r.retryAt = time.Time{}
	r.retry()
}

// retry has the ledger remember what it missed, if it is time.
func (r *recorder) retry() {
	switch {
	case r.fault != nil || r.scribe.hangs() || r.clock.Now().Before(r.retryAt):
	case r.failed != nil:
		r.renew()
	case len(r.unsaved) > 0:
		_ = r.commit(ledger.Change{}) // noted
	}
}

// renew has the ledger written anew, as it is after it failed or when most of it is garbage.
func (r *recorder) renew() {
	all := r.everything()
	err := r.scribe.do(func() error { return r.ledger.Renew(all) })
	if err == nil {
		clear(r.unsaved)
		r.pause = 0
	} else {
		r.pause = min(max(r.firstPause, 2*r.pause), maxPause)
		r.retryAt = r.clock.Now().Add(r.pause)
	}
	r.noted(err)
}

// noted takes note of how the last attempt to write the ledger ended.
func (r *recorder) noted(err error) {
	if errors.Is(err, errPanicked) {
		r.fault = errPanicked
	}
	if err == nil {
		err = r.refusal()
	}
	r.failed = err
	r.troubles.ofLedger(err)
	text := ""
	if err != nil {
		text = err.Error()
	}
	r.problems.set(OfJournal, ledger.JournalName, text)
}

// stop refuses all writes until a restart.
func (r *recorder) stop(why error) {
	r.fault = why
	r.noted(nil)
}

// refusal returns why nothing can be written, nil if something can.
func (r *recorder) refusal() error {
	switch {
	case r.fault != nil:
		return r.fault
	case r.scribe.hangs():
		return errHanging
	}
	return r.ledger.Err()
}

// carryOut publishes an outcome; unsaved: it could not be remembered.
func (r *recorder) carryOut(out *outcome, unsaved bool) {
	p := out.plan
	for _, e := range p.edits {
		r.live += out.next.Node(e.name).size() - p.prev.Node(e.name).size()
		r.documents.Add(out.next.Node(e.name).cost() - p.prev.Node(e.name).cost())
		r.missed(e.name, unsaved)
	}
	for _, l := range p.lists {
		r.missed(l.Name, unsaved)
	}
	r.publish(out)
	if p.newRules || p.existence {
		r.checkMeta(out.next)
	}
}

func (r *recorder) missed(name string, unsaved bool) {
	if unsaved {
		r.unsaved[name] = struct{}{}
	}
}

// checkMeta reports what is wrong with _meta.json, given the documents that exist.
func (r *recorder) checkMeta(now *Snapshot) {
	var list []Problem
	add := func(name, text string) { list = append(list, Problem{Name: name, Text: text}) }
	for _, p := range now.rules.problems {
		add(p.Name, p.Text)
	}
	for _, p := range now.rules.meta.Check(func(name string) bool { return now.Node(name).live() }) {
		add(p.Name, p.Text)
	}
	r.problems.replace(OfMeta, list)
}

// tidy has the ledger rewritten if most of it is garbage, unless a restart needs what it says
// about a write that may be lost.
func (r *recorder) tidy() {
	if r.fault == nil && r.failed == nil && !r.scribe.hangs() && r.ledger.Untidy(r.live) && !r.clock.Now().Before(r.retryAt) {
		r.renew()
	}
}

// everything returns all that the ledger has to remember.
func (r *recorder) everything() ledger.Change {
	var all ledger.Change
	now := r.snapshot.Load()
	for _, name := range now.names {
		now.Node(name).remembered(&all)
	}
	return all
}
