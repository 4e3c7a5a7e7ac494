package audit

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

const (
	// mostOfOne is how many different refusals of one peer are told apart in an interval.
	mostOfOne = 32
	// eventsAtOnce is how many events become durable in one transaction, at most.
	eventsAtOnce = 256
)

// notes are events that have no line yet. What was done has a line each; refusals, and what happens
// often, are added up.
type notes struct {
	// set at open
	cfg  *Config
	wake chan struct{} // capacity 1: there is something to write

	lost atomic.Uint64 // for figures

	mu      sync.Mutex
	pending []access.Event // guarded by mu
	refused sums           // guarded by mu
	often   sums           // guarded by mu: apart, so that they do not take the places of refusals
	dropped int64          // guarded by mu: events that no line has told of yet
}

// sums are events that are added up.
type sums struct {
	// set at open
	most  int
	every time.Duration // between two lines about the same

	all   map[alike]*sum
	ofOne map[alike]int // how many of all each peer has
}

func newSums(most int, every time.Duration) sums {
	return sums{most: most, every: every, all: map[alike]*sum{}, ofOne: map[alike]int{}}
}

// alike is what events have in common that are added up.
type alike struct {
	kind     access.EventKind
	who      string
	host     netip.Addr // without the port, which differs
	place    string     // of a peer whose address is none of these
	do, what string
	outcome  codes.Code
}

// sum is events that are the same.
type sum struct {
	event access.Event
	n     int64     // since the last line
	since int64     // when the first of these was, in ms since 1970
	until time.Time // when the next line is due; zero: now
}

func (n *notes) init(cfg *Config) {
	n.cfg, n.wake = cfg, make(chan struct{}, 1)
	n.refused, n.often = newSums(cfg.MaxSums, cfg.Interval), newSums(cfg.MaxSums, cfg.Often)
}

// Note takes an event down, see access.Notes.
func (a *Audit) Note(e access.Event) {
	if a.On() {
		a.notes.add(e)
	}
}

func (n *notes) add(e access.Event) {
	now := n.cfg.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case e.Outcome != codes.OK:
		if !n.refused.add(&e, now) {
			return
		}
	case e.Often:
		if !n.often.add(&e, now) {
			return
		}
	case len(n.pending) >= n.cfg.MaxEvents:
		n.dropped++
		n.lost.Add(1)
		return
	default:
		n.pending = append(n.pending, e)
	}
	clock.Nudge(n.wake)
}

// add counts an event, and reports whether it is a new one.
func (n *sums) add(e *access.Event, now time.Time) (fresh bool) {
	key := likeness(e)
	one := key.peer()
	s := n.all[key]
	if s == nil && n.ofOne[one] >= mostOfOne {
		key.do, key.what = "several", ""
		s = n.all[key]
	}
	if s == nil && len(n.all) >= n.most {
		key = alike{kind: e.Kind, do: "several"}
		s, one = n.all[key], alike{}
	}
	if s == nil {
		s = &sum{event: access.Event{Kind: e.Kind, By: e.By, Do: key.do, Outcome: e.Outcome}, since: now.UnixMilli()}
		if key.what != "" {
			s.event.What = e.What
		}
		if key.peer() == (alike{}) {
			s.event.By = nil
		}
		n.all[key] = s
		n.ofOne[one]++
		fresh = true
	}
	if s.n == 0 {
		s.since = now.UnixMilli()
	}
	s.n++
	return fresh
}

// peer is what all refusals of one peer have in common.
func (k *alike) peer() alike { return alike{who: k.who, host: k.host, place: k.place} }

// likeness allocates nothing: refusals come in floods.
func likeness(e *access.Event) alike {
	key := alike{kind: e.Kind, do: e.Do, outcome: e.Outcome}
	if len(e.What) > 0 {
		key.what = e.What[0]
	}
	if by := e.By; by != nil {
		if at, err := netip.ParseAddrPort(by.Address); err == nil {
			key.host = at.Addr().Unmap()
		} else {
			key.place = by.Address
		}
		if by.Identity != nil {
			key.who = by.Identity.Name
		}
	}
	return key
}

// due takes the events that lines are due for, at most eventsAtOnce; all: also those whose interval
// is not over.
func (n *notes) due(all bool) (list []access.Event) {
	now := n.cfg.Clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	k := min(len(n.pending), eventsAtOnce)
	list = append(list, n.pending[:k]...)
	n.pending = append(n.pending[:0], n.pending[k:]...)
	if n.dropped > 0 {
		list = append(list, access.Event{Kind: access.EventLost, Do: "note", Outcome: codes.Busy, Count: n.dropped})
		n.dropped = 0
	}
	for _, some := range [...]*sums{&n.refused, &n.often} {
		list = some.due(list, now, all)
	}
	return list
}

// due adds to the list what lines are due for.
func (n *sums) due(list []access.Event, now time.Time, all bool) []access.Event {
	for key, s := range n.all {
		switch {
		case len(list) >= eventsAtOnce:
			return list
		case !all && now.Before(s.until):
			continue
		case s.n == 0:
			delete(n.all, key)
			if one := key.peer(); n.ofOne[one] > 1 {
				n.ofOne[one]--
			} else {
				delete(n.ofOne, one)
			}
			continue
		}
		e := s.event
		if s.n > 1 {
			e.Count, e.Since = s.n, s.since
		}
		list = append(list, e)
		s.n, s.until = 0, now.Add(n.every)
	}
	return list
}

// putBack takes back events that could not be written.
func (n *notes) putBack(list []access.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	room := max(0, n.cfg.MaxEvents+eventsAtOnce-len(n.pending))
	if k := len(list) - room; k > 0 {
		n.dropped += int64(k)
		n.lost.Add(uint64(k))
		list = list[:room]
	}
	n.pending = append(list[:len(list):len(list)], n.pending...)
}

// writeNotes makes lines of what is due; all: also of what will be. What cannot be written now is
// tried again.
func (a *Audit) writeNotes(ctx context.Context, all bool) {
	for ctx.Err() == nil {
		list := a.notes.due(all)
		if len(list) == 0 {
			return
		}
		// The store answers in any case; who does not wait for that would write it twice.
		if _, err := kv.Commit(context.WithoutCancel(ctx), a.store, &kv.Txn{System: true, Note: list}); err != nil {
			a.notes.putBack(list)
			return
		}
	}
}
