package player

import (
	"container/heap"
	"context"
	"slices"
	"strconv"
	"strings"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kv"
	"confcenter/player/field"
)

// maxBatchBytes ends a batch, after a whole transaction.
const maxBatchBytes = 8 << 20

func tableOf(cursorKey string) (int, bool) {
	digits, ok := strings.CutPrefix(cursorKey, cursorPrefix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0 && n < field.MaxTables
}

// Dirty returns the oldest dirty fields of a dirty table, and refused ones whose time has come:
// about limit rows (0: the settings'), and more if one transaction wrote more. It returns nil if
// there is nothing to land, and waits for nothing. It fails while the store takes no writes until a
// restart.
func (s *Storage) Dirty(_ context.Context, table, limit int) (*field.Batch, error) {
	if s.dirty == nil {
		return nil, errNoBacking()
	}
	d := s.dirty
	if store, ok := d.store.(interface{ Trouble() *health.Trouble }); ok {
		if t := store.Trouble(); t != nil && t.Restart { // what lands could not be noted
			return nil, t.Err
		}
	}
	if limit <= 0 || limit > field.MaxBatch {
		limit = s.Settings().Batch
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if table < 0 || table >= len(d.tables) {
		return nil, codes.Errorf(codes.BadRequest, "there is no dirty table %d: there are %d", table, len(d.tables))
	}
	t := &d.tables[table]
	b := &field.Batch{Table: table, Tables: len(d.tables), After: t.cursor, Through: t.cursor}
	d.takeNoted(b, t, max(1, limit/2), s.Base())
	d.take(b, t, limit, s.Base())
	if b.Through == b.After && len(b.Rows) == 0 {
		return nil, nil
	}
	t.saving = b.Through
	return b, nil
}

// take adds whole transactions, the oldest first, until there are enough rows.
func (d *ledger) take(b *field.Batch, t *table, limit int, base int64) {
	bytes := 0
	for i := range t.marks {
		m := &t.marks[i]
		if m.mod != b.Through && (len(b.Rows) >= limit || bytes >= maxBatchBytes) {
			b.More = true
			return
		}
		b.Through = m.mod
		if m.region == nil {
			continue
		}
		e, _ := d.store.Get([]byte(m.region.ns), []byte(m.key))
		if e == nil || e.Mod != m.mod {
			continue // changed again: the news are on their way
		}
		if row, ok := d.row(m.region, e, base); ok {
			row.Created = m.created
			_, row.Noted = d.notes[noteKey(m.region.table(), m.key)]
			b.Rows = append(b.Rows, row)
			bytes += e.Size()
			t.give(m.region)
		}
	}
}

func (t *table) give(r *region) {
	if t.given == nil {
		t.given = map[string]bool{}
	}
	t.given[r.table()] = true
}

// takeNoted adds refused rows whose time has come, unless they have changed since and are dirty
// again.
func (d *ledger) takeNoted(b *field.Batch, t *table, limit int, base int64) {
	now := d.clock.Now().UnixMilli()
	var taken []*note // they are due until it is known what became of them
	// What is to wait longer than anything does was told so before the time of day was set back.
	for len(t.due) > 0 && (t.due[0].next <= now || t.due[0].next > now+maxPause) {
		if len(b.Rows) >= limit {
			b.More = true
			break
		}
		n := heap.Pop(&t.due).(*note)
		if d.notes[n.entryKey()] != n {
			continue // replaced
		}
		taken = append(taken, n)
		r := d.names.of(n.ns)
		e, _ := d.store.Get([]byte(n.ns), []byte(n.key))
		if r == nil || e == nil || e.Mod > t.cursor {
			continue
		}
		if row, ok := d.row(r, e, base); ok {
			row.Noted, row.Created = true, n.created
			b.Rows = append(b.Rows, row)
		}
	}
	for _, n := range taken {
		heap.Push(&t.due, n)
	}
}

func (d *ledger) row(r *region, e *kv.Entry, base int64) (field.DirtyRow, bool) {
	o, ok := r.owner(e.Key)
	if !ok {
		return field.DirtyRow{}, false
	}
	name, ok := field.ParseName(e.Key[field.OwnerLen(e.Key)+1:])
	row := field.Row{Owner: o, Name: name, Value: e.Value.Data, Version: base + int64(e.Mod), Removed: !live(e), Created: e.Updated, Updated: e.Updated}
	if row.Removed {
		row.RemovedAt = e.Updated
	}
	return field.DirtyRow{Row: row, Revision: e.Mod}, ok
}

// Landed says that all rows of a batch are in the database, in that version or a later one,
// except those that failed, which go to the list of errors. Of Rows only those that are Noted,
// and those that failed, need to be there. It fails with codes.FenceLost if the lock of LockOf
// is not held with that fence, and with codes.Conflict if the batch is not the table's next
// one any more, or an operator has decided about a failed row meanwhile: take another one then.
func (s *Storage) Landed(ctx context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error {
	if s.dirty == nil {
		return errNoBacking()
	}
	txn := &kv.Txn{Must: true, If: []kv.Compare{numberIs(cursorKey(b.Table), int64(b.After), 0), numberIs(layoutKey, int64(b.Tables), 1)}}
	ns, key := LockOf(b.Table)
	txn.Fences = []kv.Fence{{NS: ns, Key: key, Token: fence}}
	ops, same, err := s.dirty.resolve(b, failed, s.Settings().Delay.Milliseconds())
	if err != nil {
		return err
	}
	if b.Through > b.After {
		ops = append(ops, kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: cursorKey(b.Table), Value: kv.IntValue(int64(b.Through))})
	}
	// The cursor moves with the last of the notes: if one of the transactions before it is not
	// followed by it, the fields that they note are still dirty.
	for len(ops) > opsAtOnce {
		part, n := *txn, min(opsAtOnce, len(same))
		part.Then, part.If = ops[:opsAtOnce], slices.Concat(txn.If, same[:n])
		if _, err := s.commit(ctx, &part); err != nil {
			return err
		}
		ops, same = ops[opsAtOnce:], same[n:]
	}
	txn.Then, txn.If = ops, append(txn.If, same...)
	defer s.cold.know(txn, s.dirty.given(b.Table))()
	before := s.dirty.refusedFields()
	if _, err := s.commit(ctx, txn); err != nil {
		return err
	}
	s.dirty.count(b, len(failed))
	if len(failed) > 0 && before == 0 {
		f := &failed[0]
		s.log.Warn().Int("fields", len(failed)).Str("table", f.Table).Str("key", f.Key).Str("reason", f.Reason).
			Msg("the database refuses fields, which are in the list of errors now, and are tried again; no more is said of it until the list is empty")
	}
	return nil
}

func cursorKey(table int) string { return numbered(cursorPrefix, table) }

// numberIs is the condition that an entry of Landing is that number, or is absent if the
// number is what its absence stands for.
func numberIs(key string, n, absent int64) kv.Compare {
	if n == absent {
		// An entry that is there never has that number: it is only written to have another.
		return kv.Absent(field.Landing, key)
	}
	return kv.Compare{NS: field.Landing, Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: kv.IntValue(n)}
}

// resolve returns the operations on the list of errors: failures are noted, and what is in the
// database now is taken off. same are the conditions of as many of them, the first ones.
func (d *ledger) resolve(b *field.Batch, failed []field.Failure, pause int64) (ops []kv.Op, same []kv.Compare, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	refused := make(map[string]bool, len(failed))
	rows := make(map[string]*field.DirtyRow, len(b.Rows))
	for i := range b.Rows {
		r := &b.Rows[i]
		rows[noteKey(r.Table(), r.Key())] = r
	}
	fresh := 0
	for _, f := range failed {
		key := noteKey(f.Table, f.Key)
		row := rows[key]
		if row == nil {
			return nil, nil, codes.Errorf(codes.BadRequest, "row %.300q of table %.63q is said to have failed, but is not in the batch", f.Key, f.Table)
		}
		if d.notes[key] == nil && !refused[key] {
			fresh++
		}
		refused[key] = true
		n := d.refused(f, row, pause)
		ops, same = append(ops, kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: key, Value: n.value()}), append(same, n.unchanged())
	}
	for key := range rows {
		if d.notes[key] != nil && !refused[key] {
			ops = append(ops, kv.Op{Kind: kv.OpDelete, NS: field.Landing, Key: key})
		}
	}
	if n := len(d.notes) + fresh; fresh > 0 && n > d.most {
		return nil, nil, codes.Errorf(codes.Limit, "the database has refused %d fields, and the list of errors may have %d: find out why (the last reason: %.200s), mend the database, and have them tried again", n, d.most, failed[len(failed)-1].Reason)
	}
	return ops, same, nil
}

// refusedFields is how long the list of errors is, without what was given up.
func (d *ledger) refusedFields() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.tables {
		n += d.tables[i].refused
	}
	return n
}

