package doclog

import (
	"context"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
)

// staged is a document in a part of a change.
type staged struct {
	Name string `json:"name"`
	Document
}

// commitLarge writes a change in parts, and then says that they count. It begins anew if chunks
// were removed meanwhile, which may be those that it has written.
func (g *group) commitLarge(ctx context.Context, c *Change) (kv.Revision, error) {
	for tries := 0; ; tries++ {
		var before, after sweep
		swept, err := g.log.current(sweepKey, &before)
		if err != nil {
			return 0, err
		}
		rev, err := g.commitParts(ctx, c, swept)
		if codes.Of(err) != codes.Conflict || tries == mostTries {
			return rev, err
		}
		if _, werr := g.log.current(sweepKey, &after); werr != nil || after == before {
			return rev, err
		}
	}
}

// commitParts is one attempt; swept is the value of sweep.
func (g *group) commitParts(ctx context.Context, c *Change, swept []byte) (kv.Revision, error) {
	p, next, err := g.plan(c, true)
	if err != nil {
		return 0, err
	}
	l, parts := g.log, p.parts()
	next.Parts = len(parts)
	made, more := p.madeOf(c, next.Seq)
	for _, ops := range [][]kv.Op{p.chunks, p.versions, more, parts} {
		if err := l.writeUnseen(ctx, ops); err != nil {
			return 0, err
		}
	}
	txn := l.txn(g.text, next)
	txn.Note = c.Note
	txn.If = append(txn.If, unchanged(sweepKey, swept))
	txn.Then = append(txn.Then, c.names(next.Seq, made)...)
	res, err := l.write(ctx, txn)
	if err != nil {
		return 0, err
	}
	// What remains can be done by the next that comes; the change stands.
	_ = l.settle(ctx)
	return res.Revision, nil
}

// parts are the documents in pieces that fit into a transaction.
func (p *planned) parts() (ops []kv.Op) {
	var list []staged
	size := 0
	flush := func() {
		if len(list) > 0 {
			ops = append(ops, put(stage, partKey(len(ops)), encode(list)))
		}
		list, size = nil, 0
	}
	for name, d := range p.docs {
		const perDocument = 400
		if size += len(name) + perDocument; size > mostBytes/2 {
			flush()
			size = len(name) + perDocument
		}
		list = append(list, staged{name, d})
	}
	flush()
	return ops
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

// settle brings the documents of a change up to date that was written in parts. It may be done
// twice.
func (l *Log) settle(ctx context.Context) error {
	now, text, err := l.state()
	if err != nil {
		return err
	}
	change, err := l.Change(ctx, now.Seq)
	if err != nil {
		return err
	}
	for i := range now.Parts {
		e, err := l.archived(ctx, stage, partKey(i))
		if err != nil {
			return err
		}
		var list []staged
		if err := decode(e.Key, e.Value.Data, &list); err != nil {
			return err
		}
		docs := map[string]Document{}
		for _, one := range list {
			docs[one.Name] = one.Document
		}
		var txns []*kv.Txn
		for ops := range slices.Chunk(docOps(docs, now.Seq, change.Revision), mostOps-2) {
			txn := l.txn(text, now)
			txn.Then = append(txn.Then, ops...)
			txns = append(txns, txn)
		}
		if _, err := l.writeEach(ctx, txns); err != nil {
			return err
		}
	}
	done := now
	done.Parts = 0
	txn := l.txn(text, done)
	for i := range min(now.Parts, mostOps-2) { // further ones are written over some day
		txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: stage, Key: partKey(i)})
	}
	_, err = l.write(ctx, txn)
	return err
}
