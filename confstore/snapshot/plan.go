package snapshot

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"confcenter/confstore/log"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/access/policy"
	"confcenter/access/secret"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// Edit is a new state of one document, found or asked for.
type Edit struct {
	Name  string
	Text  []byte // compact; nil = deleted
	Given int32  // the mtime that its writer gave or its file has
	// Quiet: the contents are already being served. No one is notified; the version may rise
	// to the given one.
	Quiet    bool
	Resealed bool          // they are, but for the key by which values are sealed
	Actor    *access.Actor // who requested it, or made what was found on disk
	State    string        // see place.File
	File     []byte        // the file's exact bytes; nil = deleted, or to be read again
	Hash     log.Digest    // of them
	Replaces log.Digest    // of those before; zero: there was no file, or it could not be read

	doc *document // what it makes, once it is planned
}

// Planner works out the consequences of edits and requests, given a snapshot and the time. It
// is pure: no I/O, no side effects.
type Planner struct {
	Prev   *Snapshot
	Now    time.Time
	Floor  int32 // no edit gets a lower version
	Limits *Limits
	// Fault is why a file that was never good cannot be served; "" of others.
	Fault func(name string) string
}

// Plan is the consequences of edits: the versions, the lists of bases that change, and the next
// snapshot. Nothing has happened yet: publication is decided elsewhere, and the next plan can build on
// Next before it is published.
type Plan struct {
	Planner
	Edits    []Edit      // sorted by name
	Lists    []log.List  // of documents that are or become known, sorted by name
	Revision kv.Revision // under which it is in the log; 0: it is not

	Next    *Snapshot
	Changes []Change // in the order to tell them; none if no one has to be told
	Names   []string // of all nodes that are others, sorted

	rules    *Rules
	newRules bool
	// existence: a document appears or is removed, or is an object and was none, or the other way round,
	// which may affect the check of _meta.json.
	existence bool
	ghosts    []string // names that are not known and get other lists
	seq       uint64
}

// Plan computes the consequences of edits, at most one for each name. It fails only if one of
// them makes _meta.json invalid. recheck examines all lists of bases as if _meta.json had
// changed.
func (p Planner) Plan(edits []Edit, recheck bool) (*Plan, error) {
	pl := &Plan{Planner: p, Edits: edits, rules: p.Prev.rules, newRules: recheck, seq: p.Prev.seq + 1}
	slices.SortFunc(pl.Edits, func(a, b Edit) int { return strings.Compare(a.Name, b.Name) })
	for i := range pl.Edits {
		if e := &pl.Edits[i]; e.Name == meta.FileName && !e.Quiet {
			rules, err := ParseRules(e.Text)
			if err != nil {
				return nil, err
			}
			pl.rules, pl.newRules = rules, true
		}
	}
	for i := range pl.Edits {
		e := &pl.Edits[i]
		e.doc = p.version(e, pl.rules)
		e.doc.seq = pl.seq
		prev := p.Prev.Node(e.Name)
		pl.existence = pl.existence || prev.Live() != (e.Text != nil) || prev.Live() && prev.own.object() != e.doc.object()
	}
	pl.planLists(recheck)
	pl.apply()
	return pl, nil
}

// version assigns the version with which an edit is served. It is greater than any that was
// served for the document or for one that inherits from it, because clients fetch neither for
// less.
func (p Planner) version(e *Edit, next *Rules) *document {
	doc := &document{text: e.Text, given: e.Given, deleted: e.Text == nil, hash: e.Hash, sealed: secret.Has(e.Text)}
	if doc.deleted {
		doc.text = []byte("{}")
	}
	if e.Quiet {
		doc.served = max(p.Prev.Node(e.Name).own.served, e.Given)
		return doc
	}
	_, highest := p.highest(e.Name, next)
	doc.served = After(max(e.Given, p.Floor), highest)
	return doc
}

// Highest returns the greatest version served for the document or for one that inherits from it by the
// rules in force, and the name of that document.
func (p Planner) Highest(name string) (of string, version int32) {
	return p.highest(name, p.Prev.rules)
}

// highest returns the greatest version served for the document or for one that inherits from it
// by the current rules or by next, and the name of that document.
func (p Planner) highest(name string, next *Rules) (of string, version int32) {
	raise := func(name string) {
		if n := p.Prev.Node(name); n != nil && n.Mtime(true) > version {
			of, version = name, n.Mtime(true)
		}
	}
	raise(name)
	for _, heirs := range [...][]string{p.Prev.rules.Heirs[name], next.Heirs[name]} {
		for _, heir := range heirs {
			raise(heir)
		}
	}
	return of, version
}