func (d *ledger) given(i int) map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i >= len(d.tables) {
		return nil
	}
	given := d.tables[i].given
	d.tables[i].given = nil
	return given
}

// count remembers for the status that rows were landed.
func (d *ledger) count(b *field.Batch, failed int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.Table >= len(d.tables) {
		return
	}
	t := &d.tables[b.Table]
	n := max(0, max(b.Count, len(b.Rows))-failed)
	t.landed += uint64(n)
	t.last = d.clock.Now().UnixMilli()
	t.saving = 0
	t.rates.add(t.last/1000, int64(n))
}

// Newer says that the database has a row with that version, which is not below the one that
// was to be written. All fields get greater versions. The batch has to be taken again.
func (s *Storage) Newer(ctx context.Context, version int64) error {
	b := s.base
	if err := b.wait(ctx); err != nil { // or the first one would be written over it
		return err
	}
	if version < b.now.Load() {
		return nil
	}
	if version >= maxBase {
		return codes.Errorf(codes.BadValue, "the database has a row with version %d, the limit is %d: correct it there", version, int64(maxBase))
	}
	b.raising.Lock()
	defer b.raising.Unlock()
	if version < b.now.Load() {
		return nil
	}
	if _, err := s.commit(ctx, kv.PutTxn(field.Landing, baseKey, kv.IntValue(version+1))); err != nil {
		return err
	}
	b.now.Store(version + 1)
	return nil
}

