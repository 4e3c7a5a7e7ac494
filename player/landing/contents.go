package landing

import (
	"context"
	"database/sql"
	"errors"

	"confcenter/codes"
)

// contents is whether a table has rows, and had some of ours: one that others have emptied, or made
// again, is not known to have nothing. The database says so itself, in the row of its identity that
// is about the table: what is known goes back in time with the rows, and several servers and landers
// know the same. Only a purge of ours takes the last row away, and says so at once.
type contents struct {
	d     *Database
	table string
}

// aboutRows is the name in the row about a table that has held rows while it was fit.
const aboutRows = "rows"

// holding is what is known.
type holding string

// What is known.
const (
	unsaid  holding = ""        // nothing: the table is not in use
	empty   holding = "empty"   // as it was left
	found   holding = "found"   // it has rows, which no one has recorded
	kept    holding = "kept"    // it has rows, as it had
	emptied holding = "emptied" // it has none, and had some
)

// had reports whether the table is known to have had rows.
func (h holding) had() bool { return h == kept || h == emptied }

// name is the table's as statements have it.
func (c contents) name() string { return c.d.dialect.Quote(c.d.dialect.Fold(c.table)) }

// holds asks the database, which looks at one row of the table. A connection that has broken since it
// was used last is no reason for rows not to be landed: another one is asked.
func (c contents) holds(ctx context.Context) (holding, error) {
	const some = "EXISTS (SELECT 1 FROM "
	query := c.d.dialect.Bind("SELECT CASE WHEN name = '" + aboutRows + "' THEN CASE WHEN " + some + c.name() + ") THEN '" + string(kept) + "' ELSE '" + string(emptied) + "' END" +
		" WHEN " + some + c.name() + ") THEN '" + string(found) + "' ELSE '" + string(empty) + "' END FROM " + identityTable + " WHERE what = ?")
	has, err := column(ctx, c.d.db, query, about(c.table))
	if c.d.broke(err) {
		c.d.renew()
		has, err = column(ctx, c.d.db, query, about(c.table))
	}
	if err != nil && c.d.dialect.Fault(err) == Absent { // is it that of the identity?
		if there, failed := c.d.registered(ctx, c.table); failed != nil || !there {
			return unsaid, failed
		}
	}
	if err != nil || len(has) == 0 {
		return unsaid, err
	}
	return holding(has[0]), nil
}

// fill has the database say that the table holds rows, if it does.
func (c contents) fill(ctx context.Context) error {
	_, err := c.d.db.ExecContext(ctx, c.d.dialect.Bind("UPDATE "+identityTable+" SET name = '"+aboutRows+"' WHERE what = ? AND EXISTS (SELECT 1 FROM "+c.name()+")"), about(c.table))
	return err
}

// look decides about what was found at a look at the table: one that has had rows must be as it was.
func (c contents) look(ctx context.Context, u unfit) (lost string, err error) {
	h, err := c.holds(ctx)
	switch {
	case err != nil:
		return "", err
	case h.had() && u.why != "":
		return c.lost("is not what it was: " + u.why), nil
	case h == emptied:
		return c.emptied(), nil
	case h == found && u.why == "":
		_ = c.fill(ctx) // who may only read leaves it to the lander
	}
	return "", nil
}

// check is for when nothing was found in the table.
func (c contents) check(ctx context.Context) error {
	h, err := c.holds(ctx)
	if err == nil && h == emptied {
		c.d.checks.forget(c.table)
		err = c.d.unusable("%s", c.emptied())
	}
	return err
}

// lost says that it is not known any more what a table has had.
func (c contents) lost(what string) string {
	return "the table " + c.d.dialect.Fold(c.table) + ", in which fields have been landed, " + what + ", so that it is not known what they are: restore it; or, if they shall be gone, start the server once with --landing-moved"
}

func (c contents) emptied() string { return c.lost("has been emptied, or made again") }

// upsert writes rows, unless those are gone that the table had. It looks before each statement:
// after it the table would have rows again.
func (c contents) upsert(ctx context.Context, write func() (kept bool, err error)) (left bool, err error) {
	h, err := c.holds(ctx)
	if err == nil && h == emptied {
		c.d.checks.forget(c.table)
		err = codes.Errorf(codes.Storage, "%s", c.emptied())
	}
	if err != nil {
		return false, err
	}
	left, err = write()
	if err == nil && (h == empty || h == found) {
		err = c.fill(ctx)
	}
	return left, err
}

// giveUp takes a table that was emptied as it is: it is filled again.
func (c contents) giveUp(ctx context.Context) error {
	_, err := c.d.db.ExecContext(ctx, c.d.dialect.Bind("UPDATE "+identityTable+" SET name = '' WHERE what = ? AND NOT EXISTS (SELECT 1 FROM "+c.name()+")"), about(c.table))
	return err
}

// purge deletes rows. If none is left the database says so at the same moment; that there were some
// is recorded before, so that no one records it after.
func (c contents) purge(ctx context.Context, statement string, args []any) (n int64, err error) {
	h, err := c.holds(ctx)
	if err == nil && h == found {
		err = c.fill(ctx)
	}
	if err != nil {
		return 0, err
	}
	tx, err := c.d.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // if it has not ended
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	if n, err = result.RowsAffected(); err != nil {
		return 0, err
	}
	var one int
	err = tx.QueryRowContext(ctx, "SELECT 1 FROM "+c.name()+" LIMIT 1").Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
		if h != unsaid {
			_, err = tx.ExecContext(ctx, c.d.dialect.Bind("UPDATE "+identityTable+" SET name = '' WHERE what = ?"), about(c.table))
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}
