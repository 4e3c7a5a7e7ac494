package confstore

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/confstore/ledger"
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
	write *ledger.Write // what is going to be done to the file; nil: nothing
}

// planner says what edits and requests come to, given a snapshot and the time. It is
// pure: it asks nobody and changes nothing.
type planner struct {
	prev *Snapshot
	now  time.Time
}

// plan is what edits come to: the versions, and whose list of bases is now
// another. Nothing has happened yet.
type plan struct {
	prev     *Snapshot
	edits    []edit      // sorted by name
	docs     []*document // of the edits
	rules    *rules
	newRules bool
	// existence: a document appears or is removed, which _meta.json may speak of.
	existence bool
	lists     []ledger.List // of documents that are or become known, sorted by name
	seq       uint64
}

// plan computes the consequences of edits, at most one a name. It fails only if
// one of them makes _meta.json something that it cannot be. recheck looks at all
// lists of bases as if _meta.json had changed.
func (p planner) plan(edits []edit, recheck bool) (*plan, error) {
	pl := &plan{
		prev: p.prev, edits: edits, docs: make([]*document, len(edits)),
		rules: p.prev.rules, newRules: recheck, seq: p.prev.seq,
	}
	slices.SortFunc(pl.edits, func(a, b edit) int { return strings.Compare(a.name, b.name) })
	for _, e := range pl.edits {
		if e.name == meta.FileName && !e.quiet {
			rules, err := parseRules(e.text)
			if err != nil {
				return nil, err
			}
			pl.rules, pl.newRules = rules, true
		}
	}
	for i, e := range pl.edits {
		pl.seq++
		pl.docs[i] = p.version(e, pl.rules)
		pl.docs[i].seq = pl.seq
		pl.existence = pl.existence || p.prev.Node(e.name).live() != (e.text != nil)
	}
	p.planLists(pl, recheck)
	return pl, nil
}

// version gives an edit the version it is served with: greater than any that was
// served for the document or for one that inherits from it, because a client
// fetches neither for less.
func (p planner) version(e edit, next *rules) *document {
	doc := &document{text: e.text, given: e.given, deleted: e.text == nil}
	if doc.deleted {
		doc.text = []byte("{}")
	}
	if e.quiet {
		doc.served = max(p.prev.Node(e.name).own.served, e.given)
		return doc
	}
	_, highest := p.highest(e.name, next)
	doc.served = after(e.given, highest)
	return doc
}

// highest is the greatest version served for the document or for one that inherits
// from it by the present rules or by next, and for which of them.
func (p planner) highest(name string, next *rules) (of string, version int32) {
	raise := func(name string) {
		if n := p.prev.Node(name); n != nil && n.Mtime(true) > version {
			of, version = name, n.Mtime(true)
		}
	}
	raise(name)
	for _, heirs := range [...][]string{p.prev.rules.heirs[name], next.heirs[name]} {
		for _, heir := range heirs {
			raise(heir)
		}
	}
	return of, version
}

// planLists finds the documents whose list of bases is not the one they were
// served with, also while the store was down, and raises their versions.
func (p planner) planLists(pl *plan, recheck bool) {
	names := make([]string, 0, len(pl.edits))
	for _, e := range pl.edits {
		if pl.newRules || !p.prev.Node(e.name).known() {
			names = append(names, e.name)
		}
	}
	if pl.newRules {
		names = append(append(names, p.prev.rules.meta.Names()...), pl.rules.meta.Names()...)
	}
	if recheck {
		names = append(names, p.prev.names...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		n, list := p.prev.Node(name), pl.rules.listDigest(name)
		switch {
		case n.known() && n.list != list:
			pl.lists = append(pl.lists, ledger.List{Name: name, Floor: after(seconds(p.now, p.now), n.Mtime(true)), Digest: list})
		case !n.known() && pl.doc(name) != nil && list != ledger.Digest{}:
			pl.lists = append(pl.lists, ledger.List{Name: name, Digest: list})
		}
	}
}

// at is the place of name's edit; false if it has none.
func (pl *plan) at(name string) (int, bool) {
	return slices.BinarySearchFunc(pl.edits, name, func(e edit, name string) int { return strings.Compare(e.name, name) })
}

// doc is what name becomes; nil: what it is.
func (pl *plan) doc(name string) *document {
	if i, ok := pl.at(name); ok {
		return pl.docs[i]
	}
	return nil
}

// tells is the edit that changes name's own contents; nil: they do not change.
func (pl *plan) tells(name string) *edit {
	if i, ok := pl.at(name); ok && !pl.edits[i].quiet {
		return &pl.edits[i]
	}
	return nil
}

func (pl *plan) list(name string) *ledger.List {
	i, ok := slices.BinarySearchFunc(pl.lists, name, func(l ledger.List, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return &pl.lists[i]
}

// change is the plan as the ledger remembers it.
func (pl *plan) change() ledger.Change {
	c := ledger.Change{Lists: pl.lists, Versions: make([]ledger.Version, len(pl.edits))}
	for i, e := range pl.edits {
		c.Versions[i] = pl.docs[i].remembered(e.name)
		c.Versions[i].Write = e.write
	}
	return c
}

// sameContents reports whether text, nil for deleted, is what n serves already.
func sameContents(n *Node, text []byte) bool {
	switch {
	case !n.known():
		return false
	case text == nil || n.Deleted():
		return text == nil && n.Deleted()
	}
	return string(n.own.text) == string(text)
}

// asSpelled is text as n serves it if nothing but escapes is different: to nobody
// is that a change.
func asSpelled(n *Node, text []byte) []byte {
	if text != nil && n.live() && bytes.Contains(n.own.text, []byte(`\u`)) && bytes.Equal(text, readableText(n.own.text)) {
		return n.own.text
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
