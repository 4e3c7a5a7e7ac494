package kvstore

import (
	"container/list"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// views are the open Views, oldest first; their revisions rise in that order.
type views struct {
	keeping atomic.Bool // old versions are kept, which closing a View may make unnecessary

	mu   sync.Mutex
	open list.List // of *view; guarded by mu
}

// newest returns the revision of the newest open View, -1 if there is none.
func (v *views) newest() kv.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	if last := v.open.Back(); last != nil {
		return last.Value.(*view).rev
	}
	return -1
}

// oldest returns the revision of the oldest open View, or otherwise if there is none.
func (v *views) oldest(otherwise kv.Revision) kv.Revision {
	v.mu.Lock()
	defer v.mu.Unlock()
	if first := v.open.Front(); first != nil {
		return first.Value.(*view).rev
	}
	return otherwise
}

func (v *views) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open.Len()
}

// view implements kv.View.
type view struct {
	// set at open
	index  *index
	rev    kv.Revision
	opened time.Time
	closed func() // wakes the committer, since there may be something to trim

	cut bool          // by the store; guarded by the index's mu
	at  *list.Element // nil when no longer in the list; guarded by the views' mu
}

// view pins the visible revision: between reading it and entering the list no group can
// become visible and no version can be dropped.
func (x *index) view(now time.Time, closed func()) *view {
	x.mu.RLock()
	defer x.mu.RUnlock()
	v := &view{index: x, rev: x.revision(), opened: now, closed: closed}
	x.views.mu.Lock()
	defer x.views.mu.Unlock()
	v.at = x.views.open.PushBack(v)
	return v
}

func (v *views) remove(gone *view) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if gone.at != nil {
		v.open.Remove(gone.at)
		gone.at = nil
	}
}

// cutOldest ends the oldest View if it was opened by then, or regardless if before is
// zero.
func (x *index) cutOldest(before time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.views.mu.Lock()
	defer x.views.mu.Unlock()
	first := x.views.open.Front()
	if first == nil {
		return false
	}
	v := first.Value.(*view)
	if !before.IsZero() && v.opened.After(before) {
		return false
	}
	v.cut, v.at = true, nil
	x.views.open.Remove(first)
	return true
}

// oldestView returns when the oldest open View was opened; false if there is none.
func (v *views) oldestView() (time.Time, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if first := v.open.Front(); first != nil {
		return first.Value.(*view).opened, true
	}
	return time.Time{}, false
}

func (v *view) Revision() kv.Revision { return v.rev }

func (v *view) Close() {
	v.index.views.remove(v)
	if v.index.views.keeping.Load() {
		v.closed()
	}
}

func (v *view) errCut() error {
	return codes.Errorf(codes.Compacted, "the view of revision %d was open for too long and has been ended; read again", v.rev)
}

func (v *view) Get(ns, key string) (*kv.Entry, error) {
	x := v.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	if v.cut {
		return nil, v.errCut()
	}
	if sp := x.spaces.of[ns]; sp != nil {
		if s := sp.keys.of[key]; s != nil {
			return s.at(v.rev), nil
		}
	}
	return nil, nil
}

func (v *view) List(l kv.List) (kv.Page, error) {
	if err := checkList(l); err != nil {
		return kv.Page{}, err
	}
	w := walk{view: v, list: l, page: kv.Page{Revision: v.rev}, from: l.Prefix}
	if w.list.Limit == 0 || w.list.Limit > kv.MaxList {
		w.list.Limit = kv.MaxList
	}
	if w.list.MaxBytes <= 0 {
		w.list.MaxBytes = kv.MaxPage
	}
	if !l.CountOnly && l.After >= l.Prefix && l.After != "" {
		w.from, w.behind = l.After, true
	}
	for !w.done {
		if err := w.slice(); err != nil {
			return kv.Page{}, err
		}
		if !w.done {
			runtime.Gosched() // a writer or an event loop may wait for this processor
		}
	}
	return w.page, nil
}

func checkList(l kv.List) error {
	if l.Limit < 0 {
		return codes.Errorf(codes.BadRequest, "limit %d is negative", l.Limit)
	}
	if err := kv.CheckNamespace(l.NS); err != nil {
		return err
	}
	return kv.CheckPrefix(l.Prefix)
}

// walk is a List in progress. It releases the lock every few hundred keys and finds its
// place again by key.
type walk struct {
	view   *view
	list   kv.List
	page   kv.Page
	size   int
	from   string // continue here
	behind bool   // from itself has been passed
	done   bool
}

func (w *walk) slice() error {
	x := w.view.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	if w.view.cut {
		return w.view.errCut()
	}
	w.done = true
	sp := x.spaces.of[w.list.NS]
	if sp == nil {
		return nil
	}
	if w.list.CountOnly && w.list.Prefix == "" && w.view.rev == x.revision() {
		w.page.Count = sp.seen.keys
		return nil
	}
	passed := 0
	sp.tree.Ascend(&slot{entry: &kv.Entry{Key: w.from}}, func(s *slot) bool {
		if passed++; passed > x.slice {
			w.done = false
			return false
		}
		if w.behind && s.entry.Key == w.from {
			return true
		}
		if !strings.HasPrefix(s.entry.Key, w.list.Prefix) {
			return false
		}
		w.from, w.behind = s.entry.Key, true
		e := s.at(w.view.rev)
		return e == nil || w.take(e)
	})
	return nil
}

// take adds an entry and reports whether the walk goes on.
func (w *walk) take(e *kv.Entry) bool {
	if w.list.CountOnly {
		w.page.Count++
		return true
	}
	if len(w.page.Entries) == w.list.Limit || w.size >= w.list.MaxBytes {
		w.page.More = true
		return false
	}
	w.page.Entries = append(w.page.Entries, e)
	w.page.Count++
	w.size += e.Size()
	return true
}
