package confstore

import (
	"maps"
	"math"
	"slices"

	"confcenter/meta"
)

// found makes edits that are on the disk already durable and publishes them as
// one batch. If the journal cannot be written they are served all the same: the
// files are the truth, and a later append catches up.
func (s *Store) found(edits []edit) {
	if len(edits) == 0 {
		return
	}
	p, err := s.plan(edits, false)
	if err != nil {
		// _meta.json was checked when it was read; served as before, then.
		s.problems.set(OfFile, meta.FileName, err.Error())
		return
	}
	for name, doc := range p.docs {
		if _, highest := s.highest(name, p.rules); highest == math.MaxInt32 && doc.served == highest {
			s.problems.set(OfFile, name, "has changed, but its version is at the end of all versions, so that clients do not fetch it; "+wayOut)
		}
	}
	err = s.journal.append(append(s.catchUp(), p.records()...))
	s.journaled(err)
	s.publish(p, err != nil)
}

// catchUp is what the journal missed while it could not be written.
func (s *Store) catchUp() []record {
	if !s.behind {
		return nil
	}
	var out []record
	for name, e := range s.entries {
		if e.unsaved {
			out = append(out, e.records(name)...)
		}
	}
	return out
}

// journaled takes note of how an append went.
func (s *Store) journaled(err error) {
	if err != nil {
		s.problems.set(OfJournal, journalName, err.Error())
		return
	}
	if s.behind {
		for _, e := range s.entries {
			e.unsaved = false
		}
		s.behind = false
	}
	s.problems.set(OfJournal, journalName, "")
}

// publish carries a plan out: the snapshot is readable before subscribers hear
// of it.
func (s *Store) publish(p *plan, unsaved bool) {
	prev := s.snapshot.Load()
	oldRules := s.rules
	s.remember(p, unsaved)
	b := newBuilder(prev)
	b.next.seq, b.next.meta = p.seq, p.rules.meta
	var changes []Change
	affected := p.affected(oldRules, prev)
	for name := range affected {
		if c := s.rebuild(b, name, p); c.happened() {
			changes = append(changes, c)
		}
	}
	next := b.finish()
	s.snapshot.Store(next)
	if p.newRules || p.existence {
		s.checkMeta(next)
	}
	s.tellFollowers(slices.Sorted(maps.Keys(affected)))
	if len(changes) == 0 {
		return
	}
	batch := &Batch{Seq: next.seq, Snapshot: next, Prev: prev, Changes: sortChanges(changes)}
	for _, fn := range s.subscribers() {
		fn(batch)
	}
}

// remember takes the plan into the entries.
func (s *Store) remember(p *plan, unsaved bool) {
	s.behind = s.behind || unsaved
	s.seq, s.rules = p.seq, p.rules
	for _, ed := range p.edits {
		e := s.entry(ed.name)
		s.liveBytes -= e.size(ed.name)
		e.doc, e.seq, e.unsaved = p.docs[ed.name], p.seqs[ed.name], unsaved
		s.liveBytes += e.size(ed.name)
	}
	for name, l := range p.lists {
		e := s.entry(name)
		e.floor, e.list, e.listSeq, e.unsaved = l.floor, l.list, p.seq, e.unsaved || unsaved
	}
}

func (s *Store) entry(name string) *entry {
	e := s.entries[name]
	if e == nil {
		e = &entry{}
		s.entries[name] = e
	}
	return e
}

// affected are the names whose node in prev is no longer true.
func (p *plan) affected(old *rules, prev *Snapshot) map[string]struct{} {
	names := make(map[string]struct{}, len(p.edits))
	for _, e := range p.edits {
		names[e.name] = struct{}{}
		for _, heir := range p.rules.heirs[e.name] {
			names[heir] = struct{}{}
		}
	}
	for name := range p.lists {
		names[name] = struct{}{}
	}
	if p.newRules {
		for _, r := range [...]*rules{old, p.rules} {
			for _, name := range r.meta.Names() {
				if n := prev.Node(name); n == nil || n.list != p.rules.listDigest(name) {
					names[name] = struct{}{}
				}
			}
		}
	}
	return names
}

