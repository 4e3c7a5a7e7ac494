package replica

import (
	"cmp"
	"context"
	"slices"

	"confcenter/kv"
)

// loadedAgain is the state of a log that could not continue from the replica's revision.
type loadedAgain struct {
	newest  kv.Revision
	entries map[[2]string]*kv.Entry // by namespace and key
	leases  map[kv.LeaseID]LeaseChange
	tokens  []*Token
}

func loadAgain(ctx context.Context, log Log) (*loadedAgain, error) {
	l := &loadedAgain{entries: map[[2]string]*kv.Entry{}, leases: map[kv.LeaseID]LeaseChange{}}
	newest, err := log.Load(ctx, Loader{Entry: l.entry, Lease: l.lease, Token: l.token, Commit: l.commit})
	l.newest = newest
	return l, err
}

func (l *loadedAgain) entry(e *kv.Entry) {
	if name := [2]string{e.NS, e.Key}; e.Deleted() {
		delete(l.entries, name)
	} else {
		l.entries[name] = e
	}
}

func (l *loadedAgain) lease(c LeaseChange) {
	if c.Ended {
		delete(l.leases, c.ID)
	} else {
		l.leases[c.ID] = c
	}
}

func (l *loadedAgain) token(t *Token) { l.tokens = append(l.tokens, t) }

func (l *loadedAgain) commit(c *Commit) {
	for i := range c.Events {
		l.entry(c.Events[i].Entry)
	}
	for _, lease := range c.Leases {
		l.lease(lease)
	}
	if c.Token != nil {
		l.token(c.Token)
	}
}

// difference returns the changes that make the books equal to the log; no group is
// under way. Keys that are gone count as deleted, since the reason is not known.
func (l *loadedAgain) difference(b *books, millis int64) Commit {
	c := Commit{Change: kv.Change{Revision: l.newest, Time: millis}}
	for _, sp := range b.index.spaces {
		for key, s := range sp.keys {
			name := [2]string{sp.name, key}
			is, was := l.entries[name], s.now()
			delete(l.entries, name)
			switch {
			case is == nil && was != nil:
				gone := &kv.Entry{NS: sp.name, Key: key, Mod: l.newest, Updated: millis}
				c.Events = append(c.Events, kv.Event{Kind: kv.Delete, Entry: gone})
			case is != nil && (was == nil || was.Mod != is.Mod):
				c.Events = append(c.Events, kv.Event{Kind: kv.Put, Entry: is})
			}
		}
	}
	for _, is := range l.entries {
		c.Events = append(c.Events, kv.Event{Kind: kv.Put, Entry: is})
	}
	slices.SortFunc(c.Events, func(x, y kv.Event) int {
		return cmp.Or(cmp.Compare(x.Entry.NS, y.Entry.NS), cmp.Compare(x.Entry.Key, y.Entry.Key))
	})
	for id, was := range b.leases.byID {
		if _, stays := l.leases[id]; !stays {
			c.Leases = append(c.Leases, LeaseChange{ID: id, TTL: was.ttl, Ended: true})
		}
	}
	for _, is := range l.leases {
		c.Leases = append(c.Leases, is) // those that are known stay as they are
	}
	return c
}
