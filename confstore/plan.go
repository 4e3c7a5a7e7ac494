package confstore

import (
	"bytes"
	"slices"
	"strings"

	"confcenter/access"
	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// onDisk stands for whoever edited a file.
var onDisk = &access.Actor{Origin: access.OnDisk}

// edit is a new state of one document, found or asked for.
type edit struct {
	name  string
	text  []byte // compact; nil = deleted
	given int32
	// quiet: the contents are those that are served already. Nobody is told; the
	// version may rise to what was given.
	quiet bool
	actor *access.Actor // who asked for it; onDisk: it was found
	// only of a Set that writes
	exact    []byte // the file's bytes; nil: text as the store formats it
	fileTime int32
}

// plan is what edits come to: the versions, and whose list of bases is now
// another. Nothing has happened yet.
type plan struct {
	edits    []edit // sorted by name
	docs     map[string]*document
	seqs     map[string]uint64
	rules    *rules
	newRules bool
	// existence: a document appears or is removed, which _meta.json may speak of.
	existence bool
	lists     map[string]listState // of documents that are or become known
	seq       uint64
}

type listState struct {
	floor int32
	list  digest
}

// plan computes the consequences of edits, at most one a name. It fails only if
// one of them makes _meta.json something that it cannot be. recheck looks at all
// lists of bases as if _meta.json had changed.
func (s *Store) plan(edits []edit, recheck bool) (*plan, error) {
	p := &plan{
		edits: edits,
		docs:  make(map[string]*document, len(edits)),
		seqs:  make(map[string]uint64, len(edits)),
		rules: s.rules, newRules: recheck,
		lists: make(map[string]listState),
		seq:   s.seq,
	}
	slices.SortFunc(p.edits, func(a, b edit) int { return strings.Compare(a.name, b.name) })
	for _, e := range p.edits {
		if e.name == meta.FileName && !e.quiet {
			rules, err := parseRules(e.text)
			if err != nil {
				return nil, err
			}
			p.rules, p.newRules = rules, true
		}
	}
	for _, e := range p.edits {
		p.seq++
		p.seqs[e.name], p.docs[e.name] = p.seq, s.version(e, p.rules)
		p.docs[e.name].seq = p.seq
		p.existence = p.existence || s.entries[e.name].live() != (e.text != nil)
	}
	s.planLists(p)
	return p, nil
}

// version gives an edit the version it is served with: greater than any that was
// served for the document or for one that inherits from it, because a client
// fetches neither for less.
func (s *Store) version(e edit, next *rules) *document {
	doc := &document{text: e.text, given: e.given, deleted: e.text == nil}
	if doc.deleted {
		doc.text = []byte("{}")
	}
	if e.quiet {
		doc.served = max(s.entries[e.name].doc.served, e.given)
		return doc
	}
	_, highest := s.highest(e.name, next)
	doc.served = after(e.given, highest)
	return doc
}

// highest is the greatest version served for the document or for one that inherits
// from it by the present rules or by next, and for which of them.
func (s *Store) highest(name string, next *rules) (of string, version int32) {
	now := s.snapshot.Load()
	raise := func(name string) {
		if n := now.Node(name); n != nil && n.Mtime(true) > version {
			of, version = name, n.Mtime(true)
		}
	}
	raise(name)
	for _, heirs := range [...][]string{s.rules.heirs[name], next.heirs[name]} {
		for _, heir := range heirs {
			raise(heir)
		}
	}
	return of, version
}

// planLists finds the documents whose list of bases is not the one they were
// served with, also while the store was down, and raises their versions.
func (s *Store) planLists(p *plan) {
	look := func(name string) {
		e, list := s.entries[name], p.rules.listDigest(name)
		switch {
		case e.known() && e.list != list:
			n := s.snapshot.Load().Node(name)
			p.lists[name] = listState{floor: after(seconds(s.clock.Now(), s.clock.Now()), n.Mtime(true)), list: list}
		case !e.known() && p.docs[name] != nil && list != digest{}:
			p.lists[name] = listState{list: list}
		}
	}
	for _, e := range p.edits {
		look(e.name)
	}
	if !p.newRules {
		return
	}
	for _, r := range [...]*rules{s.rules, p.rules} {
		for _, name := range r.meta.Names() {
			look(name)
		}
	}
}

// records is the plan as the journal keeps it: lists first, because a list that
// is journaled and then not carried out only makes a version rise.
func (p *plan) records() []record {
	out := make([]record, 0, len(p.edits)+len(p.lists))
	for name, l := range p.lists {
		out = append(out, record{kind: recordList, floor: l.floor, list: l.list, name: name})
	}
	for _, e := range p.edits {
		doc := p.docs[e.name]
		out = append(out, record{
			kind: recordPut, seq: p.seqs[e.name], served: doc.served, given: doc.given,
			deleted: doc.deleted, name: e.name, text: e.text,
		})
	}
	return out
}

// sameContents tells whether text, nil for deleted, is what e serves already.
func sameContents(e *entry, text []byte) bool {
	switch {
	case !e.known():
		return false
	case text == nil || e.doc.deleted:
		return text == nil && e.doc.deleted
	}
	return string(e.doc.text) == string(text)
}

// asSpelled is text as e serves it if nothing but escapes is different: to nobody
// is that a change.
func asSpelled(e *entry, text []byte) []byte {
	if text != nil && e.live() && bytes.Contains(e.doc.text, []byte(`\u`)) && bytes.Equal(text, readableText(e.doc.text)) {
		return e.doc.text
	}
	return text
}

// readableText is compact with visible characters instead of their escapes.
func readableText(compact []byte) []byte {
	if !bytes.Contains(compact, []byte(`\u`)) {
		return compact
	}
	return bytes.Clone(jsontext.AppendReadable(make([]byte, 0, len(compact)), compact))
}

// compactText is valid without blanks, in memory of its own size.
func compactText(valid []byte) []byte {
	return slices.Clip(jsontext.AppendCompact(make([]byte, 0, len(valid)), valid))
}