// rebuild puts the new node of name into b and says what is different about it.
func (s *Store) rebuild(b *builder, name string, p *plan) Change {
	prev := b.next.Node(name)
	n := s.newNode(name, prev)
	switch {
	case n.Known() || n.listed:
		b.put(n)
	case prev != nil:
		b.remove(name)
	}
	s.retire(prev, n)
	c := Change{Name: name, Node: n, Prev: prev}
	if prev == nil && !n.Known() && !n.listed {
		return c
	}
	if ed := p.tells(name); ed != nil {
		c.Own, c.Actor = true, ed.actor
	}
	for _, base := range n.bases {
		if p.tells(base) != nil {
			c.Bases = append(c.Bases, base)
		}
	}
	before := digest{}
	if prev != nil {
		before = prev.list
	}
	c.BasesListChanged = p.newRules && before != n.list
	return c
}

func (c Change) happened() bool { return c.Own || len(c.Bases) > 0 || c.BasesListChanged }

// tells is the edit that changes name's own contents in p; nil: they do not change.
func (p *plan) tells(name string) *edit {
	if p.docs[name] == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(p.edits, name, func(e edit, name string) int {
		switch {
		case e.name < name:
			return -1
		case e.name > name:
			return 1
		}
		return 0
	})
	if !ok || p.edits[i].quiet {
		return nil
	}
	return &p.edits[i]
}

// newNode is the node of name as the entries and rules now are. It keeps what
// prev has computed if that is still true.
func (s *Store) newNode(name string, prev *Node) *Node {
	n := &Node{name: name, limits: &s.limits}
	if e := s.entries[name]; e != nil {
		n.own, n.floor, n.listSeq, n.broken = e.doc, e.floor, e.listSeq, e.broken
	}
	n.bases, n.listed = s.rules.meta.Bases(name)
	n.list, n.deep = s.rules.listDigest(name), s.rules.meta.Deep(name)
	n.resolved = n.floor
	if n.own != nil {
		n.resolved = max(n.resolved, n.own.served)
	}
	for _, base := range n.bases {
		if e := s.entries[base]; e.known() {
			n.parts, n.partNames = append(n.parts, e.doc), append(n.partNames, base)
			n.resolved = max(n.resolved, e.doc.served)
		}
	}
	if len(n.bases) > 0 || n.listed && n.own == nil {
		n.merged = new(form)
		if prev != nil && prev.merged != nil && prev.own == n.own && prev.deep == n.deep && slices.Equal(prev.parts, n.parts) {
			n.merged = prev.merged
		}
	}
	return n
}

// retire gives back what a node held that is no longer in the snapshot.
func (s *Store) retire(prev, next *Node) {
	if prev == nil {
		return
	}
	prev.retireAnswers()
	if prev.merged != nil && prev.merged != next.merged {
		s.limits.cache.retire(prev.merged)
	}
	if prev.own != nil && prev.own != next.own {
		s.limits.cache.retire(&prev.own.index)
	}
}

// refresh replaces the node of a name whose file has become broken or healed. The
// contents are the same, so there is no batch.
func (s *Store) refresh(name string) {
	prev := s.snapshot.Load()
	if old := prev.Node(name); old != nil {
		b := newBuilder(prev)
		b.put(s.newNode(name, old))
		s.snapshot.Store(b.finish())
		old.retireAnswers()
		s.tellFollowers([]string{name})
	}
}

// checkMeta reports what is wrong with _meta.json, given the documents there are.
func (s *Store) checkMeta(now *Snapshot) {
	var list []Problem
	add := func(name, text string) { list = append(list, Problem{Name: name, Text: text}) }
	for _, p := range s.rules.problems {
		add(p.Name, p.Text)
	}
	exists := func(name string) bool {
		n := now.Node(name)
		return n != nil && n.Known() && !n.Deleted()
	}
	for _, p := range s.rules.meta.Check(exists) {
		add(p.Name, p.Text)
	}
	s.problems.replace(OfMeta, list)
}
