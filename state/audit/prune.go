package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/access/trail"
	"confcenter/kv"
)

const (
	// tidyEvery is how often old lines are removed, and positions of exports written down.
	tidyEvery = 10 * time.Second
	// stretches is in how many pieces lines are removed, about.
	stretches = 64
	// deletedAtOnce is how many blocks of lines are removed in one transaction.
	deletedAtOnce = 512
)

// tidy ends the stretch of the newest lines if it has got long, and removes the oldest ones. Where
// the chain begins then is kept first, together with a line that says so.
func (a *Audit) tidy(ctx context.Context) error {
	a.booking.Lock()
	defer a.booking.Unlock()
	now, head := a.cfg.Clock.Now().UnixMilli(), a.cfg.Trail.Head()
	_, written := a.cfg.Trail.Written()
	open := a.open + int64(written-a.from)
	b := a.books
	b.Segments = slices.Clone(b.Segments)
	ended := open > 0 && head.Seq > b.last().Seq && (open >= a.cfg.Bytes/stretches || b.since()+a.cfg.Age.Milliseconds()/stretches <= now)
	if ended {
		b.Segments = append(b.Segments, mark{Head: head.String(), Time: now, Bytes: open})
	}
	var txn kv.Txn
	pruned := b.prune(a.cfg.Bytes, now-a.cfg.Age.Milliseconds())
	if pruned > 0 {
		last := b.Pruned.head()
		txn.Note = []access.Event{{
			Kind: access.EventPruned, By: &access.Actor{Origin: access.Server}, Do: "prune",
			What: []string{fmt.Sprintf("audit:%d-%d", last.Seq-pruned+1, last.Seq)}, Count: pruned,
		}}
	}
	at := a.exported()
	if ended || pruned > 0 || len(at) > 0 && !maps.Equal(at, b.Exported) {
		if b.Exported = at; len(at) == 0 {
			b.Exported = a.books.Exported
		}
		if err := a.saveBooks(ctx, b, txn); err != nil {
			return err
		}
	}
	if ended {
		a.open, a.from = 0, written
	}
	a.pruned.Add(uint64(pruned))
	a.gone.Store(b.Pruned.head().Seq)
	return a.remove(ctx, b.Pruned.head().Seq)
}

// since is when the newest stretch began.
func (b *books) since() int64 {
	if n := len(b.Segments); n > 0 {
		return b.Segments[n-1].Time
	}
	return b.Pruned.Time
}

// prune takes out the stretches that are too old or too much, and returns how many lines they had.
func (b *books) prune(most, before int64) (lines int64) {
	var total int64
	for i := range b.Segments {
		total += b.Segments[i].Bytes
	}
	was := b.Pruned.head().Seq
	for len(b.Segments) > 0 && (total > most || b.Segments[0].Time < before) {
		total -= b.Segments[0].Bytes
		b.Pruned, b.Segments = mark{Head: b.Segments[0].Head, Time: b.Segments[0].Time}, b.Segments[1:]
	}
	return b.Pruned.head().Seq - was
}

// remove removes blocks of lines up to a line. booking is held.
func (a *Audit) remove(ctx context.Context, through int64) error {
	for a.deleted < through {
		page, err := a.store.ListArchive(ctx, kv.List{NS: kv.AuditLines, Limit: deletedAtOnce, MaxBytes: mostRead})
		if err != nil {
			return err
		}
		txn := kv.Txn{System: true}
		for _, e := range page.Entries {
			if e.Key > trail.KeyOf(through) {
				break
			}
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: kv.AuditLines, Key: e.Key})
		}
		if len(txn.Then) == 0 {
			a.deleted = through
			break
		}
		if _, err := kv.Commit(ctx, a.store, &txn); err != nil {
			return err
		}
	}
	return nil
}
