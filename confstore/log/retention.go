package log

import (
	"context"
	"maps"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

// Retention says which versions of documents may go: of each document all but the newest Keep, and
// of those only such that were replaced before a time. Nothing else removes a version.
type Retention struct {
	Keep   int64         // at least 1
	Before time.Time     // by when the next version was made
	DryRun bool          // remove nothing, but say what would go
	By     By            // who wants it, and why
	Actor  *access.Actor // the same, for the audit
}

// Removed is what a removal did.
type Removed struct {
	Documents []RemovedOf
	Versions  int
	Bytes     int64 // of their files
	Chunks    int   // that no version has any more
	Changes   int   // none of whose versions is left
	More      bool  // it stopped at a limit: there may be more
}

// RemovedOf is what became of one document.
type RemovedOf struct {
	Name     string
	Versions int
	First    int64 // the oldest version that is left
}

// The limits of one removal. They bound what it holds in memory and how long it takes.
const (
	mostRemoved = 10_000 // versions, chunks and changes each
	removeOps   = 100    // in a transaction, at least 1 more
)

// retention is what the key retention says.
type retention struct {
	Changes kv.Revision `json:"changes"` // the newest change that was removed
	By      By          `json:"by"`      // who has removed something last
}

// sweep is what the key sweep says.
type sweep struct {
	N uint64 `json:"n"` // counts the transactions that removed chunks
}

const (
	retentionKey = "retention"
	sweepKey     = "sweep"
)

// current reads a key of the log, and returns its value; nil if it is absent.
func (l *Log) current(key string, into any) (text []byte, err error) {
	e, _ := l.store.Get([]byte(space), []byte(key))
	if e == nil {
		return nil, nil
	}
	return e.Value.Data, decode(key, e.Value.Data, into)
}

// ChangesGone is the revision of the newest change that is no longer kept; 0 if all are.
func (l *Log) ChangesGone() (kv.Revision, error) {
	var now retention
	_, err := l.current(retentionKey, &now)
	return now.Changes, err
}

// unchanged requires that a key of the log has a value; nil: that there is none.
func unchanged(key string, text []byte) kv.Compare {
	if text == nil {
		return kv.Absent(space, key)
	}
	return kv.Compare{NS: space, Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: kv.JSONValue(text)}
}

// removal is one run of Remove. It may end at any transaction: the next one goes on.
//
// First go versions, each transaction noting in freed which chunks they had. Then go those of the
// chunks that no version has any more. A change that is made meanwhile may have one of them: each
// transaction that removes chunks requires that no change was made since it was looked, and a
// change whose chunks are written before it requires that none was removed meanwhile.
// Last go changes of which no version is left.
type removal struct {
	log   *Log
	r     Retention
	out   Removed
	noted bool // the audit knows of it

	cut   Made             // the newest change before the time
	first map[string]int64 // the oldest version that is left, by name
}

// Remove removes versions that are no longer to be kept, and then what only they had.
func (l *Log) Remove(ctx context.Context, r Retention) (Removed, error) {
	p := &removal{log: l, r: r, first: map[string]int64{}}
	var err error
	if p.cut, err = l.LastChange(ctx, func(m *Made) bool { return m.Time < r.Before.UnixMilli() }); err != nil {
		return p.out, err
	}
	if p.cut.Revision > 0 {
		if err := p.versions(ctx); err != nil {
			return p.out, err
		}
	}
	if r.DryRun {
		return p.out, nil
	}
	if err := p.chunks(ctx); err != nil || p.cut.Revision == 0 {
		return p.out, err
	}
	return p.out, p.changes(ctx)
}

// write commits a transaction of a removal; gone is the newest change in it.
func (p *removal) write(ctx context.Context, ops []kv.Op, gone kv.Revision, also ...kv.Compare) error {
	var now retention
	text, err := p.log.current(retentionKey, &now)
	if err != nil {
		return err
	}
	now.Changes, now.By = max(now.Changes, gone), p.r.By
	txn := &kv.Txn{System: true, Must: true, If: append(also, unchanged(retentionKey, text))}
	txn.Then = append([]kv.Op{put(space, retentionKey, encode(now))}, ops...)
	if !p.noted && p.r.Actor != nil {
		txn.Note = []access.Event{{Kind: access.EventChange, By: p.r.Actor, Do: "prune", What: []string{"config:*"}}}
		p.noted = true
	}
	_, err = p.log.write(ctx, txn)
	return err
}

// versions removes versions of all documents that have more than enough.
func (p *removal) versions(ctx context.Context) error {
	var docs []Document
	if err := p.log.eachDocument(func(d Document) {
		if d.N > p.r.Keep {
			docs = append(docs, d)
		}
	}); err != nil {
		return err
	}
	for i := range docs {
		if err := p.versionsOf(ctx, &docs[i]); err != nil || p.out.More {
			return err
		}
	}
	return nil
}

// versionsOf removes versions of a document, the oldest first, so that those that are gone are
// below those that are there.
func (p *removal) versionsOf(ctx context.Context, d *Document) error {
	const page = 64
	of := RemovedOf{Name: d.Name}
	defer func() {
		if of.Versions > 0 {
			p.out.Documents = append(p.out.Documents, of)
		}
	}()
	for from := int64(1); from <= d.N-p.r.Keep; {
		list, err := p.log.listVersions(ctx, d.Name, from, int(min(page, d.N-from+1)))
		if err != nil {
			return err
		}
		n := 0
		for n+1 < len(list) && list[n].N <= d.N-p.r.Keep && list[n+1].Revision <= p.cut.Revision && p.out.Versions+n < mostRemoved {
			n++
		}
		p.out.More = n > 0 && p.out.Versions+n == mostRemoved
		for part := range batches(list[:n]) {
			if !p.r.DryRun {
				for ops := range slices.Chunk(removeVersions(part), removeOps) {
					if err := p.write(ctx, ops, 0); err != nil {
						return err
					}
				}
			}
			for i := range part {
				p.out.Bytes += int64(part[i].Size)
			}
			p.out.Versions, of.Versions, of.First = p.out.Versions+len(part), of.Versions+len(part), part[len(part)-1].N+1
		}
		if n == 0 || n+1 < len(list) || p.out.More {
			return nil
		}
		from = list[n].N
	}
	return nil
}

// batches are versions of which each removal fits into a transaction.
func batches(list []Version) func(yield func([]Version) bool) {
	return func(yield func([]Version) bool) {
		for len(list) > 0 {
			n, ops := 0, 0
			for n < len(list) && (n == 0 || ops+opsOf(&list[n]) <= removeOps) {
				ops += opsOf(&list[n])
				n++
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

// opsOf is how many operations it takes to remove a version.
func opsOf(v *Version) int { return 3 + len(v.Chunks) }

// removeVersions notes the chunks first, in case it takes several transactions. A version goes
// together with its completions, of which it may have none.
func removeVersions(list []Version) (ops []kv.Op) {
	for i := range list {
		for _, digest := range list[i].Chunks {
			ops = append(ops, put(freed, digest.String(), []byte("{}")))
		}
	}
	for i := range list {
		key := versionKey(list[i].Name, list[i].N)
		ops = append(ops, remove(versions, key), remove(completed, key+completeOwner), remove(completed, key+completeCommit))
	}
	return ops
}

func remove(ns, key string) kv.Op { return kv.Op{Kind: kv.OpDelete, NS: ns, Key: key} }

// chunks removes chunks that versions had which are gone, unless others have them.
func (p *removal) chunks(ctx context.Context) error {
	unused, used := digests{}, digests{}
	err := p.each(ctx, freed, func(e *kv.Entry) error {
		var digest Digest
		if err := digest.UnmarshalText([]byte(e.Key)); err != nil {
			return damaged(e.Key, err)
		}
		if p.out.More = p.out.More || len(unused) == mostRemoved; len(unused) < mostRemoved {
			unused[digest] = struct{}{}
		}
		return nil
	})
	if err != nil || len(unused) == 0 {
		return err
	}
	before, _, err := p.log.state()
	if err != nil {
		return err
	}
	if err := p.each(ctx, versions, func(e *kv.Entry) error {
		v, err := decodeVersion(e)
		keep(&v, unused, used)
		return err
	}); err != nil {
		return err
	}
	for list := range slices.Chunk(slices.Collect(maps.Keys(used)), removeOps) {
		var ops []kv.Op
		for _, digest := range list {
			ops = append(ops, remove(freed, digest.String()))
		}
		if err := p.write(ctx, ops, 0); err != nil {
			return err
		}
	}
	return p.removeChunks(ctx, unused, before.Seq)
}

// each calls fn for the entries of an archive.
func (p *removal) each(ctx context.Context, ns string, fn func(*kv.Entry) error) error {
	for after, more := "", true; more; {
		page, err := p.log.store.ListArchive(ctx, kv.List{NS: ns, After: after})
		if err != nil {
			return err
		}
		more = page.More
		for _, e := range page.Entries {
			if err := fn(e); err != nil {
				return err
			}
			after = e.Key
		}
	}
	return nil
}

type digests map[Digest]struct{}

// keep moves chunks that a version has from unused to used.
func keep(v *Version, unused, used digests) {
	for _, digest := range v.Chunks {
		if _, is := unused[digest]; is {
			delete(unused, digest)
			used[digest] = struct{}{}
		}
	}
}

// mostTries is how often a transaction is tried that changes get in the way of.
const mostTries = 1000

// removeChunks removes chunks that no version had when the change with that sequence was the newest.
func (p *removal) removeChunks(ctx context.Context, unused digests, seen uint64) error {
	for tries := 0; len(unused) > 0; {
		now, text, err := p.log.state()
		if err != nil {
			return err
		}
		if err := p.keepNew(ctx, unused, seen); err != nil {
			return err
		}
		seen = now.Seq
		var count sweep
		swept, err := p.log.current(sweepKey, &count)
		if err != nil {
			return err
		}
		ops := []kv.Op{put(space, sweepKey, encode(sweep{count.N + 1}))}
		var list []Digest
		for digest := range unused {
			if len(ops)+2 > removeOps {
				break
			}
			list, ops = append(list, digest), append(ops, remove(chunks, digest.String()), remove(freed, digest.String()))
		}
		err = p.write(ctx, ops, 0, unchanged(stateKey, text), unchanged(sweepKey, swept))
		switch {
		case err == nil:
			tries = 0
			p.out.Chunks += len(list)
			for _, digest := range list {
				delete(unused, digest)
			}
		case codes.Of(err) != codes.Conflict:
			return err
		default:
			if tries++; tries == mostTries {
				return codes.Errorf(codes.Busy, "changes were made so often that %d parts of files could not be removed; try again later", len(unused))
			}
		}
	}
	return nil
}

// keepNew takes out chunks that changes behind a sequence have.
func (p *removal) keepNew(ctx context.Context, unused digests, seen uint64) error {
	const page = 64
	for to := uint64(newestSeq); ; {
		list, err := p.log.changesTo(ctx, to, page)
		if err != nil {
			return err
		}
		for i := range list {
			if list[i].Seq <= seen {
				return nil
			}
			touches, err := p.log.Touched(ctx, &list[i])
			if err != nil {
				return err
			}
			for _, touch := range touches {
				d := Document{Name: touch.Name, N: touch.N}
				v, err := p.log.Find(ctx, &d, touch.N)
				if err != nil {
					return err
				}
				keep(&v, unused, digests{})
			}
			to = list[i].Seq - 1
		}
		if len(list) < page {
			return nil
		}
	}
}

// changes removes changes of which no version is left.
func (p *removal) changes(ctx context.Context) error {
	now, _, err := p.log.state()
	if err != nil {
		return err
	}
	var ops []kv.Op
	var gone kv.Revision
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		err := p.write(ctx, ops, gone)
		ops = nil
		return err
	}
	const page = 256
	for to, more := p.cut.Seq, true; more && p.out.Changes < mostRemoved; {
		list, err := p.log.changesTo(ctx, to, page)
		if err != nil {
			return err
		}
		more = len(list) == page
		for i := range list {
			m := &list[i]
			to = m.Seq - 1
			if left, err := p.left(ctx, m); err != nil {
				return err
			} else if left || m.Seq == now.Seq {
				continue
			}
			for part := range m.Parts {
				ops = append(ops, remove(touched, touchedKey(m.Seq, part)))
			}
			ops, gone = append(ops, remove(changes, changeKey(m.Seq))), max(gone, m.Revision)
			p.out.Changes++
			if len(ops) >= removeOps {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	p.out.More = p.out.More || p.out.Changes >= mostRemoved
	return flush()
}

// left reports whether a version that a change made is kept.
func (p *removal) left(ctx context.Context, m *Made) (bool, error) {
	touches, err := p.log.Touched(ctx, m)
	if err != nil {
		return false, err
	}
	for _, touch := range touches {
		first, known := p.first[touch.Name]
		if !known {
			list, err := p.log.listVersions(ctx, touch.Name, 1, 1)
			if err != nil {
				return false, err
			}
			if len(list) > 0 {
				first = list[0].N
			}
			p.first[touch.Name] = first
		}
		if first <= touch.N {
			return true, nil
		}
	}
	return false, nil
}
