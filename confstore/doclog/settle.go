package doclog

import (
	"context"
	"slices"

	"confcenter/kv"
)

// staged is a document in a part of a change.
type staged struct {
	Name string `json:"name"`
	Document
}

// settle brings the documents of a change up to date that a build before wrote in parts, and had said
// to count, when it ended. It may be done twice.
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
			if one.Seq == now.Seq {
				one.Revision = change.Revision
			}
			docs[one.Name] = one.Document
		}
		var txns []*kv.Txn
		for ops := range slices.Chunk(docOps(docs), mostOps-2) {
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
