package confstore

import (
	"slices"

	"confcenter/confstore/doclog"
)

// outcome is the result of applying a plan to a snapshot.
type outcome struct {
	plan    *plan
	next    *Snapshot
	changes []Change // in the order to tell them; none if no one has to be told
	names   []string // of all nodes that are others, sorted
}

// apply makes the next snapshot. It is pure: publication is decided elsewhere, and the next
// plan can build on the snapshot before it is published.
func (pl *plan) apply(l *limits) *outcome {
	b := newBuilder(pl.prev)
	b.next.seq, b.next.rules = pl.seq, pl.rules
	out := &outcome{plan: pl, names: pl.affected()}
	for _, name := range out.names {
		prev := pl.prev.Node(name)
		n := pl.node(name, prev, l)
		switch {
		case n.Known() || n.listed:
			b.put(n)
		case prev != nil:
			b.remove(name)
		default:
			continue
		}
		if c := pl.tell(prev, n); c.happened() {
			out.changes = append(out.changes, c)
		}
	}
	out.next, out.changes = b.finish(), basesFirst(out.changes)
	return out
}

// affected returns the names whose nodes are out of date, sorted.
func (pl *plan) affected() []string {
	names := make([]string, 0, len(pl.edits)+len(pl.lists))
	for _, e := range pl.edits {
		names = append(append(names, e.name), pl.rules.heirs[e.name]...)
	}
	for _, l := range pl.lists {
		names = append(names, l.Name)
	}
	if pl.newRules {
		for _, r := range [...]*rules{pl.prev.rules, pl.rules} {
			for _, name := range r.meta.Names() {
				if n := pl.prev.Node(name); n == nil || n.list != pl.rules.listDigest(name) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// node returns name's node after the plan. It keeps what prev has computed if that is still
// valid.
func (pl *plan) node(name string, prev *Node, l *limits) *Node {
	n := &Node{name: name, limits: l}
	if prev != nil {
		n.own, n.broken, n.floor, n.listSeq = prev.own, prev.broken, prev.floor, prev.listSeq
	}
	if doc := pl.doc(name); doc != nil {
		n.own, n.broken = doc, ""
	}
	if list := pl.list(name); list != nil {
		n.floor, n.listSeq = list.Floor, pl.seq
	}
	if prev != nil && !pl.newRules {
		n.list, n.deep, n.bases, n.listed = prev.list, prev.deep, prev.bases, prev.listed
	} else {
		n.inherit(pl.rules)
	}
	n.resolve(prev, func(base string) *document {
		if doc := pl.doc(base); doc != nil {
			return doc
		}
		if node := pl.prev.Node(base); node != nil {
			return node.own
		}
		return nil
	})
	return n
}

// inherit sets the node's bases from r.
func (n *Node) inherit(r *rules) {
	n.bases, n.listed = r.meta.Bases(n.name)
	n.list, n.deep = r.listDigest(n.name), r.meta.Deep(n.name)
}

// resolve sets the documents of the bases; doc returns nil for an unknown one. prev may be nil.
func (n *Node) resolve(prev *Node, doc func(base string) *document) {
	n.resolved = n.floor
	if n.own != nil {
		n.resolved = max(n.resolved, n.own.served)
	}
	for _, base := range n.bases {
		if d := doc(base); d != nil {
			n.parts, n.partNames = append(n.parts, d), append(n.partNames, base)
			n.resolved = max(n.resolved, d.served)
		}
	}
	if len(n.bases) > 0 || n.listed && n.own == nil {
		n.merged = new(form)
		if prev != nil && prev.merged != nil && prev.own == n.own && prev.deep == n.deep && slices.Equal(prev.parts, n.parts) {
			n.merged = prev.merged
		}
	}
}

// tell describes what the plan does to a node.
func (pl *plan) tell(prev, n *Node) Change {
	c := changeOf(prev, n, func(name string) bool { return pl.tells(name) != nil })
	if c.Own {
		c.Actor = pl.tells(n.name).actor
	}
	c.BasesListChanged = c.BasesListChanged && pl.newRules
	return c
}

// changeOf describes the difference between two versions of a node; own says which documents' own
// contents have changed.
func changeOf(prev, n *Node, own func(name string) bool) Change {
	c := Change{Name: n.name, Node: n, Prev: prev, Own: own(n.name)}
	for _, base := range n.bases {
		if own(base) {
			c.Bases = append(c.Bases, base)
		}
	}
	before := doclog.Digest{}
	if prev != nil {
		before = prev.list
	}
	c.BasesListChanged = before != n.list
	return c
}

func (c Change) happened() bool { return c.Own || len(c.Bases) > 0 || c.BasesListChanged }
