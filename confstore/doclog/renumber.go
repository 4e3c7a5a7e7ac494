package doclog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
)

// Renumber begins versions again: all documents of the log in store, and the deleted ones, are at
// version served, whatever they were at, in a new epoch. What they were before stays in the log.
// It returns how many documents there are, and can be repeated.
func (l *Log) Renumber(ctx context.Context, served int32) (documents int, err error) {
	docs, _, err := l.Behind(0)
	if err != nil || len(docs) == 0 {
		return 0, err
	}
	var epoch [16]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return 0, err
	}
	now, text, err := l.state()
	if err != nil {
		return 0, err
	}
	now.Epoch = hex.EncodeToString(epoch[:])
	txn := l.txn(text, now)
	for _, d := range docs {
		d.Served, d.Given, d.Floor = served, served, min(d.Floor, served)
		txn.Then = append(txn.Then, put(space, docPrefix+d.Name, encode(d)))
	}
	if _, err := l.write(ctx, txn); err != nil {
		return 0, err
	}
	return len(docs), nil
}
