// Package watch tells what changes in a directory and in those below it, by the kernel's file events.
package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/fsnotify/fsnotify"

	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
)

// maxPendingEvents is how many changed names are collected before a full scan is cheaper.
const maxPendingEvents = 50_000

// Dir is a directory that was found.
type Dir struct {
	Name   string // relative to the one that is watched
	ID     ID
	Linked bool // reached through a symlink
}

// ID is the identity of a directory, to recognise circles of symlinks.
type ID struct{ inode, device uint64 }

// IDOf is the identity of a directory that was looked at.
func IDOf(info fs.FileInfo) ID {
	stat, _ := atomicfile.StatOf(info)
	return ID{stat.Inode, stat.Device}
}

// Watcher turns file events into a set of names. It reads them immediately, independent of what
// its owner is doing, because the kernel drops events that are not read.
type Watcher struct {
	dir    string // absolute path
	notify *fsnotify.Watcher
	Begin  func(path string) error // of a watch; tests may have others
	wake   chan struct{}
	pump   sync.WaitGroup

	watched map[string]ID // owner's goroutine only: directories by relative name
	ids     map[ID]string // owner's goroutine only: the same the other way round

	mu      sync.Mutex // guards pending
	pending Events
}

// Events are those since the last Collect.
type Events struct {
	Names map[string]struct{} // relative to the directory
	Root  bool                // the directory itself may be another one
	Lost  string              // why only a scan can find the changes, or ""
}

// New returns a Watcher of a directory that watches nothing yet. It must be closed.
func New(dir string) (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &Watcher{
		dir: dir, notify: notify, Begin: notify.Add, wake: make(chan struct{}, 1),
		watched: make(map[string]ID), ids: make(map[ID]string),
	}
	w.pump.Go(w.run)
	return w, nil
}

// Close ends the events and waits for the goroutine.
func (w *Watcher) Close() error {
	err := w.notify.Close()
	w.pump.Wait()
	return err
}

func (w *Watcher) run() {
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
			w.Lose(err)
		}
	}
}

func (w *Watcher) take(event fsnotify.Event) {
	if event.Op == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rel, inside := strings.CutPrefix(event.Name, w.dir+"/")
	switch {
	case event.Name == w.dir:
		w.pending.Root = true
	case !inside:
		return
	case len(w.pending.Names) >= maxPendingEvents:
		w.pending.Lost = "more changes at once than can be tracked one by one"
		w.pending.Names = nil
	default:
		if w.pending.Names == nil {
			w.pending.Names = make(map[string]struct{})
		}
		w.pending.Names[rel] = struct{}{}
	}
	w.signal()
}

// Lose notes that events have been lost, and why.
func (w *Watcher) Lose(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending.Lost = err.Error()
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.pending.Lost = "the kernel's queue of file events overflowed: " + limitReached("max_queued_events")
	}
	w.signal()
}

// Wake has one token while there is something to Collect.
func (w *Watcher) Wake() <-chan struct{} { return w.wake }

func (w *Watcher) signal() { clock.Nudge(w.wake) }

// Collect returns the events so far and clears them.
func (w *Watcher) Collect() Events {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.pending
	w.pending = Events{}
	return out
}

// AddParent watches for the directory itself being replaced.
func (w *Watcher) AddParent() error { return w.Begin(filepath.Dir(w.dir)) }

// Add watches a directory that is not watched under another name.
func (w *Watcher) Add(dir Dir) error {
	if w.watched[dir.Name] == dir.ID {
		return nil
	}
	w.Remove(dir.Name)
	if err := w.Begin(filepath.Join(w.dir, dir.Name)); err != nil {
		return err
	}
	w.watched[dir.Name], w.ids[dir.ID] = dir.ID, dir.Name
	return nil
}

// Remove ends the watches on rel and everything below it.
func (w *Watcher) Remove(rel string) {
	for name, id := range w.watched {
		if name == rel || rel == "." || strings.HasPrefix(name, rel+"/") {
			// It may be gone already, which ends the watch too.
			_ = w.notify.Remove(filepath.Join(w.dir, name))
			delete(w.watched, name)
			if w.ids[id] == name {
				delete(w.ids, id)
			}
		}
	}
}

// Named is the name under which a directory is watched.
func (w *Watcher) Named(id ID) (name string, watched bool) {
	name, watched = w.ids[id]
	return name, watched
}

// Missing reports whether dir should be watched and is not.
func (w *Watcher) Missing(dir Dir) bool {
	_, elsewhere := w.ids[dir.ID]
	return w.watched[dir.Name] != dir.ID && !(dir.Linked && elsewhere)
}

// WhyNone says why there are no file events: if a limit of the kernel is in the way, which, and how it is
// raised.
func WhyNone(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC): // which has nothing to do with disks
		return limitReached("max_user_watches")
	case errors.Is(err, syscall.EMFILE):
		return limitReached("max_user_instances") + ", or let the server have more open files (ulimit -n)"
	}
	return atomicfile.Cause(err)
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
