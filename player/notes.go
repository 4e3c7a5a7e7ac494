package player

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/player/field"
)

// note is a field that the database refused. It is kept as JSON in Landing, so that operators
// can read it there, under the names of the field's table and row.
type note struct {
	field    field.Ref
	ns, key  string      // of the field's entry
	mod      kv.Revision // of its own entry; 0: there is none yet
	revision kv.Revision
	reason   string
	attempts int
	first    int64
	next     int64 // 0: dropped
	created  int64 // as the row's
}

const (
	notePrefix = "error/"
	maxReason  = 300 // bytes
)

func noteKey(table, key string) string { return notePrefix + table + "/" + key }

func (n *note) entryKey() string { return noteKey(n.ns[len(field.Prefix):], n.key) }

func (n *note) value() kv.Value {
	b := append([]byte(`{"rev":`), strconv.FormatInt(int64(n.revision), 10)...)
	b = append(strconv.AppendInt(append(b, `,"attempts":`...), int64(n.attempts), 10), `,"first":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, n.first, 10), `,"next":`...), n.next, 10)
	b = strconv.AppendInt(append(b, `,"created":`...), n.created, 10)
	b = jsontext.AppendQuote(append(b, `,"reason":`...), strings.ToValidUTF8(n.reason[:min(maxReason, len(n.reason))], "?"))
	return kv.JSONValue(append(b, '}'))
}

// unchanged is the condition that the note was not written since it was read: operators and
// landers must not undo what the other one has done meanwhile.
func (n *note) unchanged() kv.Compare {
	if n.mod == 0 {
		return kv.Absent(field.Landing, n.entryKey())
	}
	return kv.Compare{NS: field.Landing, Key: n.entryKey(), Target: kv.CompareMod, Relation: kv.Equal, Number: int64(n.mod)}
}

// parseNote reads an entry; nil if it is none of ours.
func parseNote(e *kv.Entry) *note {
	table, key, ok := strings.Cut(strings.TrimPrefix(e.Key, notePrefix), "/")
	ref, good := field.ParseField(table, key)
	if !ok || !good {
		return nil
	}
	n := &note{field: ref, ns: field.Prefix + table, key: key, mod: e.Mod}
	members, _, err := jsontext.Scan(nil, e.Value.Data)
	if err != nil {
		return nil
	}
	n.created = e.Updated // of an earlier version
	for _, m := range members {
		number, _ := jsontext.Int64(m.Raw)
		switch string(m.Key) {
		case "rev":
			n.revision = kv.Revision(number)
		case "attempts":
			n.attempts = int(number)
		case "first":
			n.first = number
		case "next":
			n.next = number
		case "created":
			n.created = number
		case "reason":
			n.reason = string(jsontext.Unquote(m.Raw))
		}
	}
	return n
}

// note takes in a change of the list of errors.
func (d *ledger) note(e *kv.Entry) {
	if old := d.notes[e.Key]; old != nil {
		delete(d.notes, e.Key)
		d.tally(old, -1)
	}
	if e.Deleted() {
		return
	}
	if n := parseNote(e); n != nil {
		d.notes[e.Key] = n
		d.tally(n, 1)
	}
}

func (d *ledger) tally(n *note, by int64) {
	t := &d.tables[n.field.Owner.Home(len(d.tables))]
	if n.next == 0 {
		t.dropped += by
		return
	}
	t.refused += by
	if by > 0 {
		heap.Push(&t.due, n)
	}
}

// dues is notes by the time at which they are tried again. Some may have been replaced.
type dues []*note

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, k int) bool { return d[i].next < d[k].next }
func (d dues) Swap(i, k int)      { d[i], d[k] = d[k], d[i] }
func (d *dues) Push(n any)        { *d = append(*d, n.(*note)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	n := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return n
}

// maxPause is how long a refused row waits at most before it is tried again, in ms.
const maxPause = 3_600_000

// refused is the note of a row that failed once more.
func (d *ledger) refused(f field.Failure, row *field.DirtyRow, pause int64) *note {
	now := d.clock.Now().UnixMilli()
	n := &note{first: now}
	given := false // up meanwhile
	if old := d.notes[noteKey(f.Table, f.Key)]; old != nil {
		*n = *old
		given = old.next == 0 && old.revision == row.Revision
	}
	n.ns, n.key, n.revision, n.reason, n.created = field.Prefix+f.Table, f.Key, row.Revision, f.Reason, row.Created
	const most = 20 // doublings
	if !given {
		n.next = now + min(maxPause, pause<<min(n.attempts, most))
	}
	n.attempts++
	return n
}

// Errors lists fields that the database refused, after that one in the order of their tables
// and keys.
func (s *Storage) Errors(after field.Ref, limit int) (list []field.ErrorRow, more bool) {
	if s.dirty == nil {
		return nil, false
	}
	set, tables := s.Settings(), s.dirty.tableCount()
	l := kv.List{NS: field.Landing, Prefix: notePrefix, Limit: max(0, limit) + min(1, max(0, limit))}
	if after != (field.Ref{}) {
		l.After = noteKey(after.Owner.Table(), after.Key())
	}
	v := s.store.View() // the list may be long, and the ledger's mutex is not held for so long
	defer v.Close()
	for {
		page, err := v.List(l)
		if err != nil {
			return list, false
		}
		for _, e := range page.Entries {
			l.After = e.Key
			n := parseNote(e)
			if n == nil {
				continue
			}
			if limit > 0 && len(list) == limit {
				return list, true
			}
			list = append(list, field.ErrorRow{Owner: n.field.Owner, Name: n.field.Name, List: set.List(n.field.Owner.Home(tables)) + set.ErrorSuffix,
				Revision: n.revision, Reason: n.reason, Attempts: n.attempts, First: n.first, Next: n.next, Dropped: n.next == 0})
		}
		if !page.More {
			return list, false
		}
	}
}

// tableCount is how many dirty tables there are.
func (d *ledger) tableCount() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.tables)
}

// Retry has refused fields landed again at once: those, or with nil all that were not dropped.
// It returns how many.
func (s *Storage) Retry(ctx context.Context, fields []field.Ref) (int, error) {
	keys, err := s.noted(fields)
	if err != nil {
		return 0, err
	}
	return s.renote(ctx, keys, func(n *note) bool {
		if n.next == 0 && fields == nil {
			return false
		}
		n.next = 1
		return true
	})
}

// Drop gives up landing refused fields: those, or with nil all that there are. They stay in
// memory, and are landed again when they change. It returns how many it has given up. confirm
// is how many that would be: those which are refused, and not given up yet, each counted once;
// else it fails with codes.Unconfirmed. If there is none any more there is nothing to confirm,
// so that asking twice does no harm.
func (s *Storage) Drop(ctx context.Context, fields []field.Ref, confirm int64) (int, error) {
	keys, err := s.noted(fields)
	if err != nil {
		return 0, err
	}
	s.dirty.mu.Lock()
	keys = slices.DeleteFunc(keys, func(key string) bool { n := s.dirty.notes[key]; return n == nil || n.next == 0 })
	s.dirty.mu.Unlock()
	if there := int64(len(keys)); there != 0 && there != confirm {
		return 0, codes.Errorf(codes.Unconfirmed, "landing %d refused fields would be given up: confirm must be that number, and is %d; nothing was given up", there, confirm)
	}
	return s.renote(ctx, keys, func(n *note) bool {
		given := n.next == 0
		n.next = 0
		return !given
	})
}

// noted are the keys of the notes of these fields, each once, whether there are such notes or
// not; with nil of all.
func (s *Storage) noted(fields []field.Ref) ([]string, error) {
	if s.dirty == nil {
		return nil, errNoBacking()
	}
	if fields == nil {
		s.dirty.mu.Lock()
		defer s.dirty.mu.Unlock()
		return slices.Sorted(maps.Keys(s.dirty.notes)), nil
	}
	keys := make([]string, len(fields))
	for i, f := range fields {
		if err := f.Owner.Check(); err != nil {
			return nil, err
		}
		if err := f.Owner.CheckField([]byte(f.Owner.Key()), f.Name); err != nil {
			return nil, err
		}
		keys[i] = noteKey(f.Owner.Table(), f.Key())
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// renote changes notes, a transaction at a time.
func (s *Storage) renote(ctx context.Context, keys []string, change func(*note) bool) (changed int, err error) {
	for part := range slices.Chunk(keys, opsAtOnce) {
		n, err := s.renotePart(ctx, part, change)
		for tries := 1; errors.Is(err, codes.Conflict) && tries < maxTries; tries++ {
			n, err = s.renotePart(ctx, part, change)
		}
		if changed += n; err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// renotePart changes those notes that are still there. It fails with codes.Conflict if a lander
// has changed one meanwhile.
func (s *Storage) renotePart(ctx context.Context, keys []string, change func(*note) bool) (int, error) {
	txn := &kv.Txn{Must: true}
	for _, key := range keys {
		e, _ := s.store.Get([]byte(field.Landing), []byte(key))
		if e == nil {
			continue
		}
		if n := parseNote(e); n != nil && change(n) {
			txn.If = append(txn.If, n.unchanged())
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: field.Landing, Key: key, Value: n.value()})
		}
	}
	if len(txn.Then) == 0 {
		return 0, nil
	}
	_, err := s.commit(ctx, txn)
	if err != nil {
		return 0, err
	}
	return len(txn.Then), nil
}

// maxNotes is how many fields the list of errors may have. A table that the database refuses as
// a whole would otherwise fill the memory with them.
const maxNotes = 100_000

// opsAtOnce is how many operations a transaction on the list of errors has, so that it stays
// within the limits of one.
const opsAtOnce = 2000

func errNoBacking() error {
	return codes.Errorf(codes.NotImplemented, "no database is set up that fields could be landed in: start the server with --landing")
}
