package watch

import (
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/op"
	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// kind is how watches of one kind are asked for and told.
type kind struct {
	family         gate.Family
	watch, unwatch protocol.Command
	tailed         bool // octets may follow the JSON of a request
	marks          bool // watches get bookmarks
	read           func(*protocol.Request) (request, error)
	about          func([]op.Thing, kv.Filter) []op.Thing
	reveal         func(*edge.Revealer, []kv.Event) []kv.Event
	append         func(dst []byte, ev protocol.KVEvents, form form) []byte
	event          protocol.Command
	cuts           [forms]follow.Cut // what fits into a frame of each form
}

// request is what a client asks for.
type request struct {
	follow.Request
	form form
	path string // only of what changes there; empty: everything
	// reveals asks for sealed values as far as the peer may know them
	reveals bool
}

// ofKeys is the watch on keys of the state store.
var ofKeys = &kind{
	family: gate.OfWatch, watch: protocol.KVWatch, unwatch: protocol.KVUnwatch, event: protocol.KVEvent, tailed: true,
	read: func(r *protocol.Request) (request, error) {
		q, err := r.KVWatch()
		to := request{Request: follow.Request{Filter: q.Filter, From: q.From, Past: q.Past, State: q.State}, reveals: q.Reveal}
		if q.Coalesce {
			to.Spare = follow.Joined
		}
		to.form = formOf(q.Prev, q.Raw)
		return to, err
	},
	about: op.Watch, reveal: (*edge.Revealer).Events,
	append: func(dst []byte, ev protocol.KVEvents, form form) []byte {
		return protocol.AppendKVEvents(dst, ev, form&withPrev != 0, form&withRaw != 0)
	},
	cuts: cutsBy(cost, false),
}

// ofDocuments is the watch on documents: a frame has no more than one revision.
var ofDocuments = &kind{
	family: gate.OfDocuments, watch: protocol.CfWatch, unwatch: protocol.CfUnwatch, event: protocol.CfEvent, marks: true,
	read: func(r *protocol.Request) (request, error) {
		q, err := r.ConfigWatch()
		to := request{Request: follow.Request{Filter: q.Filter, From: q.From, Past: q.Past, State: q.State}, path: q.Path, reveals: q.Reveal}
		to.form = formOf(q.Prev, q.Changes)
		return to, err
	},
	about: op.WatchDocuments, reveal: (*edge.Revealer).Documents,
	append: func(dst []byte, ev protocol.KVEvents, form form) []byte {
		return protocol.AppendConfigEvents(dst, ev, form&withPrev != 0, form&withPaths != 0)
	},
	cuts: cutsBy(func(e *kv.Event, form form) int {
		n := envelope + e.Entry.Size()
		if form != 0 && e.Prev != nil {
			n += e.Prev.Size()
		}
		return n
	}, true),
}

func formOf(prev, other bool) (f form) {
	if prev {
		f |= withPrev
	}
	if other {
		f |= withRaw
	}
	return f
}

func cutsBy(cost func(*kv.Event, form) int, alone bool) (cuts [forms]follow.Cut) {
	for form := range form(forms) {
		cuts[form] = follow.Cut{Max: frameBytes, Cost: func(e *kv.Event) int { return cost(e, form) }, Alone: alone}
	}
	return cuts
}

// AddDocuments makes g serve watches on documents; nil: there are none to be watched.
func AddDocuments(g *gate.Gate, store follow.Store) *Handlers {
	if store != nil {
		return add(g, ofDocuments, store)
	}
	none := gate.Absent("this server cannot watch documents")
	g.Add(map[protocol.Command]gate.Route{ofDocuments.watch: none, ofDocuments.unwatch: none})
	return nil
}

// Mark sends bookmarks to the watches that have not been told of anything for a while, but how
// far they have come has changed. It may be called from any goroutine.
func (f *Handlers) Mark() {
	if !f.kind.marks {
		return
	}
	for _, d := range f.gate.Locals() {
		if hub := f.hubOf(d); hub.watched.Load() > 0 {
			d.Loop.Post(&bookmarks{f: f, hub: hub})
		}
	}
}

// bookmarks tells the watches of one loop how far they have come.
type bookmarks struct {
	f    *Handlers
	hub  *hub
	walk loop.Walk
}

func (m *bookmarks) Deliver(l *loop.Loop, budget int) (int, bool) {
	used := 0
	for ; used < budget; used++ {
		c := m.walk.Next(l)
		if c == nil {
			break
		}
		if k, _ := gate.SessionOf(c).Part(m.f.kind.family).(*watches); k != nil {
			for _, w := range k.byID {
				used += w.mark(m.hub.told)
			}
		}
	}
	return used + 1, m.walk.Done()
}

// mark tells a live watch that it has everything up to a revision.
func (w *watch) mark(rev kv.Revision) (sent int) {
	s := w.of.s
	defer loop.Guard(&s.Conn)
	rev = max(rev, w.cursor.At().Rev)
	if w.dead || w.behind || s.Ending() || rev <= w.marked || s.Out.Owing() >= s.Limits().Pending {
		return 0
	}
	w.marked = rev
	w.sendEvents(w.of.f.appendNotice(nil, kv.Notice{Revision: rev}, w.form))
	return 1
}
