package audit

import (
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"time"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/kv"
)

const (
	// tidyEvery is how often old lines are removed, and positions of exports written down.
	tidyEvery = 10 * time.Second
	// stretches is in how many pieces lines are removed, about.
	stretches = 64
	// deletedAtOnce is how many blocks of lines are removed in one transaction.
	deletedAtOnce = 512
	// earlyEvery is how often the log says, at most, that lines are removed before their time.
	earlyEvery = time.Hour
)

// tidy ends the stretch of the newest lines if it has got long, and removes old ones. Where
// the chain begins then is kept first, together with a line that says so.
func (a *Audit) tidy(ctx context.Context) error {
	a.booking.Lock()
	defer a.booking.Unlock()
	for {
		if err := a.tidyBooks(ctx); codes.Of(err) != codes.Conflict {
			return err
		}
	}
}

// tidyBooks is tidy. booking is held. codes.Conflict: another server was doing it, too.
func (a *Audit) tidyBooks(ctx context.Context) error {
	err := a.readBooks()
	if err == nil && a.open < 0 {
		err = a.count(ctx)
	}
	if err != nil {
		return err
	}
	now, head := a.cfg.Clock.Now().UnixMilli(), a.cfg.Trail.Head()
	_, written := a.cfg.Trail.Written()
	open := a.open + int64(written-a.from)
	b := a.books
	b.Segments = slices.Clone(b.Segments)
	ended := open > 0 && head.Seq > b.last().Seq && (open >= a.cfg.Bytes/stretches || b.since()+a.cfg.Age.Milliseconds()/stretches <= now)
	if ended {
		b.Segments = append(b.Segments, a.cut(ctx, b.last().Seq, mark{Head: head.String(), Time: now, Bytes: open})...)
	}
	var txn kv.Txn
	pruned, early := b.prune(a.cfg.Bytes, now-a.cfg.Age.Milliseconds())
	if pruned > 0 {
		last := b.Pruned.head()
		txn.Note = []access.Event{{
			Kind: access.EventPruned, By: &access.Actor{Origin: access.Server}, Do: "prune",
			What: []string{Removed(last.Seq-pruned+1, last.Seq)}, Count: pruned,
		}}
	}
	at := a.exported(b.Exported)
	if ended || pruned > 0 || !maps.Equal(at, b.Exported) {
		b.Exported = at
		if err := a.saveBooks(ctx, b, txn); err != nil {
			return err
		}
	}
	if ended {
		a.open, a.from = 0, written
	}
	a.pruned.Add(uint64(pruned))
	a.tellEarly(early)
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

// cut cuts a stretch of lines that has got too long, for it would be removed whole. What cannot be
// read stays in one.
func (a *Audit) cut(ctx context.Context, after int64, whole mark) (pieces []mark) {
	most, end := a.cfg.Bytes/stretches, whole.head().Seq
	if whole.Bytes < 2*most {
		return []mark{whole}
	}
	piece := mark{Time: whole.Time}
	for at := after; at < end; {
		block, err := a.Read(ctx, at)
		if err != nil || block.First != at+1 {
			return []mark{whole}
		}
		for _, text := range Lines(block.Lines) {
			if at++; at >= end {
				break
			}
			if piece.Bytes += int64(len(text)) + 1; piece.Bytes >= most {
				piece.Head = Head{Seq: at, Hash: sha256.Sum256(text)}.String()
				pieces = append(pieces, piece)
				whole.Bytes = max(0, whole.Bytes-piece.Bytes)
				piece.Bytes = 0
			}
		}
	}
	return append(pieces, whole)
}

// prune takes out the stretches that are too old or too much, and returns how many lines they had,
// and how many of these were not too old. The newest one is never too much.
func (b *books) prune(most, before int64) (lines, early int64) {
	var total int64
	for i := range b.Segments {
		total += b.Segments[i].Bytes
	}
	for len(b.Segments) > 0 {
		oldest := b.Segments[0]
		old := oldest.Time < before
		if !old && (total <= most || len(b.Segments) == 1) {
			break
		}
		n := oldest.head().Seq - b.Pruned.head().Seq
		if lines += n; !old {
			early += n
		}
		total -= oldest.Bytes
		b.Pruned, b.Segments = mark{Head: oldest.Head, Time: oldest.Time}, b.Segments[1:]
	}
	return lines, early
}

// tellEarly has the operator know that lines were removed before their time. booking is held.
func (a *Audit) tellEarly(lines int64) {
	a.early.Add(uint64(lines))
	now := a.cfg.Clock.Now()
	if lines == 0 || now.Before(a.quiet) {
		return
	}
	a.quiet = now.Add(earlyEvery)
	a.cfg.Log.Warn().Int64("lines", lines).Msgf("lines of the audit are removed before they are %d days old, because there are more than %d bytes of them; raise --audit-bytes, have a copy made by --audit-file or --audit-syslog, or leave out changes of keys by --audit no-keys",
		int64(a.cfg.Age/(24*time.Hour)), a.cfg.Bytes)
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
			if e.Key > KeyOf(through) {
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
