package server

import (
	"sync"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Limits of giving the state.
const (
	// kvViews is how many of a session's watches are given the state at a time: each
	// holds a view, which costs the store memory.
	kvViews = 4
	// kvPage is how many entries are listed at a time, kvHoldPages how many pages
	// in one step by who takes hold of them all.
	kvPage      = 256
	kvHoldPages = 64
	// kvHolders is how many watches of the server may hold a whole state.
	kvHolders = 4
	// kvBarren is how often giving one state may begin anew.
	kvBarren = 64
)

// kvState is how far a watch has been given the state. All of a state is of one
// revision, so it comes from one view, page by page as the peer reads.
//
// A view that is open for long may be ended by the store. Then the state begins
// anew, and lest that go on for ever with a peer that reads slowly, what is to be
// given is now taken hold of as fast as the store lists it, so that the view is
// open for a moment only: entries are shared and never change, so that costs a
// reference each, and what of them is written over meanwhile.
type kvState struct {
	resync bool        // the peer has to be told to forget what it has
	rev    kv.Revision // what is given is of
	view   kv.View     // nil: not open yet, or all is held
	list   kvLister    // where the view is read
	again  int         // how often it began anew

	holding bool // entries are held rather than given
	held    []*kv.Entry
	whole   bool // held is all there is left to give
}

// kvLister goes through the namespaces and keys of a filter.
type kvLister struct {
	ns     string
	inside bool     // ns is not finished
	after  string   // last key of it
	spaces []string // namespaces to list next, if all are wanted
	last   bool     // there are none behind them
}

// giveState makes frames of the state until the budget is used up or all is given;
// then the turn has no state any more.
func (c *kvCatchUp) giveState(t *kvTurn) error {
	pages := 0
	for c.budget > 0 && pages < kvHoldPages {
		st := t.state
		if st.resync {
			st.resync = false
			c.add(t, appendKVEvents(nil, protocol.KVEvents{Resync: true, Revision: c.store.Revision()}, t.watch.form))
		}
		done, err := c.giveSome(t)
		switch {
		case err != nil && (codes.Of(err) != codes.Compacted || st.again >= kvBarren):
			return err
		case err != nil:
			t.state = c.anew(st)
		case done:
			c.add(t, appendKVEvents(nil, protocol.KVEvents{Synced: true, Revision: st.rev}, t.watch.form))
			t.at = kvMark{rev: st.rev}
			c.views.release(st)
			t.state = nil
			return nil
		}
		if st.holding {
			pages++
		}
	}
	return nil
}

// anew is what follows a state whose view has ended.
func (c *kvCatchUp) anew(old *kvState) *kvState {
	c.views.release(old)
	return &kvState{resync: true, again: old.again + 1, holding: c.views.hold()}
}

// giveSome goes on by a page; done if there was none left.
func (c *kvCatchUp) giveSome(t *kvTurn) (done bool, err error) {
	st := t.state
	if st.whole {
		n := min(kvPage, len(st.held))
		c.addState(t, st.held[:n])
		clear(st.held[:n])
		st.held = st.held[n:]
		return len(st.held) == 0, nil
	}
	if st.view == nil {
		st.view = c.views.open(c.store)
		st.rev = st.view.Revision()
	}
	entries, done, err := st.list.page(st.view, c.store, t.watch.filter)
	if err != nil {
		return false, err
	}
	if !st.holding {
		c.addState(t, entries)
		return done, nil
	}
	st.held = append(st.held, entries...)
	if done {
		st.whole = true
		c.views.closeView(st)
	}
	return false, nil
}

// page is the next entries; done if there are none behind them. A namespace that
// appears after the view was opened has nothing in it, and one that is gone since
// is told as the deletions that follow.
func (p *kvLister) page(view kv.View, store kv.Store, f kv.Filter) (entries []*kv.Entry, done bool, err error) {
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
	page, err := view.List(kv.List{NS: p.ns, Prefix: f.Text, After: p.after, Limit: kvPage, MaxBytes: kvServe})
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
func (p *kvLister) nextSpace(store kv.Store, f kv.Filter) bool {
	if f.NS != "" {
		p.ns, p.inside = f.NS, true
		return true
	}
	if len(p.spaces) == 0 && !p.last {
		list, more := store.Namespaces(p.ns, kvPage)
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

// addState adds frames of entries.
func (c *kvCatchUp) addState(t *kvTurn, entries []*kv.Entry) {
	events := c.cutter.scratch[:0]
	size := 0
	flush := func() {
		if len(events) > 0 {
			c.add(t, appendKVEvents(nil, protocol.KVEvents{State: true, Revision: t.state.rev, Events: events}, t.watch.form))
		}
		events, size = events[:0], 0
	}
	for _, entry := range entries {
		event := kv.Event{Kind: kv.Put, Entry: entry}
		n := kvCost(&event, t.watch.form)
		if size+n > kvFrameBytes {
			flush()
		}
		events, size = append(events, event), size+n
	}
	flush()
	c.cutter.scratch = events
}

// kvOpenViews knows the views that watches hold, so that none is left open when the
// server stops in the middle of a worker's step, and who holds a whole state.
type kvOpenViews struct {
	mu sync.Mutex
	// guarded by mu
	views   map[*heldView]struct{}
	holders int
}

// heldView is a view that can be found again, whatever its type is.
type heldView struct{ kv.View }

func (v *kvOpenViews) open(store kv.Store) kv.View {
	held := &heldView{store.View()}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.views == nil {
		v.views = make(map[*heldView]struct{})
	}
	v.views[held] = struct{}{}
	return held
}

// closeView closes the state's view, if it is open.
func (v *kvOpenViews) closeView(st *kvState) {
	held, ok := st.view.(*heldView)
	if !ok {
		return
	}
	st.view = nil
	v.mu.Lock()
	delete(v.views, held)
	v.mu.Unlock()
	held.Close()
}

// hold asks to hold a whole state; release gives that back.
func (v *kvOpenViews) hold() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.holders == kvHolders {
		return false
	}
	v.holders++
	return true
}

// release gives up all that st holds.
func (v *kvOpenViews) release(st *kvState) {
	v.closeView(st)
	st.held = nil
	if st.holding {
		st.holding = false
		v.mu.Lock()
		v.holders--
		v.mu.Unlock()
	}
}

// closeAll closes what nobody is left to close.
func (v *kvOpenViews) closeAll() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for held := range v.views {
		held.Close()
	}
	clear(v.views)
}
