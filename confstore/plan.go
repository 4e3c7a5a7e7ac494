package confstore

import (
	"bytes"
	"io/fs"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/seal"
	"confcenter/confstore/doclog"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// edit is a new state of one document, found or asked for.
type edit struct {
	name  string
	text  []byte // compact; nil = deleted
	given int32
	floor int32 // it gets no lower version
	// quiet: the contents are already being served. No one is notified; the version may rise
	// to the given one.
	quiet    bool
	resealed bool          // they are, but for the key by which values are sealed
	actor    *access.Actor // who requested it, or made what was found on disk
	info     fs.FileInfo   // of what was found on disk; nil: nothing, or it was requested
	state    string        // of the repository it was found in, before it was read; "": not known
	file     []byte        // the file's exact bytes; nil = deleted, or to be read again
	hash     doclog.Digest // of them
	replaces doclog.Digest // of those before; zero: there was no file, or it could not be read
}

// planner works out the consequences of edits and requests, given a snapshot and the time. It
// is pure: no I/O, no side effects.
type planner struct {
	prev  *Snapshot
	now   time.Time
	floor int32 // no edit gets a lower version
}

// plan is the consequences of edits: the versions, and which lists of bases change. Nothing has
// happened yet.
type plan struct {
	prev     *Snapshot
	now      time.Time
	edits    []edit      // sorted by name
	docs     []*document // of the edits
	rules    *rules
	newRules bool
	// existence: a document appears or is removed, or is an object and was none, or the other way round,
	// which may affect the check of _meta.json.
	existence bool
	lists     []doclog.List // of documents that are or become known, sorted by name
	seq       uint64
	revision  kv.Revision // under which it is in the log; 0: it is not

	// once it is applied
	next    *Snapshot
	changes []Change // in the order to tell them; none if no one has to be told
	names   []string // of all nodes that are others, sorted
}

// plan computes the consequences of edits, at most one for each name. It fails only if one of
// them makes _meta.json invalid. recheck examines all lists of bases as if _meta.json had
// changed.
func (p planner) plan(edits []edit, recheck bool) (*plan, error) {
	pl := &plan{
		prev: p.prev, now: p.now, edits: edits, docs: make([]*document, len(edits)),
		rules: p.prev.rules, newRules: recheck, seq: p.prev.seq + 1,
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
		pl.docs[i] = p.version(e, pl.rules)
		pl.docs[i].seq = pl.seq
		prev := p.prev.Node(e.name)
		pl.existence = pl.existence || prev.live() != (e.text != nil) || prev.live() && prev.own.object() != pl.docs[i].object()
	}
	p.planLists(pl, recheck)
	return pl, nil
}

// version assigns the version with which an edit is served. It is greater than any that was
// served for the document or for one that inherits from it, because clients fetch neither for
// less.
func (p planner) version(e edit, next *rules) *document {
	doc := &document{text: e.text, given: e.given, deleted: e.text == nil, hash: e.hash, sealed: seal.Has(e.text)}
	if doc.deleted {
		doc.text = []byte("{}")
	}
	if e.quiet {
		doc.served = max(p.prev.Node(e.name).own.served, e.given)
		return doc
	}
	_, highest := p.highest(e.name, next)
	doc.served = after(max(e.given, e.floor, p.floor), highest)
	return doc
}

// highest returns the greatest version served for the document or for one that inherits from it
// by the current rules or by next, and the name of that document.
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

// planLists finds the documents whose list of bases differs from the one they were served with,
// even if it changed while the store was down, and raises their versions.
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
			pl.lists = append(pl.lists, doclog.List{Name: name, Floor: after(seconds(p.now, p.now), n.Mtime(true)), Digest: list})
		case !n.known() && pl.doc(name) != nil && list != doclog.Digest{}:
			pl.lists = append(pl.lists, doclog.List{Name: name, Digest: list})
		}
	}
}

// at returns the index of name's edit; false if it has none.
func (pl *plan) at(name string) (int, bool) {
	return slices.BinarySearchFunc(pl.edits, name, func(e edit, name string) int { return strings.Compare(e.name, name) })
}

// doc returns name's new document, nil if it has no edit.
func (pl *plan) doc(name string) *document {
	if i, ok := pl.at(name); ok {
		return pl.docs[i]
	}
	return nil
}

// tells returns the edit that changes name's own contents, nil if they do not change.
func (pl *plan) tells(name string) *edit {
	if i, ok := pl.at(name); ok && !pl.edits[i].quiet {
		return &pl.edits[i]
	}
	return nil
}

func (pl *plan) list(name string) *doclog.List {
	i, ok := slices.BinarySearchFunc(pl.lists, name, func(l doclog.List, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return &pl.lists[i]
}

// change returns the plan in the form that the log stores.
func (pl *plan) change() doclog.Change {
	c := doclog.Change{Seq: pl.seq, By: by(nil, pl.now), Lists: pl.lists, Versions: make([]doclog.Version, len(pl.edits))}
	for i, e := range pl.edits {
		c.Versions[i] = pl.docs[i].remembered(e.name, e.file)
		c.Versions[i].Replaces, c.Versions[i].Resealed = e.replaces, e.resealed
		c.By = by(e.actor, pl.now)
		if len(pl.edits) > 1 {
			b := c.By
			c.Versions[i].By = &b
		}
	}
	if len(pl.edits) > 1 {
		c.Sign()
	}
	c.Note = pl.note()
	return c
}

// recorded notes the revision under which the plan is in the log. It is called before the plan is
// published.
func (pl *plan) recorded(rev kv.Revision) {
	for _, doc := range pl.docs {
		doc.setRevision(rev)
	}
	pl.revision = rev
}

// by is an actor to the log.
func by(a *access.Actor, now time.Time) doclog.By {
	b := doclog.By{Time: now.UnixMilli()}
	if a != nil {
		b.Author, b.Origin, b.Peer, b.Comment, b.Commit, b.Token = a.By(), a.Origin, a.Address, a.Comment, a.Commit, a.Token
	}
	return b
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

// asSpelled returns the text that n serves if it differs from text only in escapes, because that
// counts as no change; else text.
func asSpelled(n *Node, text []byte) []byte {
	if text != nil && n.live() && bytes.Contains(n.own.text, []byte(`\u`)) && bytes.Equal(text, readableText(n.own.text)) {
		return n.own.text
	}
	return text
}

// readableText returns compact text with escapes of visible characters replaced by the
// characters.
func readableText(compact []byte) []byte {
	if !bytes.Contains(compact, []byte(`\u`)) {
		return compact
	}
	return bytes.Clone(jsontext.AppendReadable(make([]byte, 0, len(compact)), compact))
}

// compactText returns valid text without blanks, in memory of about its size.
func compactText(valid []byte) []byte {
	return fitted(jsontext.AppendCompact(make([]byte, 0, len(valid)), valid))
}

// fitted returns text in memory of about its size.
func fitted(text []byte) []byte {
	if cap(text)-len(text) > len(text)/8+64 {
		return bytes.Clone(text)
	}
	return slices.Clip(text)
}
