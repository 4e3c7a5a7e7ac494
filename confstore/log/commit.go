package log

import (
	"context"
	"maps"
	"slices"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// List is the list of bases that a document is served with.
type List struct {
	Name   string
	Floor  int32  // the resolved version is not below it
	Digest Digest // of the list and of the way to merge; zero: it has none
}

// Change is what becomes durable together. For each name only the last version and the last list
// count. Of a Version, the log itself sets N, Revision, Seq, Staged, New, Size, Hash and Chunks.
type Change struct {
	Seq      uint64 // of the change; the log raises it above that of the one before
	By       By
	Versions []Version
	Lists    []List
	// Asked, with By.Token, is what was asked for: Asked tells a change that is asked for again.
	Asked Digest
	Who   string // was proved to ask for it; empty: no one
	// Source, unless it is empty, is whose documents the change brings: see Applied.
	Source string
	// Note is what the audit says of it.
	Note []access.Event
	// Lessens is as in kv.Txn.
	Lessens bool
}

// Sign gives the change what all its versions have in common: who made all of them is said once.
func (c *Change) Sign() {
	for i := range c.Versions {
		by := c.Versions[i].By
		if i == 0 {
			c.By = *by
		}
		if *by != c.By {
			c.By = By{Origin: c.By.Origin, Time: max(c.By.Time, by.Time)}
		}
	}
	for i := range c.Versions {
		if *c.Versions[i].By == c.By {
			c.Versions[i].By = nil
		}
	}
}

// Empty reports whether there is nothing to remember.
func (c *Change) Empty() bool { return len(c.Versions)+len(c.Lists) == 0 }

// Commit makes changes durable, in this order, each as one transaction under a revision of its own.
// It returns the revisions of those that are, and why the next is not; those after it are not either.
// If the error is codes.Timeout, or that of ctx, it is not known whether they are, or will be: see
// Behind.
func (l *Log) Commit(ctx context.Context, list []Change) (revisions []kv.Revision, err error) {
	for len(list) > 0 {
		g, err := l.begin()
		if err != nil {
			return revisions, err
		}
		n := 0
		for n < len(list) && g.add(&list[n]) == nil {
			n++
		}
		made, err := l.writeEach(ctx, g.txns)
		revisions = append(revisions, made...)
		if err == nil && n == 0 {
			var long kv.Revision
			if long, err = g.commitLong(ctx, &list[0]); err == nil {
				revisions, n = append(revisions, long), 1
			}
		}
		if err != nil {
			return revisions, err
		}
		list = list[n:]
	}
	return revisions, nil
}

// group is changes on their way into the log.
type group struct {
	log  *Log
	now  state  // with the changes so far
	text []byte // of now
	docs map[string]Document
	txns []*kv.Txn
}

// begin goes on from what the log has.
func (l *Log) begin() (*group, error) {
	now, text, err := l.state()
	return &group{log: l, now: now, text: text, docs: map[string]Document{}}, err
}

// document is what is known of a name with the changes so far.
func (g *group) document(name string) (Document, error) {
	if d, changed := g.docs[name]; changed {
		return d, nil
	}
	return g.log.Document(name)
}

// planned is what a change makes of documents.
type planned struct {
	docs     map[string]Document
	touches  []Touch // in the order of the change
	versions []kv.Op
	chunks   []kv.Op
}

// plan works out a change, and what the log says after it.
func (g *group) plan(c *Change) (p *planned, next state, err error) {
	short := c.short()
	p, next = &planned{docs: map[string]Document{}}, g.now
	next.Seq = max(c.Seq, next.Seq+1)
	known := func(name string) (Document, error) {
		if d, changed := p.docs[name]; changed {
			return d, nil
		}
		return g.document(name)
	}
	last := map[string]int{}
	for i := range c.Versions {
		last[c.Versions[i].Name] = i
	}
	for i, v := range c.Versions {
		if last[v.Name] != i {
			continue
		}
		d, err := known(v.Name)
		if err != nil {
			return nil, next, err
		}
		v.New = !v.Deleted && (d.N == 0 || d.Deleted)
		d.N, d.Seq, d.Revision = d.N+1, next.Seq, 0
		d.Served, d.Given, d.Deleted, d.Hash = v.Served, v.Given, v.Deleted, Digest{}
		v.N, v.Seq, v.Staged, v.Chunks, v.Size = d.N, d.Seq, false, nil, 0
		if !v.Deleted {
			d.Hash, v.Size = DigestOf(v.File), len(v.File)
			p.cut(&v, short)
		}
		d.Size, v.Hash = v.Size, d.Hash
		p.docs[v.Name] = d
		p.touches = append(p.touches, Touch{v.Name, v.N, v.Kind()})
		p.versions = append(p.versions, put(versions, versionKey(v.Name, v.N), encodeVersion(&v)))
	}
	for _, list := range c.Lists {
		d, err := known(list.Name)
		if err != nil {
			return nil, next, err
		}
		if d.Revision == 0 && d.N > 0 && d.Seq != next.Seq { // it is not known before the change that made it is committed
			return nil, next, errAlone
		}
		if d.N > 0 { // a list alone belongs to no document
			d.Floor, d.Bases = list.Floor, list.Digest
			p.docs[list.Name] = d
		}
	}
	return p, next, nil
}

// short is how long files are that go with their versions.
func (c *Change) short() int {
	size := 0
	for i := range c.Versions {
		if n := len(c.Versions[i].File); n <= shortFile {
			size += n
		}
	}
	if size > mostInline {
		return shortOfMany
	}
	return shortFile
}

// cut has a file written in chunks unless it is short.
func (p *planned) cut(v *Version, short int) {
	if len(v.File) <= short {
		return
	}
	for chunk := range slices.Chunk(v.File, chunkBytes) {
		digest := DigestOf(chunk)
		v.Chunks = append(v.Chunks, digest)
		p.chunks = append(p.chunks, put(chunks, digest.String(), chunk))
	}
}

// docOps writes documents of a change.
func docOps(docs map[string]Document) []kv.Op {
	ops := make([]kv.Op, 0, len(docs))
	for name, d := range docs {
		ops = append(ops, put(space, docPrefix+name, encode(d)))
	}
	return ops
}

// errAlone says that a change cannot be in one group with others.
var errAlone = codes.Errorf(codes.TooLarge, "the change needs a group of its own")

// add plans a change in a transaction, on top of those before. errAlone: it cannot be planned before
// those are there, or its chunks have to be there before it.
func (g *group) add(c *Change) error {
	p, next, err := g.plan(c)
	if err != nil {
		return err
	}
	txn := g.txn(c, p, next)
	if len(p.chunks) > 0 {
		if txn.Then = append(txn.Then, p.chunks...); txn.Size() > mostBytes {
			return errAlone
		}
	}
	g.txns = append(g.txns, txn)
	g.now, g.text = next, txn.Then[0].Value.Data
	maps.Copy(g.docs, p.docs)
	return nil
}

// txn is the transaction of a change, but for its chunks.
func (g *group) txn(c *Change, p *planned, next state) *kv.Txn {
	txn := g.log.txn(g.text, next)
	txn.Note, txn.Lessens = c.Note, c.Lessens
	made, touches := p.made(c, next.Seq)
	txn.Then = slices.Concat(txn.Then, c.names(next.Seq, made), docOps(p.docs), p.versions, touches)
	return txn
}

// writeEach hands transactions over together, so that they share the disk's time. It returns the
// revisions of those that have taken effect, and why the next has not.
func (l *Log) writeEach(ctx context.Context, txns []*kv.Txn) (revisions []kv.Revision, err error) {
	writes := make([]*kv.Write, len(txns))
	for i, txn := range txns {
		writes[i] = &kv.Write{Txn: txn}
	}
	answered := make(answers, len(writes))
	taken, refused := l.store.CommitEach(answered, writes)
	for waiting := taken; waiting > 0; {
		select {
		case n := <-answered:
			waiting -= n
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for _, w := range writes[:taken] {
		if w.Err != nil {
			return revisions, w.Err
		}
		revisions = append(revisions, w.Result.Revision)
	}
	return revisions, refused
}

// answers receives how many transactions have ended.
type answers chan int

// Committed implements kv.Caller.
func (a answers) Committed(list []*kv.Write) { a <- len(list) }

// commitLong commits a change whose chunks are written before it. It begins anew if chunks were
// removed meanwhile, which may be those that it has written.
func (g *group) commitLong(ctx context.Context, c *Change) (kv.Revision, error) {
	p, next, err := g.plan(c)
	if err != nil {
		return 0, err
	}
	for tries := 0; ; tries++ {
		var before, after sweep
		swept, err := g.log.current(sweepKey, &before)
		if err != nil {
			return 0, err
		}
		if err := g.log.writeUnseen(ctx, p.chunks); err != nil {
			return 0, err
		}
		txn := g.txn(c, p, next)
		txn.If = append(txn.If, unchanged(sweepKey, swept))
		res, err := g.log.write(ctx, txn)
		if err == nil {
			return res.Revision, nil
		}
		if codes.Of(err) != codes.Conflict || tries == mostTries {
			return 0, err
		}
		if _, werr := g.log.current(sweepKey, &after); werr != nil || after == before {
			return 0, err
		}
	}
}

// writeUnseen writes to archives, in as many transactions as it takes. As many are under way at
// once as one could be long.
func (l *Log) writeUnseen(ctx context.Context, ops []kv.Op) error {
	for len(ops) > 0 {
		var txns []*kv.Txn
		for size := 0; len(ops) > 0 && size < mostBytes; {
			n := 0
			for n < min(len(ops), mostOps) && (n == 0 || size+len(ops[n].Value.Data) <= mostBytes) {
				size += len(ops[n].Key) + len(ops[n].Value.Data)
				n++
			}
			txns = append(txns, &kv.Txn{System: true, Then: slices.Clone(ops[:n])})
			ops = ops[n:]
		}
		if _, err := l.writeEach(ctx, txns); err != nil {
			return err
		}
	}
	return nil
}
