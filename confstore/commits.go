package confstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/git"
	"confcenter/kv"
)

// commits finds out which commits versions came with that were found on disk. It asks git when they
// are served and in the log already, and completes them there: nothing waits for it.
//
// A version came with the newest commit that has changed the file to what it has, unless that one has
// been named for the document before, or was there before the version: then its bytes come back, and
// the version stays the owner's. What git does not know yet is waited for, as people commit after they
// have saved.
type commits struct {
	numbers

	// set at open
	opened time.Time // when that was, in whole seconds as commits have
	cfg    *Config
	trees  *workTrees // at the start
	log    *log.Log
	wake   chan struct{}

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

// numbers are what Stats says of commits.
type numbers struct {
	waiting         atomic.Int64
	asked, failures atomic.Uint64
}

// found is a version that was found on disk.
type found struct {
	placedFile
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

func newCommits(cfg *Config, dir string, log *log.Log) *commits {
	c := &commits{
		opened: cfg.Clock.Now().Truncate(time.Second), cfg: cfg, trees: newWorkTrees(dir), log: log, wake: make(chan struct{}, 1),
		states: map[string]string{}, first: map[string]string{}, before: map[string]string{}, outside: map[string]time.Time{},
	}
	if r := c.trees.repository("."); r != nil {
		c.look(r)
	}
	return c
}

// find asks about versions that may have been found on disk, together. It may be called from any
// goroutine.
func (c *commits) find(until time.Time, list ...placedFile) {
	if c == nil || len(list) == 0 {
		return
	}
	c.mu.Lock()
	for _, f := range list {
		if int(c.waiting.Load()) >= c.cfg.MaxFiles {
			c.failures.Add(1)
			continue
		}
		c.waiting.Add(1)
		c.fresh = append(c.fresh, &found{placedFile: f, start: !c.begun, until: until})
	}
	c.mu.Unlock()
	clock.Nudge(c.wake)
}

// recall asks about the versions that the last run may not have completed.
func (c *commits) recall(ctx context.Context) error {
	now := c.cfg.Clock.Now()
	for before := kv.Revision(0); ; {
		const page = 100
		list, err := c.log.Changes(ctx, before, page)
		if err != nil {
			return err
		}
		for i := range list {
			m := &list[i]
			until := time.UnixMilli(m.Time).Add(c.cfg.CommitWait)
			if !until.After(now) {
				return nil
			}
			touches, err := c.log.Touched(ctx, m)
			if err != nil {
				return err
			}
			list := make([]placedFile, len(touches))
			for i, t := range touches {
				list[i] = placedFile{name: t.Name, rev: m.Revision}
			}
			c.find(until, list...)
			before = m.Revision
		}
		if len(list) < page {
			return nil
		}
	}
}

func (c *commits) run(closing <-chan struct{}) {
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
func (c *commits) begin(ctx context.Context) {
	c.mu.Lock()
	c.begun = true
	c.mu.Unlock()
	if r := c.trees.repository("."); r != nil {
		c.ask(ctx, c.trees, map[*git.Repository][]*found{r: nil})
	}
}

// round asks about what is new, what may have been committed, and once more about what is not
// waited for any longer.
func (c *commits) round(ctx context.Context) {
	now, trees := c.cfg.Clock.Now(), newWorkTrees(c.trees.dir)
	if err := c.appeared(ctx, trees, now); err != nil {
		c.report(err)
	}
	c.take()
	batches, moved := map[*git.Repository][]*found{}, map[*git.Repository]bool{}
	for _, f := range c.waits {
		dir := path.Dir(f.name)
		r := trees.repository(dir)
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
func (c *commits) appeared(ctx context.Context, trees *workTrees, now time.Time) error {
	appeared := false
	for dir, until := range c.outside {
		is := trees.repository(dir) != nil
		if appeared = appeared || is; is || !until.After(now) {
			delete(c.outside, dir)
		}
	}
	if !appeared {
		return nil
	}
	return c.recall(ctx)
}

// take begins to wait for what was found.
func (c *commits) take() {
	type version struct {
		name string
		rev  kv.Revision
	}
	known := make(map[version]bool, len(c.waits))
	for _, f := range c.waits {
		known[version{f.name, f.rev}] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.fresh {
		if v := (version{f.name, f.rev}); !known[v] {
			known[v] = true
			c.waits = append(c.waits, f)
		}
	}
	c.fresh = nil
}

// look reports whether a repository may have another newest commit than when it was looked at last.
func (c *commits) look(r *git.Repository) bool {
	state := r.State()
	moved := state != c.states[r.Dir]
	c.states[r.Dir] = state
	return moved
}

// ask asks about a batch, all repositories of it within the limit.
func (c *commits) ask(ctx context.Context, trees *workTrees, batches map[*git.Repository][]*found) {
	limited, cancel := context.WithTimeout(ctx, c.cfg.GitPatience)
	defer cancel()
	for r, list := range batches {
		c.asked.Add(1)
		list, err := c.read(ctx, list)
		q := &question{commits: c, repository: r, trees: trees, list: list}
		if err == nil {
			if err = q.ask(limited); err != nil && limited.Err() != nil {
				err = fmt.Errorf("it has taken longer than %s", c.cfg.GitPatience)
			}
		}
		if err != nil {
			delete(c.states, r.Dir) // it is asked again, though it does not move
		}
		if failed := c.log.Complete(ctx, q.found); err == nil {
			err = failed
		}
		if ctx.Err() == nil {
			c.report(err)
		}
	}
}

// report counts and logs why something is not known.
func (c *commits) report(err error) {
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
		c.cfg.Log.Warn().Str("dir", c.trees.dir).Msg(said)
	}
	c.said = said
}

// read reads versions that are new. It leaves out what is not found on disk, or no longer kept.
func (c *commits) read(ctx context.Context, list []*found) (left []*found, err error) {
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
	slices.SortStableFunc(left, func(a, b *found) int { return cmp.Compare(a.rev, b.rev) })
	return left, nil
}

func (c *commits) readOne(ctx context.Context, f *found) error {
	d, err := c.log.Document(f.name)
	if err != nil {
		return err
	}
	n, err := c.log.Later(ctx, &d, f.rev-1)
	if err != nil || n > d.N {
		f.done = true
		return err
	}
	v, err := c.log.Find(ctx, &d, n)
	if err != nil || v.Revision != f.rev {
		f.done = true
		return nil // it is not kept any longer
	}
	change, err := c.log.Change(ctx, v.Seq)
	if err != nil {
		return err
	}
	if f.by, err = c.log.Who(ctx, &v, &change); err != nil {
		return err
	}
	if f.done = f.by.Origin != access.OnDisk || f.by.Commit != ""; !f.done {
		f.n, f.hash, f.deleted, f.asIn = v.N, v.Hash, v.Deleted, f.by.Comment != ""
	}
	return err
}

// onDisk is the actor for edits of files of which no more is known.
var onDisk = &access.Actor{Origin: access.OnDisk}

// sign says of edits that were found on disk that they are those of the files' owners. What git
// knows of them comes later, see commits.
func (d *directory) sign(edits []edit) {
	if d.cfg.FS != atomicfile.OS() || len(edits) == 0 {
		return
	}
	owners, trees := map[uint32]*access.Actor{}, newWorkTrees(d.path)
	for i := range edits {
		if r := trees.repository(path.Dir(edits[i].name)); r != nil {
			edits[i].state = d.states[r.Dir]
		}
		uid, ok := ownerOf(edits[i].info)
		if !ok {
			continue
		}
		if owners[uid] == nil {
			owners[uid] = owner(uid)
		}
		edits[i].actor = owners[uid]
	}
}

// owner is the actor of edits of files of a user.
func owner(uid uint32) *access.Actor {
	id := strconv.FormatUint(uint64(uid), 10)
	name := "uid " + id
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		name = access.Fitted(u.Username, access.MaxAuthor)
	}
	return &access.Actor{Origin: access.OnDisk, Author: name}
}

func ownerOf(info fs.FileInfo) (uid uint32, ok bool) {
	if info == nil {
		return 0, false
	}
	stat, ok := atomicfile.StatOf(info)
	return stat.Owner, ok
}

// workTrees are where the repositories of documents are at one moment.
type workTrees struct {
	dir     string                     // the directory
	top     string                     // likewise, without symlinks
	topUser uint32                     // who owns it
	repos   map[string]*git.Repository // by directory of documents; nil: it is in none
}

func newWorkTrees(dir string) *workTrees {
	p := &workTrees{dir: dir, top: dir, repos: map[string]*git.Repository{}}
	if top, err := filepath.EvalSymlinks(dir); err == nil {
		p.top = top
	}
	if info, err := os.Stat(p.top); err == nil {
		p.topUser, _ = ownerOf(info)
	}
	return p
}

// repository finds the one in whose work tree a directory of documents is; nil: there is none.
func (p *workTrees) repository(dir string) *git.Repository {
	r, known := p.repos[dir]
	if known {
		return r
	}
	if dir == "." {
		r = git.Above(p.top)
	} else if r = git.At(filepath.Join(p.top, dir)); r == nil {
		r = p.repository(path.Dir(dir))
	}
	p.repos[dir] = r
	return r
}

// within is the path of a document in the work tree of its repository, with slashes.
func (p *workTrees) within(r *git.Repository, name string) (string, bool) {
	path, err := filepath.Rel(r.Work, filepath.Join(p.top, name))
	return filepath.ToSlash(path), err == nil
}

// believes reports whether a repository's owner may have changed a document as well. Anyone might
// put a repository into a directory above.
func (p *workTrees) believes(owner uint32, name string) bool {
	if owner == 0 || owner == p.topUser || owner == uint32(os.Geteuid()) {
		return true
	}
	info, err := os.Stat(filepath.Join(p.top, name))
	ofFile, owned := ownerOf(info)
	return err == nil && owned && owner == ofFile
}

// gitWorks reports whether a git command changes the work tree that the directory, or one of the
// directories named, is in, so that it has a lock; and when one has done so last. It is asked before
// files are read, and takes note of the states of repositories by then.
func (d *directory) gitWorks(dirs map[string]struct{}) (works bool, last time.Time) {
	if d.cfg.FS != atomicfile.OS() {
		return false, last
	}
	trees := newWorkTrees(d.path)
	d.states = map[string]string{}
	look := func(dir string) {
		r := trees.repository(dir)
		if r == nil || d.states[r.Dir] != "" {
			return
		}
		d.states[r.Dir] = r.State()
		if _, err := os.Lstat(r.Lock()); err == nil {
			works = true
		}
		if info, err := os.Lstat(r.Index()); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	look(".")
	for dir := range dirs {
		look(dir)
	}
	return works, last
}
