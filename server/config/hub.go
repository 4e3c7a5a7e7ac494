package config

import (
	"bytes"
	"slices"
	"strings"

	"confcenter/confstore/snapshot"
	"confcenter/internal/roster"
	"confcenter/kv/follow"
	"confcenter/protocol"
	"confcenter/server/tcp/gate"
	"confcenter/server/tcp/loop"
)

// hub has the subscriptions of one loop: which of its sessions follow which file. It
// belongs to the loop.
type hub struct {
	subs    map[string][]*subscription     // by full file name, in any order; subscription.place is the place
	backlog *follow.Queue[*snapshot.Batch] // any goroutine: what fanOuts in the mailbox are going to push
}

func (h *hub) add(sub *subscription) {
	sub.place = len(h.subs[sub.file])
	h.subs[sub.file] = append(h.subs[sub.file], sub)
}

func (h *hub) removeSub(sub *subscription) {
	sub.dead = true
	sub.of.s.Group().Memory.Give(sub.size())
	sub.count.End()
	list := h.subs[sub.file]
	last := len(list) - 1
	list[sub.place] = list[last]
	list[sub.place].place = sub.place
	list[last] = nil
	if h.subs[sub.file] = list[:last]; last == 0 {
		delete(h.subs, sub.file)
	}
}

// follower is a session's subscriptions.
type follower struct {
	s    *gate.Session
	hub  *hub
	subs []*subscription
}

func (f *follower) ReadOn() {}

func (f *follower) Ended() {
	for _, sub := range f.subs {
		f.hub.removeSub(sub)
	}
	f.subs = nil
}

func (f *follower) Describe(info *roster.Client, room int) {
	n := min(len(f.subs), room)
	info.More = len(f.subs) - n
	for _, sub := range f.subs[:n] {
		info.Subscriptions = append(info.Subscriptions, roster.Subscription{File: sub.file, Path: sub.path, Told: max(sub.told, sub.first)})
	}
}

// followerOf returns the session's subscriptions.
func followerOf(s *gate.Session) *follower {
	if f, ok := s.Part(gate.OfConfig).(*follower); ok {
		return f
	}
	f := &follower{s: s, hub: s.Local.Part(gate.OfConfig).(*hub)}
	s.SetPart(gate.OfConfig, f)
	return f
}

// publish posts a batch of the store to the loops. The store calls it before it completes
// the writer, so a writer that has subscribed gets the push before the reply.
func (f *Handlers) publish(b *snapshot.Batch) {
	for _, c := range b.Changes {
		if !c.Own {
			continue
		}
		f.cfg.Changed(c.Node.Deleted(), c.Name, c.Node.Mtime(false), c.Actor, "success")
	}
	weight := b.Weight()
	for _, d := range f.gate.Locals() { // by a new fanOut, or by one that is on its way
		if hub := d.Part(gate.OfConfig).(*hub); hub.backlog.Put(b, weight) {
			d.Loop.Post(&fanOut{hub: hub, exact: f.cfg.FrameExact})
		} else {
			f.gate.Group.Count.WatchBacklog.Add(1)
		}
	}
}

// fanOut pushes one batch to the subscribers of one loop, some of them in each turn.
type fanOut struct {
	// set at open
	hub   *hub
	exact bool // a changed base is pushed under its own name only

	batch  *snapshot.Batch // nil: not taken from the backlog yet
	change int             // next change to push
	subs   []*subscription // of the current change; nil: not begun
	next   int
	sent   int // in this turn, parts looked up included
	frame  encodedPush
	paths  map[pathKey]bool
	// what sessions with several subscriptions have got in this batch, so that a base
	// which they follow in several ways is pushed once
	told map[*gate.Session]map[string]struct{}
}

// encodedPush is the frame encoded last: most subscribers get the same one.
type encodedPush struct {
	change protocol.Change
	frame  []byte
}

// pathKey names a part of a document in one of its two forms.
type pathKey struct {
	path    string
	inherit bool
}

func (f *fanOut) Deliver(l *loop.Loop, budget int) (int, bool) {
	f.sent = 0
	if f.batch == nil {
		f.batch, _ = f.hub.backlog.Take()
		f.batch.Complete()
	}
	for ; f.change < len(f.batch.Changes); f.change++ {
		c := &f.batch.Changes[f.change]
		if f.subs == nil {
			f.subs, f.next, f.paths = slices.Clone(f.hub.subs[c.Name]), 0, nil
		}
		for ; f.next < len(f.subs); f.next++ {
			if f.sent >= budget {
				return f.sent, false
			}
			if !f.tell(l, c, f.subs[f.next]) {
				l.Hold()
				return f.sent + 1, false
			}
		}
		f.subs = nil
	}
	return f.sent + 1, true
}

