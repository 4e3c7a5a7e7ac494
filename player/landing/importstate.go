package landing

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strings"

	"confcenter/codes"
)

// importTable has a row for each import. It is no name of a table of fields.
const importTable = "confcenter__import"

// position is how far an import has got, as the target knows it.
type position struct {
	after string // the primary_key that was read last
	Imported
}

var importNumbers = []string{"read_rows", "there_rows", "converted_rows", "refused_rows", "missing_rows", "newest"}

func (p *position) numbers() []any {
	return []any{&p.Read, &p.There, &p.Converted, &p.Refused, &p.Missing, &p.Newest}
}

// restore has an import go on from there.
func (p *position) restore(now *Imported) {
	now.Before = p.Read
	now.Read, now.There, now.Converted, now.Refused, now.Missing, now.Newest = p.Read, p.There, p.Converted, p.Refused, p.Missing, p.Newest
}

// id tells imports apart.
func (m *importing) id() string {
	sum := sha256.Sum256([]byte(m.From.Name() + "\x00" + m.Table + "\x00" + m.now.Target))
	return hex.EncodeToString(sum[:])
}

// begin reads the position, or makes one.
func (m *importing) begin(ctx context.Context) error {
	d := m.To
	statement := "CREATE TABLE IF NOT EXISTS " + importTable + " (id CHAR(64) NOT NULL PRIMARY KEY, source_table VARCHAR(255) NOT NULL, target_table VARCHAR(255) NOT NULL, " +
		"after_key VARCHAR(4000) NOT NULL, finished INTEGER NOT NULL, " + strings.Join(importNumbers, " BIGINT NOT NULL, ") + " BIGINT NOT NULL)"
	if _, err := d.db.ExecContext(ctx, statement); err != nil {
		return d.failure(err)
	}
	var after string
	var finished int
	query := "SELECT after_key, finished, " + strings.Join(importNumbers, ", ") + " FROM " + importTable + " WHERE id = ?"
	err := d.db.QueryRowContext(ctx, d.dialect.Bind(query), m.id()).Scan(append([]any{&after, &finished}, m.at.numbers()...)...)
	switch {
	case err == nil && finished == 0 && !m.Restart:
		m.at.after, err = url.QueryUnescape(after)
		return d.failure(err)
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return d.failure(err)
	}
	m.at = position{}
	if _, err := d.db.ExecContext(ctx, d.dialect.Bind("DELETE FROM "+importTable+" WHERE id = ?"), m.id()); err != nil {
		return d.failure(err)
	}
	insert := "INSERT INTO " + importTable + " (id, source_table, target_table, after_key, finished, " + strings.Join(importNumbers, ", ") + ") VALUES (?, ?, ?, '', 0" + strings.Repeat(", 0", len(importNumbers)) + ")"
	_, err = d.db.ExecContext(ctx, d.dialect.Bind(insert), m.id(), url.QueryEscape(m.Table), m.now.Target)
	return d.failure(err)
}

// shared reports whether the source is in the same database as the target: what has just been
// written to the one is in the other.
func (m *importing) shared(ctx context.Context) (bool, error) {
	d := m.From
	var n int
	err := d.db.QueryRowContext(ctx, d.dialect.Bind("SELECT COUNT(*) FROM "+importTable+" WHERE id = ?"), m.id()).Scan(&n)
	if fault := d.dialect.Fault(err); err != nil && fault != Unreachable && fault != Broken {
		return false, nil // there is no such table, or no right to read it
	}
	return n > 0, d.failure(err)
}

// advance moves the position. The rows are there already: if it ends in between, they are
// written twice, which does no harm.
func (m *importing) advance(ctx context.Context, after string) error {
	before := m.at.Read
	m.at = position{after: after, Imported: m.now}
	args := append([]any{url.QueryEscape(after)}, m.at.numbers()...)
	for i, at := range args[1:] {
		args[i+1] = *at.(*int64)
	}
	n, err := m.set(ctx, "after_key = ?, "+strings.Join(importNumbers, " = ?, ")+" = ?", "read_rows = ?", append(args, m.id(), before)...)
	if err == nil && n == 0 {
		err = codes.Errorf(codes.Conflict, "another import of table %s is running; end one of them", m.Table)
	}
	return err
}

// finish has the next import begin anew.
func (m *importing) finish(ctx context.Context) error {
	_, err := m.set(ctx, "finished = 1", "finished = 0", m.id())
	return err
}

func (m *importing) set(ctx context.Context, what, as string, args ...any) (int64, error) {
	d := m.To
	result, err := d.db.ExecContext(ctx, d.dialect.Bind("UPDATE "+importTable+" SET "+what+" WHERE id = ? AND "+as), args...)
	if err != nil {
		return 0, d.failure(err)
	}
	return result.RowsAffected()
}

// Importable lists the tables that may have fields, whatever their names.
func (d *Database) Importable(ctx context.Context) ([]string, error) {
	if err := d.learn(ctx); err != nil {
		return nil, d.failure(err)
	}
	names, err := column(ctx, d.db, d.dialect.Tables())
	names = slices.DeleteFunc(names, func(name string) bool { return name == Proof.Table() })
	slices.Sort(names)
	return names, d.failure(err)
}

// indexed refuses a table in which an owner cannot be found but by reading all of it.
func (d *Database) indexed(ctx context.Context, table string) error {
	query := d.dialect.Indexed()
	if query == "" {
		return nil
	}
	has, err := column(ctx, d.db, d.dialect.Bind(query), table)
	if err != nil {
		return d.failure(err)
	}
	for _, name := range has {
		if strings.EqualFold(name, "query_all_key") {
			return nil
		}
	}
	return codes.Errorf(codes.Storage, "the table %s has no index on query_all_key, so that each owner would be looked for in all rows: CREATE INDEX query_all_key ON %s (query_all_key, is_del)", table, d.dialect.Quote(table))
}
