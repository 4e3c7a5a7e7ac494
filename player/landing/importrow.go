package landing

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"confcenter/kv"
	"confcenter/player/field"
)

// Limits of a page.
const (
	pageRows  = 2000
	fewRows   = 16
	pageBytes = 8 << 20
	maxValue  = kv.MaxValue

	maxVersion = 1 << 62 // those above are none of ours, see storage.Storage.Newer
)

// foreign is a row of others, in which anything may be NULL.
type foreign struct {
	key, logic, owner, name, queryAll            sql.NullString
	value                                        []byte // nil as well if it is too long
	size                                         sql.NullInt64
	version, removed, removedAt, created, update sql.NullInt64
}

// page is rows in the order of their primary_key.
type page struct {
	rows []foreign
	next int // how many rows the next one should have
}

func (p *page) last() string { return p.rows[len(p.rows)-1].key.String }

// read reads the rows after a key. They are in the order of the source's own collation, so that
// it has them in its index.
func (m *importing) read(ctx context.Context, after string, first bool, most int) (*page, error) {
	d := m.From
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	query, args := "SELECT "+m.fields+" FROM "+d.dialect.Quote(m.Table), []any{after, most}
	if first {
		args = args[1:]
	} else {
		query += " WHERE primary_key > ?"
	}
	rows, err := d.db.QueryContext(ctx, d.dialect.Bind(query+" ORDER BY primary_key LIMIT ?"), args...)
	if err != nil {
		return nil, d.failure(err)
	}
	defer rows.Close()
	p := &page{next: min(2*most, pageRows)}
	for bytes := 0; bytes < pageBytes && rows.Next(); {
		var r foreign
		if err := rows.Scan(&r.key, &r.logic, &r.owner, &r.name, &r.value, &r.size, &r.version, &r.removed, &r.removedAt, &r.queryAll, &r.created, &r.update); err != nil {
			return nil, fmt.Errorf("row after %q of table %s: %w", after, m.Table, d.failure(err))
		}
		if bytes += len(r.value); bytes >= pageBytes { // the rest would be read in vain
			p.next = max(fewRows, len(p.rows))
		}
		p.rows, after = append(p.rows, r), r.key.String
	}
	return p, d.failure(rows.Err())
}

// judge returns the rows of a page that the target can have.
func (m *importing) judge(ctx context.Context, p *page) ([]field.DirtyRow, error) {
	rows := make([]field.DirtyRow, 0, len(p.rows))
	others := map[string]string{} // keys of rows that get others, by those
	for i := range p.rows {
		r := &p.rows[i]
		row, why := r.row(m.App, m.Region)
		if why == "" && m.now.Same {
			why = r.misplaced(&row)
		}
		if why != "" {
			m.refuse(r.key.String, why)
			continue
		}
		if why := r.odd(); why != "" {
			m.now.Odd++
			m.Listed(r.key.String, why, false)
		}
		if version := r.version.Int64; version < maxVersion {
			m.now.Newest = max(m.now.Newest, version)
		}
		if key := row.Key(); key != r.key.String {
			others[key] = r.key.String
			continue
		}
		rows = append(rows, field.DirtyRow{Row: row})
	}
	twice, err := m.From.present(ctx, m.Table, slices.Collect(maps.Keys(others)))
	if err != nil {
		return nil, err
	}
	for i := range p.rows {
		row, _ := p.rows[i].row(m.App, m.Region)
		key := row.Key()
		switch from := p.rows[i].key.String; {
		case others[key] != from || from == "":
		case twice[key]: // a server of ours has landed there, and knows better
			m.refuse(from, fmt.Sprintf("the table has the same field as %q, which counts", key))
		default:
			m.now.Converted++
			m.Listed(from, fmt.Sprintf("it is %q from now on", key), false)
			rows = append(rows, field.DirtyRow{Row: row})
		}
	}
	return rows, nil
}

// rawKey is how homo's landers make a primary_key.
func rawKey(logic, owner, name string) string { return logic + ":" + owner + ":" + name }

// row is the row as the target has it, or why it cannot have it.
func (r *foreign) row(app, region string) (row field.Row, why string) {
	row = field.Row{
		Owner: field.Owner{App: app, Region: region, Logic: r.logic.String, ID: r.owner.String}, Name: r.name.String, Value: r.value,
		Removed: r.removed.Int64 != 0, RemovedAt: r.removedAt.Int64, Created: r.created.Int64, Updated: r.update.Int64,
	}
	for _, name := range []string{r.logic.String, r.owner.String, r.name.String} {
		if cut(name) {
			return row, fmt.Sprintf("%q is cut inside a character", name)
		}
	}
	if err := row.Owner.Check(); err != nil {
		return row, err.Error()
	}
	if err := row.Owner.CheckField([]byte(row.Owner.Key()), row.Name); err != nil {
		return row, err.Error()
	}
	if key := row.Key(); r.key.String != key && r.key.String != rawKey(r.logic.String, r.owner.String, r.name.String) {
		return row, fmt.Sprintf("its logic_type, owner_id and key make %q", rawKey(r.logic.String, r.owner.String, r.name.String))
	}
	if r.size.Int64 > maxValue {
		return row, fmt.Sprintf("its value has %d bytes, the limit is %d", r.size.Int64, maxValue)
	}
	return row, ""
}

// cut reports whether a text is UTF-8 but for a character at its end that is not whole.
func cut(text string) bool {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			return tail[0] >= utf8.RuneSelf && !utf8.FullRuneInString(tail) && utf8.ValidString(text[:len(text)-n])
		}
	}
	return false
}

// odd says what is probably wrong with a row that can be taken over as it is.
func (r *foreign) odd() string {
	if string(r.value) == ":delFlag" && r.removed.Int64 == 0 {
		return "its value is :delFlag, the framework's old mark of a removed field, and stays its value"
	}
	for _, name := range []string{r.logic.String, r.owner.String, r.name.String} {
		if strings.HasSuffix(name, "\ufffd") {
			return fmt.Sprintf("%q ends in what stands for a character that was cut", name)
		}
	}
	return ""
}

// misplaced says why a server does not find a row where it is.
func (r *foreign) misplaced(row *field.Row) string {
	switch owner := row.Owner.Key(); {
	case row.Key() != r.key.String:
		return fmt.Sprintf("its primary_key must be %q", row.Key())
	case owner != r.queryAll.String:
		return fmt.Sprintf("its query_all_key must be %q", owner)
	case r.version.Int64 >= maxVersion:
		return fmt.Sprintf("its up_version is %d, the limit is %d", r.version.Int64, int64(maxVersion))
	}
	return ""
}

// count counts the rows of a table, however long that takes.
func (d *Database) count(ctx context.Context, name string) (n int64, err error) {
	err = d.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+d.dialect.Quote(name)).Scan(&n)
	return n, d.failure(err)
}

// present tells which keys a table has.
func (d *Database) present(ctx context.Context, name string, keys []string) (map[string]bool, error) {
	there := make(map[string]bool, len(keys))
	for len(keys) > 0 {
		some := keys[:min(perQuery, len(keys))]
		keys = keys[len(some):]
		args := make([]any, len(some))
		for i, key := range some {
			args[i] = key
		}
		found, err := column(ctx, d.db, d.dialect.Bind("SELECT primary_key FROM "+d.dialect.Quote(name)+" WHERE primary_key IN (?"+strings.Repeat(",?", len(some)-1)+")"), args...)
		if err != nil {
			return nil, d.failure(err)
		}
		for _, key := range found {
			there[key] = true
		}
	}
	return there, nil
}