// tell sends sub what it needs to know about c. It returns false if a worker must prepare
// the document first.
func (f *fanOut) tell(l *loop.Loop, c *snapshot.Change, sub *subscription) (ready bool) {
	if sub.dead || sub.since >= f.batch.Seq || !(c.Own || sub.inherit) {
		return true
	}
	ready = true // also if this panics
	defer loop.Guard(&sub.of.s.Conn)
	if sub.path != "" {
		changed, ready := f.pathChanged(l, c, pathKey{sub.path, sub.inherit})
		if !ready {
			return false
		}
		if !changed {
			return true
		}
	} else if sub.inherit {
		exact := f.exact
		for _, base := range basesToTell(c) {
			if !sub.of.s.May().Names(base) {
				exact = false // the peer is told of its own document instead
				continue
			}
			if node := f.batch.Snapshot.Node(base); node != nil {
				f.send(sub, protocol.Change{File: base, Mtime: node.Mtime(false)})
			}
		}
		if exact && !c.Own && len(c.Bases) > 0 {
			return true
		}
	}
	mtime := c.Node.Mtime(sub.inherit)
	if mtime != 0 && mtime <= sub.told {
		return true // it got this or a newer version when it subscribed
	}
	sub.told = mtime
	f.send(sub, protocol.Change{File: sub.name, Mtime: mtime, Path: sub.path})
	return true
}

// basesToTell are the bases that are pushed under their own names to a follower of c. A
// name without a file has no version that would make a client fetch it, so if _meta.json
// gives it other bases, theirs are used.
func basesToTell(c *snapshot.Change) []string {
	switch {
	case !c.BasesListChanged || c.Node.Known():
		return c.Bases
	case len(c.Node.Bases()) == 0 && c.Prev != nil:
		return c.Prev.Bases()
	}
	return c.Node.Bases()
}

// send sends one push, unless the session has already got it in this batch.
func (f *fanOut) send(sub *subscription, c protocol.Change) {
	s := sub.of.s
	if s.Ending() {
		return
	}
	if len(sub.of.subs) > 1 && c.Path == "" && !f.first(s, c.File) {
		return
	}
	if f.frame.frame == nil || f.frame.change != c {
		f.frame.change = c
		f.frame.frame = appendPush(f.frame.frame[:0], c)
	}
	protocol.SetSeq(f.frame.frame, s.Group().NextSeq())
	f.sent++
	s.Out.SendPush(f.frame.frame, loop.PushKey{File: c.File, Path: c.Path})
}

func (f *fanOut) first(s *gate.Session, file string) bool {
	names := f.told[s]
	if names == nil {
		names = make(map[string]struct{})
		if f.told == nil {
			f.told = make(map[*gate.Session]map[string]struct{})
		}
		f.told[s] = names
	}
	_, had := names[file]
	names[file] = struct{}{}
	return !had
}

// pathChanged compares a part of the document before and after, once for all that follow
// it.
func (f *fanOut) pathChanged(l *loop.Loop, c *snapshot.Change, key pathKey) (changed, ready bool) {
	if changed, done := f.paths[key]; done {
		return changed, true
	}
	if f.paths == nil {
		f.paths = make(map[pathKey]bool)
	}
	key.path = strings.Clone(key.path)
	f.sent++ // looking takes about as long as sending
	after, okAfter, ready := lookUp(c.Node, key)
	if ready {
		var before []byte
		var okBefore bool
		if before, okBefore, ready = lookUp(c.Prev, key); ready {
			changed = okBefore != okAfter || !bytes.Equal(before, after)
		}
	}
	if !ready {
		l.Group.WorkFirst(func() {
			defer l.Release()
			// The loop is on hold, so nothing else is at f: its followers are told.
			defer l.Group.Contain(func() { f.paths[key] = true })
			for _, node := range []*snapshot.Node{c.Node, c.Prev} {
				if node != nil {
					node.Prepare(key.inherit, true)
				}
			}
		})
		return false, false
	}
	f.paths[key] = changed
	return changed, true
}

func lookUp(n *snapshot.Node, key pathKey) (value []byte, found, ready bool) {
	if n == nil {
		return nil, false, true
	}
	return n.Lookup(key.inherit, []byte(key.path))
}
