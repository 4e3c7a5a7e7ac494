package bench

import (
	"context"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// Of says what to watch: a node, a job, or, if it is empty, all of them.
type Of struct {
	Node string
	Job  string
}

// Change is an update of a node or a job: its entry in the history, as soon as it is there.
type Change struct {
	Node  string // its id, if it is a node
	Job   string // its id, if it is a job
	Entry        // with the state before and after
	// Missed says that there were changes that can no longer be told; there is no Entry. Read
	// the state again; what follows is later.
	Missed bool
	// Revision is where to continue without missing anything. What was written together is told
	// from its beginning again, unless this is the last of it.
	Revision kv.Revision
}

// Prefix is what the keys begin with that tell of it.
func (of Of) Prefix() (string, error) {
	switch {
	case of.Node != "" && of.Job != "":
		return "", codes.Errorf(codes.BadRequest, "watch a node or a job, or all of them")
	case of.Node != "":
		return "history/node/" + of.Node + "/", nil
	case of.Job != "":
		return "history/job/" + of.Job + "/", nil
	}
	return "history/", nil
}

// Watch tells of changes, in their order. A client opens it by the Watch of calls.BenchCalls.
type Watch struct {
	// set at open
	watch embedded.Watch

	// of the goroutine that calls Next
	events   []kv.Event  // not told yet
	more     bool        // what was written with the last of them follows
	revision kv.Revision // behind all events
}

// NewWatch takes over a watch of the keys that begin with an [Of.Prefix], which does not begin with
// the state.
func NewWatch(w embedded.Watch) *Watch { return &Watch{watch: w} }

// Next waits for the next change. It fails as embedded.Watch does.
func (w *Watch) Next(ctx context.Context) (Change, error) {
	for {
		for len(w.events) > 0 {
			e := w.events[0]
			w.events = w.events[1:]
			c, ok, err := told(&e)
			if ok || err != nil {
				c.Revision = w.behind(e.Entry.Mod)
				return c, err
			}
		}
		n, err := w.watch.Next(ctx)
		if err != nil {
			return Change{}, err
		}
		w.revision, w.more = n.Revision, n.More
		switch n.Kind {
		case kv.Synced: // the state, which follows a loss, is complete
			return Change{Missed: true, Revision: n.Revision}, nil
		case kv.Changed:
			w.events = n.Events
		}
	}
}

// behind is where to continue behind a change of a revision, when events follow it.
func (w *Watch) behind(at kv.Revision) kv.Revision {
	switch {
	case len(w.events) == 0 && !w.more:
		return w.revision
	case len(w.events) > 0 && w.events[0].Entry.Mod > at:
		return at
	}
	return at - 1
}

// told reads an entry of a history; what is trimmed from it is no change.
func told(e *kv.Event) (c Change, ok bool, err error) {
	path := strings.Split(e.Entry.Key, "/")
	if e.Entry.Deleted() || len(path) != len([]string{"history", "node", "ID", "N"}) {
		return c, false, nil
	}
	if path[1] == "node" {
		c.Node = path[2]
	} else {
		c.Job = path[2]
	}
	return c, true, decode(e.Entry, &c.Entry)
}

// Stop ends the watch, from any goroutine.
func (w *Watch) Stop() { w.watch.Stop() }
