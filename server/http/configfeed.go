package http

import (
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/kv/follow"
)

// configFeed feeds the streams of configuration changes.
type configFeed struct {
	*follow.Newest[*snapshot.Snapshot]
	store *confstore.Store
	start uint64 // sequence at the start of the feed
}

// maxSpare is how many names of files that were never valid are noted.
const maxSpare = 100_000

// newConfigFeed follows store. It returns nil if store is nil.
func newConfigFeed(store *confstore.Store) *configFeed {
	if store == nil {
		return nil
	}
	f := &configFeed{Newest: follow.NewNewest(store.Follow, store.Snapshot, maxSpare), store: store}
	_, at := f.Present()
	f.start = at.Seq
	return f
}

// missed returns the files that a client who knows everything up to a sequence has
// missed, or false if that is unknown.
func (f *configFeed) missed(seq uint64) ([]follow.News, follow.Position, bool) {
	now, next, names, known := f.Resume(seq)
	if !known {
		return nil, next, false
	}
	for _, name := range now.Names() {
		node := now.Node(name)
		// No note has what broke before the feed started.
		if node.Seq() > seq || seq <= f.start && node.Broken() != "" {
			names = append(names, name)
		}
	}
	if seq <= f.start {
		for _, fault := range f.store.Faults() {
			names = append(names, fault.Name)
		}
	}
	return follow.InOrder(now, names, seq), next, true
}