// planLists finds the documents whose list of bases differs from the one they were served with,
// even if it changed while the store was down, and raises their versions.
func (pl *Plan) planLists(recheck bool) {
	names := make([]string, 0, len(pl.Edits))
	for _, e := range pl.Edits {
		if pl.newRules || !pl.Prev.Node(e.Name).Known() {
			names = append(names, e.Name)
		}
	}
	if pl.newRules {
		names = append(append(names, pl.Prev.rules.Meta.Names()...), pl.rules.Meta.Names()...)
	}
	if recheck {
		names = append(names, pl.Prev.names...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		n, list := pl.Prev.Node(name), pl.rules.ListDigest(name)
		switch {
		case n.Known() && n.list != list:
			pl.Lists = append(pl.Lists, log.List{Name: name, Floor: After(Seconds(pl.Now, pl.Now), n.Mtime(true)), Digest: list})
		case !n.Known() && pl.doc(name) != nil && list != log.Digest{}:
			pl.Lists = append(pl.Lists, log.List{Name: name, Digest: list})
		case n == nil || n.list != list:
			pl.ghosts = append(pl.ghosts, name)
		}
	}
}

// AffectsMeta reports whether there may be other problems with _meta.json afterwards.
func (pl *Plan) AffectsMeta() bool { return pl.newRules || pl.existence }

// AtTheEnd are the documents that change though their version is the last of all, so that clients do not
// fetch them.
func (pl *Plan) AtTheEnd() (names []string) {
	for i := range pl.Edits {
		e := &pl.Edits[i]
		if _, highest := pl.highest(e.Name, pl.rules); highest == math.MaxInt32 && e.doc.served == highest {
			names = append(names, e.Name)
		}
	}
	return names
}

// edit returns name's edit, nil if it has none.
func (pl *Plan) edit(name string) *Edit {
	i, ok := slices.BinarySearchFunc(pl.Edits, name, func(e Edit, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil
	}
	return &pl.Edits[i]
}

// doc returns name's new document, nil if it has no edit.
func (pl *Plan) doc(name string) *document {
	if e := pl.edit(name); e != nil {
		return e.doc
	}
	return nil
}

// tells returns the edit that changes name's own contents, nil if they do not change.
func (pl *Plan) tells(name string) *Edit {
	if e := pl.edit(name); e != nil && !e.Quiet {
		return e
	}
	return nil
}

func (pl *Plan) list(name string) *log.List {
	i, ok := slices.BinarySearchFunc(pl.Lists, name, func(l log.List, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return &pl.Lists[i]
}

// Change returns the plan in the form that the log stores.
func (pl *Plan) Change() log.Change {
	c := log.Change{Seq: pl.seq, By: log.ByOf(nil, pl.Now), Lists: pl.Lists, Versions: make([]log.Version, len(pl.Edits))}
	for i, e := range pl.Edits {
		c.Versions[i] = pl.Next.Node(e.Name).Remembered(e.File)
		c.Versions[i].Replaces, c.Versions[i].Resealed = e.Replaces, e.Resealed
		c.By = log.ByOf(e.Actor, pl.Now)
		if len(pl.Edits) > 1 {
			b := c.By
			c.Versions[i].By = &b
		}
	}
	if len(pl.Edits) > 1 {
		c.Sign()
	}
	c.Note = pl.note()
	return c
}

// Recorded notes the revision under which the plan is in the log. It is called before the plan is
// published.
func (pl *Plan) Recorded(rev kv.Revision) {
	for i := range pl.Edits {
		pl.Edits[i].doc.setRevision(rev)
	}
	pl.Revision = rev
}

// SameContents reports whether text, nil for deleted, is what n serves already.
func SameContents(n *Node, text []byte) bool {
	switch {
	case !n.Known():
		return false
	case text == nil || n.Deleted():
		return text == nil && n.Deleted()
	}
	return string(n.own.text) == string(text)
}

// AsSpelled returns the text that n serves if it differs from text only in escapes, because that
// counts as no change; else text.
func AsSpelled(n *Node, text []byte) []byte {
	if text != nil && n.Live() && bytes.Contains(n.own.text, []byte(`\u`)) && bytes.Equal(text, jsontext.Readable(n.own.text)) {
		return n.own.text
	}
	return text
}

// apply makes the next snapshot.
func (pl *Plan) apply() {
	b := newBuilder(pl.Prev)
	b.next.seq, b.next.rules = pl.seq, pl.rules
	pl.Names = pl.affected()
	for _, name := range pl.Names {
		prev := pl.Prev.Node(name)
		n := pl.node(name, prev)
		switch {
		case n.Known() || n.listed:
			b.put(n)
		case prev != nil:
			b.remove(name)
		default:
			continue
		}
		if c := pl.tell(prev, n); c.happened() {
			pl.Changes = append(pl.Changes, c)
		}
	}
	pl.Next, pl.Changes = b.finish(), basesFirst(pl.Changes)
}

// affected returns the names whose nodes are out of date, sorted.
func (pl *Plan) affected() []string {
	names := make([]string, 0, len(pl.Edits)+len(pl.Lists))
	for _, e := range pl.Edits {
		names = append(append(names, e.Name), pl.rules.Heirs[e.Name]...)
	}
	for _, l := range pl.Lists {
		names = append(names, l.Name)
	}
	names = append(names, pl.ghosts...)
	slices.Sort(names)
	return slices.Compact(names)
}

// node returns name's node after the plan. It keeps what prev has computed if that is still
// valid.
func (pl *Plan) node(name string, prev *Node) *Node {
	n := &Node{name: name, limits: pl.Limits}
	if prev != nil {
		n.own, n.broken, n.floor, n.listSeq = prev.own, prev.broken, prev.floor, prev.listSeq
	}
	if doc := pl.doc(name); doc != nil {
		n.own, n.broken = doc, ""
	}
	if !n.Known() && n.broken == "" {
		n.broken = pl.Fault(name)
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
		if node := pl.Prev.Node(base); node != nil {
			return node.own
		}
		return nil
	})
	return n
}

// tell describes what the plan does to a node.
func (pl *Plan) tell(prev, n *Node) Change {
	c := changeOf(prev, n, func(name string) bool { return pl.tells(name) != nil })
	if c.Own {
		c.Actor = pl.tells(n.name).Actor
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
	before := log.Digest{}
	if prev != nil {
		before = prev.list
	}
	c.BasesListChanged = before != n.list
	return c
}

func (c Change) happened() bool { return c.Own || len(c.Bases) > 0 || c.BasesListChanged }

// note is what the audit says of a plan: an event for each who has a part in it, and for roles one
// of their own.
func (pl *Plan) note() (events []access.Event) {
	for _, e := range pl.Edits {
		NoteDocument(&events, e.Actor, e.Name, e.Text == nil)
	}
	return events
}

// NoteDocument adds a document to the event that it belongs to.
func NoteDocument(events *[]access.Event, by *access.Actor, name string, deleted bool) {
	kind, do := access.EventChange, "write"
	if strings.HasPrefix(name, policy.RolePrefix) {
		kind = access.EventPermission
	}
	if deleted {
		do = "delete"
	}
	what := "config:" + name
	for i := range *events {
		e := &(*events)[i]
		switch {
		case e.Kind != kind || e.Do != do || !sameActor(e.By, by):
			continue
		case len(e.What) == audit.MostNames:
			e.More++
		default:
			e.What = append(e.What, what)
		}
		return
	}
	*events = append(*events, access.Event{Kind: kind, By: by, Do: do, What: []string{what}})
}

func sameActor(a, b *access.Actor) bool { return a == b || a != nil && b != nil && *a == *b }

// Retire releases what nodes keep that are not in the next snapshot any more, which is served from then
// on.
func (pl *Plan) Retire() {
	for _, name := range pl.Names {
		pl.Limits.retire(pl.Prev.Node(name), pl.Next.Node(name))
	}
}

// retire releases the resources of a node that is no longer in the snapshot. Both may be nil.
func (l *Limits) retire(prev, next *Node) {
	if prev == nil {
		return
	}
	prev.retireAnswers()
	if prev.merged != nil && (next == nil || prev.merged != next.merged) {
		l.cache.retire(prev.merged)
	}
	if prev.own != nil && (next == nil || prev.own != next.own) {
		l.cache.retire(&prev.own.index)
	}
}

// Batch is what a plan means to programs; nil: nothing.
func (pl *Plan) Batch() *Batch {
	if len(pl.Changes) == 0 {
		return nil
	}
	return &Batch{Seq: pl.seq, Snapshot: pl.Next, Prev: pl.Prev, Changes: pl.Changes}
}
