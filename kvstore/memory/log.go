package memory

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"confcenter/codes"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/kvstore"
)

// log is a log that keeps all commits in a list. It never drops any, but refuses to return
// those that a limited log would have dropped. It outlives the stores on it.
type log struct {
	// set at open
	keepBytes    int64 // of changes; 0: all
	keepVersions int   // of each key; 0: all
	identity     string

	mu sync.Mutex

	// guarded by mu
	commits []kvstore.Commit
	first   int   // of commits that Changes tells
	bytes   int64 // of those
	full    bool
	pulled  bool // the plug: nothing is taken any more

	forgotten forgotten
}

// name is a key with its namespace.
type name struct{ ns, key string }

// forgotten has the newest version of each key that was forgotten.
type forgotten map[name]kv.Revision

func (f forgotten) add(entries []*kv.Entry) {
	for _, e := range entries {
		f[name{e.NS, e.Key}] = e.Mod
	}
}

func (l *log) Load(_ context.Context, load kvstore.Loader) (newest kv.Revision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loadLocked(load, l.forgotten), nil
}

// loadLocked passes all commits, less what was forgotten.
func (l *log) loadLocked(load kvstore.Loader, forgotten forgotten) kv.Revision {
	for _, c := range l.commits {
		c = commitCopied(c) // the Store that has it already may have readers
		c.Events = slices.DeleteFunc(c.Events, func(e kv.Event) bool {
			return e.Entry.Mod <= forgotten[name{e.Entry.NS, e.Entry.Key}]
		})
		load.Commit(&c)
	}
	return l.newestLocked()
}

// commitCopied returns a copy of a commit, which the receiver may keep and change.
func commitCopied(c kvstore.Commit) kvstore.Commit {
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		e := *c.Events[i].Entry
		c.Events[i] = kv.Event{Kind: c.Events[i].Kind, Entry: &e}
	}
	if c.Token != nil {
		token := *c.Token
		c.Token = &token
	}
	return c
}

func (l *log) newestLocked() kv.Revision {
	if len(l.commits) == 0 {
		return 0
	}
	return l.commits[len(l.commits)-1].Revision
}

// errPulled is why nothing is taken any more.
var errPulled = errors.New("the plug was pulled")

// Append implements kvstore.Log.
func (l *log) Append(group []kvstore.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pulled {
		return errPulled
	}
	l.appendLocked(group)
	return nil
}

func (l *log) appendLocked(group []kvstore.Commit) {
	l.commits = append(l.commits, group...)
	for i := range group {
		l.bytes += changeSize(&group[i])
	}
	for l.keepBytes > 0 && l.first < len(l.commits)-1 && l.bytes-changeSize(&l.commits[l.first]) >= l.keepBytes {
		l.bytes -= changeSize(&l.commits[l.first])
		l.first++
	}
}

func changeSize(c *kvstore.Commit) int64 {
	const overhead = 64
	size := overhead
	for i := range c.Events {
		size += overhead + c.Events[i].Entry.Size()
	}
	return int64(size)
}

// Forget implements kvstore.Log: what is forgotten is not loaded again.
func (l *log) Forget(entries []*kv.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forgotten == nil {
		l.forgotten = forgotten{}
	}
	l.forgotten.add(entries)
}

func (l *log) Writable(uses kvstore.Room) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full && uses == kvstore.Ordinary {
		return codes.Errorf(codes.Storage, "the disk is full: delete something or free space")
	}
	return nil
}

func (l *log) Trouble() *health.Trouble {
	if err := l.Writable(kvstore.Ordinary); err != nil {
		return &health.Trouble{Kind: health.Full, Err: err}
	}
	return nil
}

func (l *log) floorLocked() kv.Revision {
	if l.first == 0 {
		return 0
	}
	return l.commits[l.first-1].Revision
}

func (l *log) Changes(after kv.Revision, maxBytes int) ([]kv.Change, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if floor := l.floorLocked(); after < floor {
		return nil, codes.Errorf(codes.Compacted, "changes after revision %d are no longer kept, only those after %d", after, floor)
	}
	from := sort.Search(len(l.commits), func(i int) bool { return l.commits[i].Revision > after })
	var list []kv.Change
	for size := 0; from < len(l.commits) && (len(list) == 0 || size < maxBytes); from++ {
		c := l.commits[from].Change
		list = append(list, c)
		for i := range c.Events {
			size += c.Events[i].Entry.Size()
		}
	}
	return list, nil
}

// versionsLocked returns the versions of a key that count as kept, newest first. floor is the
// revision of the oldest if there are more.
func (l *log) versionsLocked(ns, key string) (list []*kv.Entry, floor kv.Revision) {
	for _, c := range slices.Backward(l.commits) {
		for i := range c.Events {
			e := c.Events[i].Entry
			if e.NS != ns || e.Key != key {
				continue
			}
			if n := len(list); n > 0 && n == l.keepVersions {
				return list, list[n-1].Mod
			}
			list = append(list, e)
		}
	}
	return list, 0
}

func (l *log) GetAt(ns, key string, rev kv.Revision) (*kv.Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, floor := l.versionsLocked(ns, key)
	if rev < floor {
		return nil, codes.Errorf(codes.Compacted, "revision %d is no longer kept: versions are complete from revision %d on", rev, floor)
	}
	for _, e := range list {
		if e.Mod <= rev && !e.Deleted() {
			return e, nil
		}
		if e.Mod <= rev {
			break
		}
	}
	return nil, nil
}

func (l *log) Versions(ns, key string, before kv.Revision, limit int) (kv.Versions, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, floor := l.versionsLocked(ns, key)
	list = slices.DeleteFunc(list, func(e *kv.Entry) bool { return e.Mod >= before })
	page := kv.Versions{Entries: list, Floor: floor, More: len(list) > limit}
	if page.More {
		page.Entries = list[:limit]
	}
	return page, nil
}

func (l *log) ListArchive(q kv.List) (kv.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := map[string]*kv.Entry{}
	for i := range l.commits {
		for _, event := range l.commits[i].Archive {
			if e := event.Entry; e.NS == q.NS && strings.HasPrefix(e.Key, q.Prefix) && e.Key > q.After {
				newest[e.Key] = e
			}
		}
	}
	page, size := kv.Page{Revision: l.newestLocked()}, 0
	for _, key := range slices.Sorted(maps.Keys(newest)) {
		e := newest[key]
		switch {
		case e.Deleted():
		case len(page.Entries) == q.Limit, len(page.Entries) > 0 && size >= q.MaxBytes:
			page.More = true
			return page, nil
		default:
			page.Entries, page.Count, size = append(page.Entries, e), page.Count+1, size+e.Size()
		}
	}
	return page, nil
}

func (l *log) Identity() string { return l.identity }

func (l *log) Floors() (changes, versions kv.Revision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floorLocked(), 0
}

func (l *log) Copy() (kv.Copy, error) {
	return nil, codes.Errorf(codes.NotImplemented, "a store in memory cannot be backed up")
}
func (l *log) Stats() kvstore.LogStats               { return kvstore.LogStats{FreeBytes: -1} }
func (l *log) Failed() <-chan struct{}               { return nil }
func (l *log) Damage() *health.Trouble               { return nil }
func (l *log) DropTokens(kv.Revision, []kv.Revision) {}
func (l *log) Close() error                          { return nil }
