package kvstore

import (
	"errors"
	"slices"

	"confcenter/kv"
)

// ErrOvertaken is what Append of a SharedLog fails with if another store was first: nothing was taken,
// and Came has what the other appended.
var ErrOvertaken = errors.New("another store has appended to the log")

// SharedLog is a Log that several Stores append to, of which each has one SharedLog of its own.
//
// Append takes a group only if its first revision follows the newest one of the log: what the store
// evaluated it against is then all there was. Otherwise it fails with ErrOvertaken, after which the log
// goes on. Load and the methods that read know what all stores have appended.
type SharedLog interface {
	Log

	// Arrived has something after another store has appended a group. Its capacity is 1: one value
	// stands for any number of groups.
	Arrived() <-chan struct{}
	// Came returns the groups after a revision, in order, each as a store appended it but without
	// Prev. The caller may keep and change their events, the entries and tokens of these; it need not wait for
	// a group that has not arrived, but has to return all that Append was overtaken by.
	Came(after kv.Revision) ([][]Commit, error)
}

// catchUp applies the groups that other stores have appended. No group is under way; list are those who
// wait to be evaluated. It is false if writing has failed for good.
func (c *committer) catchUp(list []queued) bool {
	g := &c.group
	came, err := c.store.shared.Came(g.rev)
	if err != nil {
		c.fail(err, list)
		return false
	}
	for _, group := range came {
		g.begin(c.store.cfg.Clock.Now(), 0)
		for i := range group {
			g.adopt(&group[i])
		}
		g.commits = group
		c.publish(nil, nil)
	}
	return true
}

// abandon takes back the group under way, which the log did not take: all is as before it was evaluated.
func (g *group) abandon() {
	g.rev = g.commits[0].Revision - 1
	g.tokens.takeBack(g.commits)
	for _, ch := range g.changes {
		if ch.fresh {
			g.set(ch, nil)
		} else {
			g.set(ch, ch.slot.entry)
		}
	}
	x, leases := g.counters.index, g.counters.leases
	for part := range slices.Chunk(g.changes, x.slice) {
		x.placeSlice(part)
	}
	for _, l := range g.leases {
		ended := l.ending
		l.ending = false
		switch {
		case !l.seen && leases.byID.of[l.id] == l:
			leases.drop(l)
		case ended && l.over:
			leases.putBack(l, 0)
		}
	}
	g.counters.settled()
	g.reset()
}

// adopt adds a transaction of another store to the group.
func (g *group) adopt(c *Commit) {
	g.start(kv.Delete)
	leases := g.counters.leases
	for _, l := range c.Leases {
		if !l.Ended {
			g.note(leases.grant(l))
		}
	}
	for i := range c.Events {
		g.adoptEvent(&c.Events[i], c.Time)
	}
	for _, l := range c.Leases {
		if known := leases.byID.of[l.ID]; l.Ended && known != nil {
			known.ending = true
			g.note(known)
		}
	}
	if c.Token != nil {
		c.Token.own = g.steady
		g.tokens.give(c.Token, nil)
	}
	g.rev = c.Revision
}

// adoptEvent adds what was done to one key at a time, in ms since 1970. A time to live counts from when
// it is learned of, whatever the two clocks say: it may end late, but not early.
func (g *group) adoptEvent(event *kv.Event, millis int64) {
	e := event.Entry
	if event.Kind == kv.Expire {
		g.expired++
	}
	sp, s := g.counters.index.find(e.NS, e.Key)
	old := s.now()
	event.Prev = old
	switch {
	case e.Ends == 0:
	case old != nil && old.Ends != 0 && old.Expires == e.Expires:
		e.Ends = old.Ends
	default:
		e.Ends = g.steady + e.Expires - millis
	}
	switch {
	case !e.Deleted():
		g.put(sp, s, e)
	case old != nil: // else it was forgotten here
		e.NS, e.Key = sp.name, s.entry.Key
		g.set(g.touch(sp, s), e)
	}
}
