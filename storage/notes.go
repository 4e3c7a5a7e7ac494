package storage

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/storage/field"
)

// note is a field that the database refused. It is kept as JSON in Landing, so that operators
// can read it there, under the names of the field's table and row.
type note struct {
	field    FieldName
	ns, key  string // of the field's entry
	revision kv.Revision
	reason   string
	attempts int
	first    int64
	next     int64 // 0: dropped
}

const (
	notePrefix = "error/"
	maxReason  = 300 // bytes
)

func noteKey(table, key string) string { return notePrefix + table + "/" + key }

func (n *note) entryKey() string { return noteKey(n.ns[len(Prefix):], n.key) }

func (n *note) value() kv.Value {
	b := append([]byte(`{"rev":`), strconv.FormatInt(int64(n.revision), 10)...)
	b = append(strconv.AppendInt(append(b, `,"attempts":`...), int64(n.attempts), 10), `,"first":`...)
	b = strconv.AppendInt(append(strconv.AppendInt(b, n.first, 10), `,"next":`...), n.next, 10)
	b = jsontext.AppendQuote(append(b, `,"reason":`...), strings.ToValidUTF8(n.reason[:min(maxReason, len(n.reason))], "?"))
	return kv.JSONValue(append(b, '}'))
}

// parseNote reads an entry; nil if it is none of ours.
func parseNote(e *kv.Entry) *note {
	table, key, ok := strings.Cut(strings.TrimPrefix(e.Key, notePrefix), "/")
	field, good := field.ParseField(table, key)
	if !ok || !good {
		return nil
	}
	n := &note{field: field, ns: Prefix + table, key: key}
	members, _, err := jsontext.Scan(nil, e.Value.Data)
	if err != nil {
		return nil
	}
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
		case "reason":
			n.reason = string(jsontext.Unquote(m.Raw))
		}
	}
	return n
}

// note takes in a change of the list of errors.
func (d *ledger) note(e *kv.Entry) {
	if e.Deleted() {
		delete(d.notes, e.Key)
	} else if n := parseNote(e); n != nil {
		d.notes[e.Key] = n
	}
}

// maxPause is how long a refused row waits at most before it is tried again, in ms.
const maxPause = 3_600_000

// refused is the note of a row that failed once more.
func (d *ledger) refused(f Failure, rev kv.Revision, pause int64) *note {
	now := d.clock.Now().UnixMilli()
	n := &note{first: now}
	if old := d.notes[noteKey(f.Table, f.Key)]; old != nil {
		*n = *old
	}
	n.ns, n.key, n.revision, n.reason = Prefix+f.Table, f.Key, rev, f.Reason
	const most = 20 // doublings
	n.next = now + min(maxPause, pause<<min(n.attempts, most))
	n.attempts++
	return n
}

// Errors lists fields that the database refused, after that one in the order of their tables
// and keys.
func (s *Storage) Errors(after FieldName, limit int) (list []ErrorRow, more bool) {
	if s.dirty == nil {
		return nil, false
	}
	d, set := s.dirty, s.Settings()
	d.mu.Lock()
	defer d.mu.Unlock()
	from := ""
	if after != (FieldName{}) {
		from = noteKey(after.Owner.Table(), after.Key())
	}
	var keys []string
	for key := range d.notes {
		if key > from {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if limit > 0 && len(keys) > limit {
		keys, more = keys[:limit], true
	}
	for _, key := range keys {
		n := d.notes[key]
		list = append(list, ErrorRow{Owner: n.field.Owner, Name: n.field.Name, List: set.List(n.field.Owner.Home(len(d.tables))) + set.ErrorSuffix,
			Revision: n.revision, Reason: n.reason, Attempts: n.attempts, First: n.first, Next: n.next, Dropped: n.next == 0})
	}
	return list, more
}

// Retry has refused fields landed again at once: those, or all that were not dropped. It
// returns how many.
func (s *Storage) Retry(ctx context.Context, fields []FieldName) (int, error) {
	return s.renote(ctx, fields, func(n *note) bool {
		if n.next == 0 && fields == nil {
			return false
		}
		n.next = 1
		return true
	})
}

// Drop gives up landing these refused fields. They stay in memory, and are landed again when
// they change.
func (s *Storage) Drop(ctx context.Context, fields []FieldName) (int, error) {
	if len(fields) == 0 {
		return 0, codes.Errorf(codes.BadRequest, "name the fields to give up")
	}
	return s.renote(ctx, fields, func(n *note) bool { n.next = 0; return true })
}

// renote changes notes, a transaction at a time.
func (s *Storage) renote(ctx context.Context, fields []FieldName, change func(*note) bool) (changed int, err error) {
	if s.dirty == nil {
		return 0, errNoBacking()
	}
	var ops []kv.Op
	s.dirty.mu.Lock()
	add := func(n *note) {
		if n == nil {
			return
		}
		if other := *n; change(&other) {
			ops = append(ops, kv.Op{Kind: kv.OpPut, NS: Landing, Key: other.entryKey(), Value: other.value()})
		}
	}
	if fields == nil {
		for _, n := range s.dirty.notes {
			add(n)
		}
	}
	for _, f := range fields {
		add(s.dirty.notes[noteKey(f.Owner.Table(), f.Key())])
	}
	s.dirty.mu.Unlock()
	slices.SortFunc(ops, func(a, b kv.Op) int { return cmp.Compare(a.Key, b.Key) })
	for part := range slices.Chunk(ops, opsAtOnce) {
		if _, err := s.commit(ctx, &kv.Txn{Then: part}); err != nil {
			return changed, err
		}
		changed += len(part)
	}
	return changed, nil
}

// opsAtOnce is how many operations a transaction on the list of errors has, so that it stays
// within the limits of one.
const opsAtOnce = 2000

func errNoBacking() error {
	return codes.Errorf(codes.NotImplemented, "no database is set up that fields could be landed in: start the server with --landing")
}
