package confstore

import (
	"bytes"
	"crypto/sha256"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/audit"
	"confcenter/access/policy"
	"confcenter/access/secret"
	"confcenter/confstore/log"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/meta"
)

// edit is a new state of one document, found or asked for.
type edit struct {
	name  string
	text  []byte // compact; nil = deleted
	given int32
	// quiet: the contents are already being served. No one is notified; the version may rise
	// to the given one.
	quiet    bool
	resealed bool          // they are, but for the key by which values are sealed
	actor    *access.Actor // who requested it, or made what was found on disk
	info     fs.FileInfo   // of what was found on disk; nil: nothing, or it was requested
	state    string        // of the repository it was found in, before it was read; "": not known
	file     []byte        // the file's exact bytes; nil = deleted, or to be read again
	hash     log.Digest    // of them
	replaces log.Digest    // of those before; zero: there was no file, or it could not be read

	doc *document // what it makes, once it is planned
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
	planner
	edits    []edit // sorted by name
	rules    *rules
	newRules bool
	// existence: a document appears or is removed, or is an object and was none, or the other way round,
	// which may affect the check of _meta.json.
	existence bool
	lists     []log.List // of documents that are or become known, sorted by name
	ghosts    []string   // names that are not known and get other lists
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
	pl := &plan{planner: p, edits: edits, rules: p.prev.rules, newRules: recheck, seq: p.prev.seq + 1}
	slices.SortFunc(pl.edits, func(a, b edit) int { return strings.Compare(a.name, b.name) })
	for i := range pl.edits {
		if e := &pl.edits[i]; e.name == meta.FileName && !e.quiet {
			rules, err := parseRules(e.text)
			if err != nil {
				return nil, err
			}
			pl.rules, pl.newRules = rules, true
		}
	}
	for i := range pl.edits {
		e := &pl.edits[i]
		e.doc = p.version(e, pl.rules)
		e.doc.seq = pl.seq
		prev := p.prev.Node(e.name)
		pl.existence = pl.existence || prev.live() != (e.text != nil) || prev.live() && prev.own.object() != e.doc.object()
	}
	pl.planLists(recheck)
	return pl, nil
}

