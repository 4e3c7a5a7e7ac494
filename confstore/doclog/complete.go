package doclog

import (
	"context"
	"slices"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Completion says who made a version that was found on disk, and why, as it became known when the
// version was in the log.
type Completion struct {
	Name string
	N    int64
	By   By
}

// A version has at most one completion of each kind. They are never replaced, so that a store which
// is taken back to an earlier revision has those that it had then.
const (
	completeOwner  = "/1" // nothing but the comment is new
	completeCommit = "/2" // it came with a commit, which counts before the other
)

func (c *Completion) key() string {
	if c.By.Commit == "" {
		return versionKey(c.Name, c.N) + completeOwner
	}
	return versionKey(c.Name, c.N) + completeCommit
}

// Complete adds completions. They are records of their own: the versions keep their revisions, and
// programs are told nothing. Those of versions that are no longer kept are left out.
func (l *Log) Complete(ctx context.Context, list []Completion) error {
	for part := range slices.Chunk(list, mostOps) {
		for tries := 0; ; tries++ {
			err := l.complete(ctx, part)
			if codes.Of(err) != codes.Conflict || tries == mostTries { // versions were removed meanwhile
				if err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

func (l *Log) complete(ctx context.Context, list []Completion) error {
	var removed retention
	kept, err := l.current(retentionKey, &removed)
	if err != nil {
		return err
	}
	txn := &kv.Txn{System: true, Must: true, If: []kv.Compare{unchanged(retentionKey, kept)}}
	for i := range list {
		c := &list[i]
		if _, err := l.Find(ctx, &Document{Name: c.Name, N: c.N}, c.N); codes.Of(err) == codes.Compacted {
			continue
		} else if err != nil {
			return err
		}
		txn.Then = append(txn.Then, put(completed, c.key(), encode(c.By)))
	}
	if len(txn.Then) == 0 {
		return nil
	}
	_, err = l.write(ctx, txn)
	return err
}

// Who says who made a version, and why, given its change.
func (l *Log) Who(ctx context.Context, v *Version, change *Made) (By, error) {
	by := change.By
	if v.By != nil {
		by = *v.By
	}
	if by.Origin != access.OnDisk || by.Commit != "" {
		return by, nil
	}
	list, err := l.completions(ctx, v.Name, v.N)
	if err != nil || len(list) == 0 {
		return by, err
	}
	last := list[len(list)-1]
	return by, decode(last.Key, last.Value.Data, &by)
}

// completions are those of a version, the one that counts last.
func (l *Log) completions(ctx context.Context, name string, n int64) ([]*kv.Entry, error) {
	page, err := l.store.ListArchive(ctx, kv.List{NS: completed, Prefix: versionKey(name, n) + "/"})
	return page.Entries, err
}