// Settings are those in force.
func (s *Storage) Settings() field.Settings { return *s.set.Load() }

// Set puts other settings in force. If the number of dirty tables changes, what is dirty is
// found in the new ones, at once and without loss.
func (s *Storage) Set(ctx context.Context, set field.Settings) error {
	if set.Tables < 1 || set.Tables > field.MaxTables {
		return codes.Errorf(codes.BadRequest, "%d dirty tables are out of range: the limits are 1 and %d", set.Tables, field.MaxTables)
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	if s.dirty != nil {
		if err := s.divide(ctx, set.Tables); err != nil {
			return err
		}
	}
	old := s.set.Swap(&set)
	if s.cold != nil && old.Idle != set.Idle {
		clock.Nudge(s.cold.retime)
	}
	if s.purge != nil && old.Purge != set.Purge {
		clock.Nudge(s.purge.changed)
	}
	return nil
}

// divide changes the number of dirty tables. Each new one goes on where the one that is
// farthest behind is: what others have landed beyond that is not dirty in memory, and is landed
// once more if the server ends first.
func (s *Storage) divide(ctx context.Context, n int) error {
	d := s.dirty
	d.mu.Lock()
	old, least := len(d.tables), d.seen
	for i := range d.tables {
		least = min(least, d.tables[i].reached(d.seen))
	}
	d.mu.Unlock()
	if n == old {
		return nil
	}
	txn := &kv.Txn{Must: true, If: []kv.Compare{numberIs(layoutKey, int64(old), 1)}}
	for i := range max(n, old) {
		op := kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: cursorKey(i), Value: kv.IntValue(int64(least))}
		if i >= n || least == 0 {
			op = kv.Op{Kind: kv.OpDelete, NS: field.Landing, Key: cursorKey(i)}
		}
		txn.Then = append(txn.Then, op)
	}
	layout := kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: layoutKey, Value: kv.IntValue(int64(n))}
	if n == 1 {
		layout.Kind = kv.OpDelete
	}
	txn.Then = append(txn.Then, layout)
	_, err := s.commit(ctx, txn)
	return err
}