// version assigns the version with which an edit is served. It is greater than any that was
// served for the document or for one that inherits from it, because clients fetch neither for
// less.
func (p planner) version(e *edit, next *rules) *document {
	doc := &document{text: e.text, given: e.given, deleted: e.text == nil, hash: e.hash, sealed: secret.Has(e.text)}
	if doc.deleted {
		doc.text = []byte("{}")
	}
	if e.quiet {
		doc.served = max(p.prev.Node(e.name).own.served, e.given)
		return doc
	}
	_, highest := p.highest(e.name, next)
	doc.served = after(max(e.given, p.floor), highest)
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
func (pl *plan) planLists(recheck bool) {
	names := make([]string, 0, len(pl.edits))
	for _, e := range pl.edits {
		if pl.newRules || !pl.prev.Node(e.name).known() {
			names = append(names, e.name)
		}
	}
	if pl.newRules {
		names = append(append(names, pl.prev.rules.meta.Names()...), pl.rules.meta.Names()...)
	}
	if recheck {
		names = append(names, pl.prev.names...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		n, list := pl.prev.Node(name), pl.rules.listDigest(name)
		switch {
		case n.known() && n.list != list:
			pl.lists = append(pl.lists, log.List{Name: name, Floor: after(seconds(pl.now, pl.now), n.Mtime(true)), Digest: list})
		case !n.known() && pl.doc(name) != nil && list != log.Digest{}:
			pl.lists = append(pl.lists, log.List{Name: name, Digest: list})
		case n == nil || n.list != list:
			pl.ghosts = append(pl.ghosts, name)
		}
	}
}

// edit returns name's edit, nil if it has none.
func (pl *plan) edit(name string) *edit {
	i, ok := slices.BinarySearchFunc(pl.edits, name, func(e edit, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return nil
	}
	return &pl.edits[i]
}

// doc returns name's new document, nil if it has no edit.
func (pl *plan) doc(name string) *document {
	if e := pl.edit(name); e != nil {
		return e.doc
	}
	return nil
}

// tells returns the edit that changes name's own contents, nil if they do not change.
func (pl *plan) tells(name string) *edit {
	if e := pl.edit(name); e != nil && !e.quiet {
		return e
	}
	return nil
}

func (pl *plan) list(name string) *log.List {
	i, ok := slices.BinarySearchFunc(pl.lists, name, func(l log.List, name string) int { return strings.Compare(l.Name, name) })
	if !ok {
		return nil
	}
	return &pl.lists[i]
}

// change returns the plan in the form that the log stores.
func (pl *plan) change() log.Change {
	c := log.Change{Seq: pl.seq, By: by(nil, pl.now), Lists: pl.lists, Versions: make([]log.Version, len(pl.edits))}
	for i, e := range pl.edits {
		c.Versions[i] = e.doc.remembered(e.name, e.file)
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
	for i := range pl.edits {
		pl.edits[i].doc.setRevision(rev)
	}
	pl.revision = rev
}

// by is an actor to the log.
func by(a *access.Actor, now time.Time) log.By {
	b := log.By{Time: now.UnixMilli()}
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

// apply makes the next snapshot. It is pure: publication is decided elsewhere, and the next
// plan can build on the snapshot before it is published.
func (pl *plan) apply(l *limits) *plan {
	b := newBuilder(pl.prev)
	b.next.seq, b.next.rules = pl.seq, pl.rules
	pl.names = pl.affected()
	for _, name := range pl.names {
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
			pl.changes = append(pl.changes, c)
		}
	}
	pl.next, pl.changes = b.finish(), basesFirst(pl.changes)
	return pl
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
	names = append(names, pl.ghosts...)
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
	before := log.Digest{}
	if prev != nil {
		before = prev.list
	}
	c.BasesListChanged = before != n.list
	return c
}

func (c Change) happened() bool { return c.Own || len(c.Bases) > 0 || c.BasesListChanged }

// Batch is one step from a snapshot to the next: all edits found together, one Set or one
// Change. All
// subscribers share it and must not change it.
type Batch struct {
	Seq      uint64    // Snapshot.Seq()
	Snapshot *Snapshot // with the changes
	Prev     *Snapshot // without them
	// Changes has one item per document whose own or resolved form changed, a base
	// before those that inherit it, else by name. It is never empty.
	Changes []Change

	joined map[string]*access.Actor // the names of what was joined, and who changed them last; nil: Changes is complete
}

// Change is the change of one document in a Batch.
type Change struct {
	Name string
	// Node is the document now; never nil, but Known may be false.
	Node *Node
	// Prev is the document before, nil if there was none.
	Prev *Node
	// Own: its own contents were set, edited or deleted.
	Own bool
	// Actor is who changed the contents: the actor of the Set or, for an edit found on disk,
	// one whose origin is the disk. It is nil if Own is false or the Set had none.
	Actor *access.Actor
	// Bases are those of its bases whose own contents changed in this batch, weakest first.
	// The resolved version rises even if the resolved contents turn out the same.
	Bases []string
	// BasesListChanged: _meta.json gave it other bases or another way to merge.
	BasesListChanged bool
}

// basesFirst puts bases before their heirs; changes are sorted by name. Cycles are cut at
// any point.
func basesFirst(changes []Change) []Change {
	index := make(map[string]int, len(changes))
	for i, c := range changes {
		index[c.Name] = i
	}
	ordered := make([]Change, 0, len(changes))
	visited := make([]bool, len(changes))
	var visit func(i int)
	visit = func(i int) {
		if visited[i] {
			return
		}
		visited[i] = true
		for _, base := range changes[i].Node.bases {
			if at, listed := index[base]; listed {
				visit(at)
			}
		}
		ordered = append(ordered, changes[i])
	}
	for i := range changes {
		visit(i)
	}
	return ordered
}

// rules is the _meta.json in force, and which documents inherit from which.
type rules struct {
	meta     *meta.Meta
	heirs    map[string][]string // by base, sorted
	problems []meta.Problem      // found while parsing
}

// parseRules takes nil for "there is no _meta.json".
func parseRules(text []byte) (*rules, error) {
	r := &rules{heirs: make(map[string][]string)}
	if text == nil {
		return r, nil
	}
	var err error
	if r.meta, r.problems, err = meta.Parse(text); err != nil {
		return nil, err
	}
	for _, name := range r.meta.Names() {
		bases, _ := r.meta.Bases(name)
		for _, base := range bases {
			r.heirs[base] = append(r.heirs[base], name)
		}
	}
	return r, nil
}

// listDigest changes whenever name's bases or the way to merge them change. It is zero if
// name has no entry.
func (r *rules) listDigest(name string) log.Digest {
	bases, listed := r.meta.Bases(name)
	if !listed {
		return log.Digest{}
	}
	h := sha256.New()
	if r.meta.Deep(name) {
		h.Write([]byte("deep"))
	}
	for _, base := range bases {
		h.Write([]byte{0})
		h.Write([]byte(base))
	}
	return log.Digest(h.Sum(nil))
}

// note is what the audit says of a plan: an event for each who has a part in it, and for roles one
// of their own.
func (pl *plan) note() (events []access.Event) {
	for _, e := range pl.edits {
		noteDocument(&events, e.actor, e.name, e.text == nil)
	}
	return events
}

// noteDocument adds a document to the event that it belongs to.
func noteDocument(events *[]access.Event, by *access.Actor, name string, deleted bool) {
	kind, do := access.EventChange, "write"
	if isRole(name) {
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

func isRole(name string) bool { return strings.HasPrefix(name, policy.RolePrefix) }

// An mtime is a version: SDKs store whole int32 seconds and fetch only greater ones.
// maxGiven leaves 2^24 seconds above any given mtime, so that there is always room for "one
// more than the highest".
const maxGiven = math.MaxInt32 - 1<<24 + 1

// maxAhead is how far ahead of the clock a given mtime may be: one years ahead would make every
// writer that sends the time of day too old.
const maxAhead = 24 * time.Hour

// maxRaised is how far ahead of it versions may be raised: far enough for bursts of writes, each of
// which takes a second, also where an mtime was given that is as far ahead as can be, and short
// enough to wait for. Without a bound, a document that is set all the time would reach the end of
// int32.
const maxRaised = 2 * maxAhead

func ahead(t, now time.Time) bool { return t.After(now.Add(maxAhead)) }

func raised(version int32, now time.Time) bool { return timeOf(version).After(now.Add(maxRaised)) }

func timeOf(version int32) time.Time { return time.Unix(int64(version), 0).UTC() }

// seconds returns t as an mtime. Times that are not allowed as one, before 1970 or too far
// ahead, count as now.
func seconds(t, now time.Time) int32 {
	if t.Unix() < 1 || ahead(t, now) {
		t = now
	}
	return int32(min(max(t.Unix(), 1), maxGiven))
}

// after returns given if it is greater than highest, else the next version above highest.
func after(given, highest int32) int32 {
	if highest == math.MaxInt32 {
		return highest
	}
	return max(given, highest+1)
}
