package commits

import (
	"context"
	"maps"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/confstore/log"
	"confcenter/internal/git"
)

// question is what is asked of one repository about versions that were found on disk.
type question struct {
	*Finder
	repository *git.Repository
	trees      *git.Trees
	list       []*found // by revision

	head   string
	paths  map[string][]*found // that may have come with a commit, by their paths
	atHead map[*found]bool     // HEAD has it as the version does
	came   map[*found]*git.Commit
	found  []log.Completion
}

func (q *question) ask(ctx context.Context) error {
	believed := q.list[:0:0]
	for _, f := range q.list {
		if q.trees.Believes(q.repository, f.Name) {
			believed = append(believed, f)
		} else {
			f.done = true
		}
	}
	if q.list = believed; len(q.list) == 0 && !q.trees.Believes(q.repository, "") {
		return nil
	}
	if err := q.look(ctx); err != nil || len(q.paths) == 0 {
		return err
	}
	err := q.search(ctx)
	for name, list := range q.byDocument() {
		if failed := q.decide(ctx, name, list); failed != nil && err == nil {
			err = failed
		}
	}
	return err
}

// look finds out which versions the newest commit has, and which may be in one before.
func (q *question) look(ctx context.Context) error {
	objects, err := q.repository.Objects(ctx)
	if err != nil {
		return err
	}
	defer objects.Close()
	heads, err := objects.Each("HEAD^{commit}")
	if err != nil {
		return errOf(err, objects)
	}
	q.head = heads[0]
	q.see()
	if q.head == "" {
		return nil
	}
	var names []string
	paths := make([]string, len(q.list))
	for i, f := range q.list {
		within := q.trees.Within(q.repository, f.Name)
		if strings.Contains(within, "\n") {
			within = "" // which no file is
		}
		if paths[i] = within; f.blob == "" && !f.deleted {
			v, err := q.cfg.Log.Version(ctx, f.Name, f.n)
			if err != nil {
				return err
			}
			f.blob = git.Blob(v.File, len(q.head))
		}
		names = append(names, q.head+":"+within, "")
		if names[len(names)-1] = f.blob; f.blob == "" {
			names[len(names)-1] = q.head // which there is
		}
	}
	hashes, err := objects.Each(names...)
	if err != nil {
		return errOf(err, objects)
	}
	q.paths, q.atHead, q.came = map[string][]*found{}, map[*found]bool{}, map[*found]*git.Commit{}
	for i, f := range q.list {
		q.atHead[f] = hashes[2*i] == f.blob
		if paths[i] != "" && hashes[2*i+1] != "" && (f.blob != "" || q.atHead[f]) {
			q.paths[paths[i]] = append(q.paths[paths[i]], f)
		}
	}
	return nil
}

func errOf(err error, objects *git.Objects) error {
	if why := objects.Close(); why != nil {
		return why
	}
	return err
}

// see takes note of the newest commit, for versions that come later, unless it may have come since
// what is asked about was found.
func (q *question) see() {
	dir := q.repository.Dir
	state := q.states[dir]
	if state != q.repository.State() {
		state = "?" // which none is
	}
	if len(q.list) == 0 && state != "?" {
		q.first[dir] = q.head
	}
	for _, f := range q.list {
		if f.asked {
			continue
		}
		f.moved = f.State != "" && f.State != state
		known := false
		if f.before, known = q.before[f.Name]; !known && !f.start {
			f.before = q.first[dir]
		}
	}
	for _, f := range q.list {
		if !f.asked && f.State == state {
			q.before[f.Name] = q.head
		}
		f.asked = true
	}
}

// search finds the newest commit that has changed each file to what its version has.
func (q *question) search(ctx context.Context) error {
	left := 0
	for _, list := range q.paths {
		left += len(list)
	}
	return q.repository.Log(ctx, q.head, slices.Collect(maps.Keys(q.paths)), func(c *git.Commit, path, blob string) bool {
		for _, f := range q.paths[path] {
			if q.came[f] == nil && f.blob == blob {
				q.came[f] = c
				left--
			}
		}
		return left > 0
	})
}

func (q *question) byDocument() map[string][]*found {
	lists := map[string][]*found{}
	for _, f := range q.list {
		if q.came[f] != nil {
			lists[f.Name] = append(lists[f.Name], f)
		}
	}
	return lists
}

// decide says of versions of a document, the oldest first, whose they are.
func (q *question) decide(ctx context.Context, name string, list []*found) error {
	named := map[string]*found{}
	for _, f := range list { // of several, the last that was there before the commit was made; else the first
		c := q.came[f]
		if named[c.Hash] == nil || f.by.Time/1000 < c.Time.Unix() {
			named[c.Hash] = f
		}
	}
	for _, f := range list {
		c := q.came[f]
		by := f.by
		back, err := q.back(ctx, f, c)
		switch {
		case err != nil:
			return err
		case !back && named[c.Hash] == f:
			by.Author, by.Comment, by.Commit = access.Fitted(c.Author, access.MaxAuthor), access.Fitted(c.Subject, access.MaxComment), c.Hash
			f.done = true
		case f.asIn:
			f.done = q.atHead[f]
			continue
		default:
			by.Comment, f.asIn = "as in "+c.Hash, true
			f.done = q.atHead[f]
		}
		q.found = append(q.found, log.Completion{Name: name, N: f.n, By: by})
	}
	return nil
}

// back reports whether the bytes of a version come back from a commit: that one has been named for the
// document before, or has been there before the version.
func (q *question) back(ctx context.Context, f *found, c *git.Commit) (bool, error) {
	if named, err := q.named(ctx, f, c.Hash); named || err != nil {
		return named, err
	}
	if q.atHead[f] {
		return f.before == q.head, nil
	}
	if f.before == "" { // one made since this store was opened cannot have been there before the version
		return !f.moved && c.Time.Before(q.opened), nil
	}
	reached, err := q.repository.Reaches(ctx, f.before, c.Hash)
	return reached || err != nil, ctx.Err() // what was there before may be there no longer
}

// mostNamed is how many versions of a document are looked at for a commit.
const mostNamed = 1000

// named reports whether a commit has been named for another version of a document.
func (q *question) named(ctx context.Context, f *found, hash string) (bool, error) {
	for before, looked := int64(0), 0; looked < mostNamed; {
		list, err := q.cfg.Log.Versions(ctx, f.Name, before, 64)
		if err != nil || len(list) == 0 {
			return false, err
		}
		for i := range list {
			v := &list[i]
			if before = v.N; v.N == f.n || v.Hash != f.hash || v.Deleted != f.deleted {
				continue
			}
			change, err := q.cfg.Log.Change(ctx, v.Seq)
			if err != nil {
				return false, err
			}
			by, err := q.cfg.Log.Who(ctx, v, &change)
			if err != nil || by.Commit == hash {
				return true, err
			}
		}
		if looked += len(list); before == 1 {
			return false, nil
		}
	}
	return false, nil
}
