package doclog

import "context"

// Reissue has all documents served as versions that no client has seen: above those they had, and
// not below served. It is for a log that was restored from a backup: clients may know of versions
// that came after it. Open it with a new epoch as well.
func (l *Log) Reissue(ctx context.Context, served int32) error {
	docs, _, err := l.Behind(0)
	if err != nil {
		return err
	}
	now, text, err := l.state()
	if err != nil || len(docs) == 0 {
		return err
	}
	txn := l.txn(text, now)
	for _, d := range docs {
		d.Served = max(d.Served+1, served)
		txn.Then = append(txn.Then, put(space, docPrefix+d.Name, encode(d)))
	}
	_, err = l.write(ctx, txn)
	return err
}
