package doclog

import (
	"context"
	"slices"
)

// Reissue has all documents served as versions that no client has seen: above those they had, and
// not below served. It is for a log that was restored from a backup: clients may know of versions
// that came after it. Open it with a new epoch as well.
func (l *Log) Reissue(ctx context.Context, served int32) error {
	docs, _, err := l.Behind(ctx, 0)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(docs, mostOps-2) {
		now, text, err := l.state()
		if err != nil {
			return err
		}
		txn := l.txn(text, now)
		for _, d := range some {
			d.Served = max(d.Served+1, served)
			txn.Then = append(txn.Then, put(space, docPrefix+d.Name, encode(d)))
		}
		if _, err := l.write(ctx, txn); err != nil {
			return err
		}
	}
	return nil
}
