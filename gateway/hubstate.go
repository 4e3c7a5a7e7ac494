package gateway

import (
	"confcenter/codes"
	"confcenter/kv"
)

// stateReader goes through the present state, a page at a time.
type stateReader struct {
	view       kv.View
	namespaces []string // to come; the first is being read
	last       string   // behind which the list of namespaces goes on
	more       bool     // it does
	after      string   // key
}

// nextState is the next piece of the state, and at its end Synced. If the reader
// takes so long that the store ends the view, all of it begins anew, with a Resync.
func (s *subscription) nextState() (piece, error) {
	p, err := s.statePiece()
	if codes.Of(err) == codes.Compacted {
		s.closeState()
		s.state = &stateReader{}
		return piece{kind: kv.Resync}, nil
	}
	return p, err
}

func (s *subscription) statePiece() (piece, error) {
	st := s.state
	if st.view == nil {
		st.view = s.hub.store.View()
		if st.more = s.filter.NS == ""; !st.more {
			st.namespaces = []string{s.filter.NS}
		}
	}
	for {
		if len(st.namespaces) == 0 && st.more {
			st.moreNamespaces(s.hub.store)
		}
		if len(st.namespaces) == 0 {
			s.position = st.view.Revision()
			s.closeState()
			return piece{kind: kv.Synced, revision: s.position}, nil
		}
		entries, err := st.page(s.filter)
		if err != nil {
			return piece{}, err
		}
		if len(entries) > 0 {
			return piece{kind: kv.State, parts: []part{stateOf(entries, st.view.Revision())}, revision: st.view.Revision()}, nil
		}
	}
}

// moreNamespaces lists some. One that appears after the view was made has nothing in
// it, and one that is gone since is told as the deletions that follow.
func (st *stateReader) moreNamespaces(store kv.Store) {
	var list []kv.Namespace
	list, st.more = store.Namespaces(st.last, statePage)
	for _, ns := range list {
		st.namespaces = append(st.namespaces, ns.Name)
		st.last = ns.Name
	}
}

// page reads some entries of the first namespace, which is left at its end.
func (st *stateReader) page(filter kv.Filter) ([]*kv.Entry, error) {
	ns := st.namespaces[0]
	if filter.Exact {
		st.namespaces = nil
		entry, err := st.view.Get(ns, filter.Text)
		if entry == nil {
			return nil, err
		}
		return []*kv.Entry{entry}, err
	}
	page, err := st.view.List(kv.List{NS: ns, Prefix: filter.Text, After: st.after, Limit: statePage, MaxBytes: readBack})
	if err != nil {
		return nil, err
	}
	if page.More {
		st.after = page.Entries[len(page.Entries)-1].Key
	} else {
		st.namespaces, st.after = st.namespaces[1:], ""
	}
	return page.Entries, nil
}

func stateOf(entries []*kv.Entry, revision kv.Revision) part {
	events := make([]kv.Event, len(entries))
	for i, entry := range entries {
		events[i] = kv.Event{Kind: kv.Put, Entry: entry}
	}
	return part{newChange(revision, events), 0, len(events)}
}

func (s *subscription) closeState() {
	if s.state != nil && s.state.view != nil {
		s.state.view.Close()
	}
	s.state = nil
}
