package confstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"confcenter/internal/clock"
)

// maxPendingEvents is how many changed names are collected before a full scan is cheaper.
const maxPendingEvents = 50_000

// watcher turns file events into a set of names. It reads them immediately, independent of what
// the store is doing, because the kernel drops events that are not read.
type watcher struct {
	dir    string // absolute path of the store's directory
	notify *fsnotify.Watcher
	begin  func(path string) error // of a watch: notify.Add
	wake   chan struct{}           // one token while there is something to take
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
		dir: dir, notify: notify, begin: notify.Add, wake: make(chan struct{}, 1),
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
			w.take(event)
		case err, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			w.lose(err)
		}
	}
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
		w.pending.lost = "the kernel's queue of file events overflowed: " + limitReached("max_queued_events")
	}
	w.signal()
}

func (w *watcher) signal() { clock.Nudge(w.wake) }

// collect returns the events so far and clears them.
func (w *watcher) collect() events {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.pending
	w.pending = events{}
	return out
}

// watchParent watches for the directory itself being replaced.
func (w *watcher) watchParent() error { return w.begin(filepath.Dir(w.dir)) }

// add watches a directory that is not watched under another name.
func (w *watcher) add(dir foundDir) error {
	if w.watched[dir.name] == dir.id {
		return nil
	}
	w.remove(dir.name)
	if err := w.begin(filepath.Join(w.dir, dir.name)); err != nil {
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

// noEvents says why there are no file events: if a limit of the kernel is in the way, which, and how it is
// raised.
func noEvents(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC): // which has nothing to do with disks
		return limitReached("max_user_watches")
	case errors.Is(err, syscall.EMFILE):
		return limitReached("max_user_instances") + ", or let the server have more open files (ulimit -n)"
	}
	return cause(err)
}

// limitReached says that one of inotify's limits is reached, by its name. Within a user namespace there
// may be a lower one.
func limitReached(name string) string {
	setting, limit := "fs.inotify."+name, limitOf("fs/inotify/"+name)
	inner := strings.Replace(name, "max_user_", "max_inotify_", 1)
	if of := limitOf("user/" + inner); inner != name && of > 0 && (limit == 0 || of < limit) {
		setting, limit = "user."+inner, of
	}
	return fmt.Sprintf("the kernel's limit %s (%d) is reached; raise it, for example with sysctl -w %s=%d", setting, limit, setting, 2*max(limit, 8192))
}

// limitOf is a limit of the kernel; 0: it is not known.
func limitOf(name string) (limit int) {
	text, _ := os.ReadFile("/proc/sys/" + name)
	limit, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	return limit
}
