// Package commits finds out which commits of git versions came with that were found on disk. It asks
// git when they are served and in the log already, and completes them there: nothing waits for it.
//
// A version came with the newest commit that has changed the file to what it has, unless that one has
// been named for the document before, or was there before the version: then its bytes come back, and
// the version stays the owner's. What git does not know yet is waited for, as people commit after they
// have saved.
package commits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/confstore/place"
	"confcenter/internal/clock"
	"confcenter/internal/git"
	"confcenter/kv"
)

// Finder asks about versions. [Finder.Run] is the goroutine that does.
type Finder struct {
	// set at the beginning
	cfg    Config
	opened time.Time // when that was, in whole seconds as commits have
	wake   chan struct{}

	waiting         atomic.Int64
	asked, failures atomic.Uint64

	mu    sync.Mutex
	fresh []*found // guarded by mu: not asked about yet
	begun bool     // guarded by mu: what is found from now on was not there at the start

	// its goroutine only
	waits  []*found
	states map[string]string // of repositories, by their directories, when they were asked last
	first  map[string]string // their newest commits at the start
	before map[string]string // likewise, by document, when it was changed last
	// directories in which something was found that was in no repository, and until when that may be
	// committed
	outside map[string]time.Time
	said    string // the failure that was logged last
}

// Config says what a Finder is about, and how patient it is.
type Config struct {
	Dir   string   // the directory of the documents
	Log   *log.Log // that the versions are in
	Clock clock.Clock
	// Wait is how long after a version was found a commit may be made that it came with.
	Wait time.Duration
	// Patience is how long git is asked at most about the versions of one round.
	Patience time.Duration
	Most     int            // versions that wait at once; of more it is not asked
	Report   zerolog.Logger // receives why something is not known
}

// Numbers are what a Finder has done.
type Numbers struct {
	Asked    uint64 // questions to git
	Failures uint64 // of these, and versions of which it was not asked because too many were waiting
	Waiting  int64  // versions with which a commit may have come, or may come yet
}

// Numbers may be called from any goroutine.
func (c *Finder) Numbers() Numbers {
	return Numbers{c.asked.Load(), c.failures.Load(), c.waiting.Load()}
}

// found is a version that was found on disk.
type found struct {
	place.File
	start bool      // it was found at the start: what was before it is not known
	until time.Time // then it is no longer waited for a commit

	// once it has been read
	n       int64
	hash    log.Digest
	deleted bool
	by      log.By
	blob    string // the hash of the file to git; "": it is deleted
	before  string // the newest commit when the document's version before was found; "": not known
	asked   bool   // so that before is right
	moved   bool   // there may have been another newest commit when it was found
	asIn    bool   // the log says that it is as in a commit
	done    bool   // nothing is waited for
}

// commitPoll is how often to look whether a repository may have a new commit.
const commitPoll = 250 * time.Millisecond

// New returns a Finder that has not begun.
func New(cfg Config) *Finder {
	c := &Finder{
		cfg: cfg, opened: cfg.Clock.Now().Truncate(time.Second), wake: make(chan struct{}, 1),
		states: map[string]string{}, first: map[string]string{}, before: map[string]string{}, outside: map[string]time.Time{},
	}
	if r := git.TreesOf(cfg.Dir).Of("."); r != nil {
		c.look(r)
	}
	return c
}

// Find asks about versions that may have been found on disk, together. It may be called from any
// goroutine, and on nil, which finds nothing.
func (c *Finder) Find(list ...place.File) {
	if c != nil {
		c.find(c.cfg.Clock.Now().Add(c.cfg.Wait), list...)
	}
}

func (c *Finder) find(until time.Time, list ...place.File) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	for _, file := range list {
		if int(c.waiting.Load()) >= c.cfg.Most {
			c.failures.Add(1)
			continue
		}
		c.waiting.Add(1)
		c.fresh = append(c.fresh, &found{File: file, start: !c.begun, until: until})
	}
	c.mu.Unlock()
	clock.Nudge(c.wake)
}

// Recall asks about the versions that the last run may not have completed.
func (c *Finder) Recall(ctx context.Context) error {
	now := c.cfg.Clock.Now()
	for before := kv.Revision(0); ; {
		const page = 100
		list, err := c.cfg.Log.Changes(ctx, before, page)
		if err != nil {
			return err
		}
		for i := range list {
			m := &list[i]
			until := time.UnixMilli(m.Time).Add(c.cfg.Wait)
			if !until.After(now) {
				return nil
			}
			touches, err := c.cfg.Log.Touched(ctx, m)
			if err != nil {
				return err
			}
			list := make([]place.File, len(touches))
			for i, t := range touches {
				list[i] = place.File{Name: t.Name, Revision: m.Revision}
			}
			c.find(until, list...)
			before = m.Revision
		}
		if len(list) < page {
			return nil
		}
	}
}

// Again has what waits looked at again, and returns when it begins to be, or is going to be next.
func (c *Finder) Again() { c.wake <- struct{}{} }

// Run asks until closing is closed.
func (c *Finder) Run(closing <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		<-closing
		cancel()
	})
	timer := c.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	c.begin(ctx)
	for {
		select {
		case <-closing:
			return
		case <-c.wake:
		case <-timer.C():
		}
		c.round(ctx)
		if len(c.waits)+len(c.outside) > 0 {
			timer.Reset(commitPoll)
		} else {
			timer.Stop()
		}
	}
}

