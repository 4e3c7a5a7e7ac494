package doclog

import (
	"context"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
)

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
