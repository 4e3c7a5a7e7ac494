package follow

import (
	"confcenter/codes"
	"confcenter/kv"
)

// Limits of telling the state.
const (
	statePage  = 256      // entries listed at a time
	stateBytes = 64 << 10 // bytes of them
	// barren is how often the telling of one state may begin anew.
	barren = 64
)

// state is how far a follower has been told the state. All of a state is of one
// revision, so it comes from one view, page by page as the follower takes it.
//
// A view that is open for long may be ended by the store. Then the state begins
// anew, and lest that go on for ever with a follower that is slow, what is to be
// told is now taken hold of as fast as the store lists it, so that the view is open
// for a moment only: entries are shared and never change, so that costs a reference
// each, and what of them is written over meanwhile.
type state struct {
	resync bool        // the follower has to be told to forget what it has
	rev    kv.Revision // what is told is of
	view   *heldView   // nil: not open yet, or all is held
	list   lister      // where the view is read
	again  int         // how often it began anew

	page     []kv.Event // at hand
	complete bool       // nothing comes behind page

	holding bool // entries are held rather than told
	held    []*kv.Entry
	whole   bool // held is all there is left to tell
}

// Viewing says that the cursor holds a view of the store.
func (c *Cursor) Viewing() bool { return c.state != nil && c.state.view != nil }

// WantsView says that the next Fetch opens a view of the store.
func (c *Cursor) WantsView() bool {
	st := c.state
	return st != nil && st.view == nil && !st.whole && !st.complete
}

func (c *Cursor) nextState(cut Cut) (kv.Notice, bool) {
	st := c.state
	switch {
	case st.resync:
		st.resync = false
		return kv.Notice{Kind: kv.Resync}, true
	case len(st.page) > 0:
		n, size := 0, 0
		for ; n < len(st.page); n++ {
			if cut.Max > 0 {
				if size += cut.Cost(&st.page[n]); n > 0 && size > cut.Max {
					break
				}
			}
		}
		events := st.page[:n]
		st.page = st.page[n:]
		return kv.Notice{Kind: kv.State, Revision: st.rev, Events: events}, true
	case st.complete:
		c.at = Mark{Rev: st.rev}
		c.Close()
		return kv.Notice{Kind: kv.Synced, Revision: st.rev}, true
	}
	return kv.Notice{}, false
}

// fetchState goes on by a page.
func (c *Cursor) fetchState() error {
	st := c.state
	if st.resync || len(st.page) > 0 || st.complete {
		return nil // there is something to tell first
	}
	if st.whole {
		n := min(statePage, len(st.held))
		c.tell(st.held[:n])
		clear(st.held[:n])
		st.held = st.held[n:]
		st.complete = len(st.held) == 0
		return nil
	}
	if st.view == nil {
		st.view = c.source.open()
		st.rev = st.view.Revision()
	}
	entries, done, err := st.list.page(st.view, c.source.Store, c.filter)
	switch {
	case codes.Of(err) == codes.Compacted && st.again < barren:
		c.source.release(st)
		c.state = &state{resync: true, again: st.again + 1, holding: c.source.hold()}
		return nil
	case err != nil:
		return err
	case !st.holding:
		c.tell(entries)
		st.complete = done
		return nil
	}
	st.held = append(st.held, entries...)
	if done {
		st.whole = true
		c.source.closeView(st)
	}
	return nil
}

// tell has entries told next.
func (c *Cursor) tell(entries []*kv.Entry) {
	c.scratch = c.scratch[:0]
	for _, entry := range entries {
		c.scratch = append(c.scratch, kv.Event{Kind: kv.Put, Entry: entry})
	}
	c.state.page = c.scratch
}

// lister goes through the namespaces and keys of a filter.
type lister struct {
	ns     string
	inside bool     // ns is not finished
	after  string   // last key of it
	spaces []string // namespaces to list next, if all are wanted
	last   bool     // there are none behind them
}

// page is the next entries; done if there are none behind them. A namespace that
// appears after the view was opened has nothing in it, and one that is gone since
// is told as the deletions that follow.
func (p *lister) page(view kv.View, store kv.Store, f kv.Filter) (entries []*kv.Entry, done bool, err error) {
	if !p.inside && !p.nextSpace(store, f) {
		return nil, true, nil
	}
	if f.Exact {
		entry, err := view.Get(f.NS, f.Text)
		if entry == nil {
			return nil, true, err
		}
		return []*kv.Entry{entry}, true, err
	}
	page, err := view.List(kv.List{NS: p.ns, Prefix: f.Text, After: p.after, Limit: statePage, MaxBytes: stateBytes})
	if err != nil {
		return nil, false, err
	}
	if n := len(page.Entries); n > 0 {
		p.after = page.Entries[n-1].Key
	}
	p.inside = page.More
	return page.Entries, !p.inside && f.NS != "", nil
}

// nextSpace moves on to the next namespace; false if there is none.
func (p *lister) nextSpace(store kv.Store, f kv.Filter) bool {
	if f.NS != "" {
		p.ns, p.inside = f.NS, true
		return true
	}
	if len(p.spaces) == 0 && !p.last {
		list, more := store.Namespaces(p.ns, statePage)
		for i := range list {
			p.spaces = append(p.spaces, list[i].Name)
		}
		p.last = !more
	}
	if len(p.spaces) == 0 {
		return false
	}
	p.ns, p.after, p.inside = p.spaces[0], "", true
	p.spaces = p.spaces[1:]
	return true
}
