package confstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// maxPendingEvents is how many changed names are collected before a full scan is cheaper.
const maxPendingEvents = 50_000

// watcher turns file events into a set of names. It reads them immediately, independent of what
// the store is doing, because the kernel drops events that are not read.
type watcher struct {
	dir    string // absolute path of the store's directory
	notify *fsnotify.Watcher
	wake   chan struct{} // one token while there is something to take
	pump   sync.WaitGroup

	watched map[string]fileID // store's goroutine only: directories by relative name
	ids     map[fileID]string // store's goroutine only: the same the other way round

	mu      sync.Mutex // guards pending
	pending events
}

// events are the events since the last collect.
type events struct {
	names map[string]struct{} // relative to the directory
	root  bool                // the directory itself may be another one
	lost  string              // why only a scan can find the changes, or ""
}

func newWatcher(dir string) (*watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watcher{
		dir: dir, notify: notify, wake: make(chan struct{}, 1),
		watched: make(map[string]fileID), ids: make(map[fileID]string),
	}
	w.pump.Go(w.run)
	return w, nil
}

// close ends the events and waits for the goroutine.
func (w *watcher) close() error {
	err := w.notify.Close()
	w.pump.Wait()
	return err
}

func (w *watcher) run() {
	for {
		select {
		case event, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.guarded(func() { w.take(event) })
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			w.guarded(func() { w.lose(err) })
		}
	}
}

// guarded has a scan find what is lost to a panic.
func (w *watcher) guarded(fn func()) {
	defer func() {
		if what := recover(); what != nil {
			w.lose(fmt.Errorf("the watcher panicked: %v\n%s", what, debug.Stack()))
		}
	}()
	fn()
}

func (w *watcher) take(event fsnotify.Event) {
	if event.Op == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rel, inside := strings.CutPrefix(event.Name, w.dir+"/")
	switch {
	case event.Name == w.dir:
		w.pending.root = true
	case !inside:
		return
	case len(w.pending.names) >= maxPendingEvents:
		w.pending.lost = "more changes at once than can be tracked one by one"
		w.pending.names = nil
	default:
		if w.pending.names == nil {
			w.pending.names = make(map[string]struct{})
		}
		w.pending.names[rel] = struct{}{}
	}
	w.signal()
}

func (w *watcher) lose(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.lost = err.Error()
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.pending.lost = "the kernel's queue of file events overflowed"
	}
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// collect returns the events so far and clears them.
func (w *watcher) collect() events {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.pending
	w.pending = events{}
	return out
}

// watchParent watches for the directory itself being replaced.
func (w *watcher) watchParent() error { return w.notify.Add(filepath.Dir(w.dir)) }

// add watches a directory that is not watched under another name.
func (w *watcher) add(dir foundDir) error {
	if w.watched[dir.name] == dir.id {
		return nil
	}
	w.remove(dir.name)
	if err := w.notify.Add(filepath.Join(w.dir, dir.name)); err != nil {
		return err
	}
	w.watched[dir.name], w.ids[dir.id] = dir.id, dir.name
	return nil
}

// remove ends the watches on rel and everything below it.
func (w *watcher) remove(rel string) {
	for name, id := range w.watched {
		if name == rel || below(name, rel) {
			// It may be gone already, which ends the watch too.
			_ = w.notify.Remove(filepath.Join(w.dir, name))
			delete(w.watched, name)
			if w.ids[id] == name {
				delete(w.ids, id)
			}
		}
	}
}

// missing reports whether dir should be watched and is not.
func (w *watcher) missing(dir foundDir) bool {
	_, elsewhere := w.ids[dir.id]
	return w.watched[dir.name] != dir.id && !(dir.linked && elsewhere)
}