// begin asks what the newest commit was at the start.
func (c *Finder) begin(ctx context.Context) {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
	trees := git.TreesOf(c.cfg.Dir)
	if r := trees.Of("."); r != nil {
		c.ask(ctx, trees, map[*git.Repository][]*found{r: nil})
	}
}

// round asks about what is new, what may have been committed, and once more about what is not
// waited for any longer.
func (c *Finder) round(ctx context.Context) {
	now, trees := c.cfg.Clock.Now(), git.TreesOf(c.cfg.Dir)
	if err := c.appeared(ctx, trees, now); err != nil {
		c.report(err)
	}
	c.take()
	batches, moved := map[*git.Repository][]*found{}, map[*git.Repository]bool{}
	for _, f := range c.waits {
		dir := path.Dir(f.Name)
		r := trees.Of(dir)
		if r == nil {
			c.outside[dir], f.done = f.until, true
			continue
		}
		if _, known := moved[r]; !known {
			moved[r] = c.look(r)
		}
		if f.n == 0 || moved[r] || !f.until.After(now) {
			batches[r] = append(batches[r], f)
		}
	}
	if len(batches) > 0 {
		c.ask(ctx, trees, batches)
	}
	c.waits = slices.DeleteFunc(c.waits, func(f *found) bool { return f.done || !f.until.After(now) })
	c.mu.Lock()
	c.waiting.Store(int64(len(c.waits) + len(c.fresh)))
	c.mu.Unlock()
}

// appeared asks about the newest versions if there is a repository now where none was: they may be in
// its first commit.
func (c *Finder) appeared(ctx context.Context, trees *git.Trees, now time.Time) error {
	appeared := false
	for dir, until := range c.outside {
		is := trees.Of(dir) != nil
		if appeared = appeared || is; is || !until.After(now) {
			delete(c.outside, dir)
		}
	}
	if !appeared {
		return nil
	}
	return c.Recall(ctx)
}

// take begins to wait for what was found.
func (c *Finder) take() {
	type version struct {
		name string
		rev  kv.Revision
	}
	known := make(map[version]bool, len(c.waits))
	for _, f := range c.waits {
		known[version{f.Name, f.Revision}] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.fresh {
		if v := (version{f.Name, f.Revision}); !known[v] {
			known[v] = true
			c.waits = append(c.waits, f)
		}
	}
	c.fresh = nil
}

// look reports whether a repository may have another newest commit than when it was looked at last.
func (c *Finder) look(r *git.Repository) bool {
	state := r.State()
	moved := state != c.states[r.Dir]
	c.states[r.Dir] = state
	return moved
}

// ask asks about a batch, all repositories of it within the limit.
func (c *Finder) ask(ctx context.Context, trees *git.Trees, batches map[*git.Repository][]*found) {
	limited, cancel := context.WithTimeout(ctx, c.cfg.Patience)
	defer cancel()
	for r, list := range batches {
		c.asked.Add(1)
		list, err := c.read(ctx, list)
		q := &question{Finder: c, repository: r, trees: trees, list: list}
		if err == nil {
			if err = q.ask(limited); err != nil && limited.Err() != nil {
				err = fmt.Errorf("it has taken longer than %s", c.cfg.Patience)
			}
		}
		if err != nil {
			delete(c.states, r.Dir) // it is asked again, though it does not move
		}
		if failed := c.cfg.Log.Complete(ctx, q.found); err == nil {
			err = failed
		}
		if ctx.Err() == nil {
			c.report(err)
		}
	}
}

// report counts and logs why something is not known.
func (c *Finder) report(err error) {
	said := ""
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound):
		said = "there is no git to ask, so changes of files are their owners'"
	default:
		c.failures.Add(1)
		said = "git did not say with which commits files came, so they are their owners': " + err.Error()
	}
	if said != c.said && said != "" {
		c.cfg.Report.Warn().Str("dir", c.cfg.Dir).Msg(said)
	}
	c.said = said
}

// read reads versions that are new. It leaves out what is not found on disk, or no longer kept.
func (c *Finder) read(ctx context.Context, list []*found) (left []*found, err error) {
	for _, f := range list {
		if f.n == 0 {
			if err := c.readOne(ctx, f); err != nil {
				return nil, err
			}
		}
		if !f.done {
			left = append(left, f)
		}
	}
	slices.SortStableFunc(left, func(a, b *found) int { return cmp.Compare(a.Revision, b.Revision) })
	return left, nil
}

func (c *Finder) readOne(ctx context.Context, f *found) error {
	d, err := c.cfg.Log.Document(f.Name)
	if err != nil {
		return err
	}
	n, err := c.cfg.Log.Later(ctx, &d, f.Revision-1)
	if err != nil || n > d.N {
		f.done = true
		return err
	}
	v, err := c.cfg.Log.Find(ctx, &d, n)
	if err != nil || v.Revision != f.Revision {
		f.done = true
		return nil // it is not kept any longer
	}
	change, err := c.cfg.Log.Change(ctx, v.Seq)
	if err != nil {
		return err
	}
	if f.by, err = c.cfg.Log.Who(ctx, &v, &change); err != nil {
		return err
	}
	if f.done = f.by.Origin != access.OnDisk || f.by.Commit != ""; !f.done {
		f.n, f.hash, f.deleted, f.asIn = v.N, v.Hash, v.Deleted, f.by.Comment != ""
	}
	return err
}
