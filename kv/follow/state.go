package follow

import (
	"confcenter/codes"
	"confcenter/kv"
)

// Limits of passing on the state.
const (
	statePage  = 256      // entries listed at a time
	stateBytes = 64 << 10 // bytes of them
	// barren is how often one state may start over.
	barren = 64
)

// state is how far a follower has got the state. All of a state is of one revision,
// so it comes from one view, page by page as the follower takes it.
//
// The store may end a view that is open for long. Then the state starts over. So
// that this does not repeat for ever with a slow follower, the second time all
// entries are held as fast as the store lists them, and the view is open only for a
// moment. Entries are shared and immutable, so that costs a reference each, plus
// those that are overwritten meanwhile.
type state struct {
	resync bool        // the follower must first be told to forget what it has
	rev    kv.Revision // of the state
	view   *heldView   // nil: not yet open, or all is held
	list   lister      // position in the view
	again  int         // how often it has started over

	page     []kv.Event // at hand
	complete bool       // page is the last one

	holding bool // entries are held first
	held    []*kv.Entry
	whole   bool // held is everything that is left
}

// Viewing reports whether the cursor holds a view of the store.
func (c *Cursor) Viewing() bool { return c.state != nil && c.state.view != nil }

// WantsView reports whether the next Fetch opens a view of the store.
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
		c.move(Mark{Rev: st.rev})
		c.endState()
		return kv.Notice{Kind: kv.Synced, Revision: st.rev}, true
	}
	return kv.Notice{}, false
}

// fetchState reads the next page.
func (c *Cursor) fetchState() error {
	st := c.state
	if st.resync || len(st.page) > 0 || st.complete {
		return nil // there is something to pass on first
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

// tell makes entries the next page.
func (c *Cursor) tell(entries []*kv.Entry) {
	c.scratch = c.scratch[:0]
	for _, entry := range entries {
		c.scratch = append(c.scratch, kv.Event{Kind: kv.Put, Entry: entry})
	}
	c.state.page = c.scratch
}

// lister walks through the namespaces and keys of a filter.
type lister struct {
	ns     string
	inside bool     // ns is not finished yet
	after  string   // last key of it
	spaces []string // namespaces to list next, if the filter has none
	last   bool     // there are no more after them
}

// page is the next entries; done if there are no more after them. A namespace that
// appears after the view was opened has nothing in it, and one that is gone since
// is told as the deletions that follow.
func (p *lister) page(view kv.View, store Store, f kv.Filter) (entries []*kv.Entry, done bool, err error) {
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

// nextSpace moves to the next namespace, and returns false if there is none.
func (p *lister) nextSpace(store Store, f kv.Filter) bool {
	if f.NS != "" {
		p.ns, p.inside = f.NS, true
		return true
	}
	if len(p.spaces) == 0 && !p.last {
		if p.ns == "" {
			p.spaces = append(p.spaces, kv.ConfigNamespace)
		}
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
