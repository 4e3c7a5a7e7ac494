package landing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/player"
)

// checkTime is how long a table that was fit is taken to be: others may alter, rename or drop it
// at any time.
const checkTime = time.Minute

// unfit is why a table cannot hold fields.
type unfit struct {
	why  string // "": it can
	read bool   // but what it has can be read: other keys are other rows
}

// checked is a table that was fit, or could be read at least.
type checked struct {
	at time.Time
	unfit
}

// checks are the tables that were looked at.
type checks struct {
	mu     sync.Mutex
	tables map[string]checked // guarded by mu
}

// known returns what was found lately about a table.
func (c *checks) known(table string) (u unfit, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.tables[table]
	return found.unfit, ok && time.Since(found.at) < checkTime
}

func (c *checks) note(table string, u unfit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables == nil {
		c.tables = map[string]checked{}
	}
	c.tables[table] = checked{time.Now(), u}
}

// forget has a table looked at again when it is needed next.
func (c *checks) forget(table string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tables, table)
}

// inspect looks at a table. It makes nothing.
func (d *Database) inspect(ctx context.Context, table string) (there bool, u unfit, err error) {
	name := d.dialect.Fold(table)
	has, err := column(ctx, d.db, d.dialect.Bind(d.dialect.Columns()), name)
	if err != nil || len(has) == 0 {
		return false, unfit{}, err
	}
	for _, one := range columns {
		if !slices.Contains(has, one) {
			return true, unfit{why: "it has no column " + one, read: true}, nil // if it is needed, reading says so as well
		}
	}
	why, mixes, err := d.dialect.Unfit(ctx, d.db, name)
	return true, unfit{why, !mixes}, err
}

// ready makes the table if it was never there; with anyway also if it was. An error of
// codes.Storage says that it cannot hold fields, or is missing.
func (d *Database) ready(ctx context.Context, table string, anyway bool) error {
	if err := d.learn(ctx); err != nil {
		return d.failure(err)
	}
	if u, ok := d.checks.known(table); ok && u.why == "" && !anyway {
		return nil
	}
	name := d.dialect.Fold(table)
	var why string
	for range 2 { // two who make it at the same time may disturb each other
		u, err := d.makeTable(ctx, table, anyway)
		if err == nil && u.why == "" {
			d.checks.note(table, u)
			return nil
		}
		if why = u.why; err == nil {
			break
		}
		if fault := d.dialect.Fault(err); errors.As(err, new(*codes.Error)) || fault == Unreachable || fault == Broken {
			return d.failure(err)
		}
		why = "it cannot be made: " + d.address.Hide(err.Error())
	}
	return codes.Errorf(codes.Storage, "the table %s cannot hold fields: %s; alter it, or rename it and a new one is made", name, why)
}

func (d *Database) makeTable(ctx context.Context, table string, anyway bool) (u unfit, err error) {
	registered, err := d.registered(ctx, table)
	if err != nil {
		return u, err
	}
	if registered && !anyway {
		there, u, err := d.inspect(ctx, table)
		if err != nil {
			return u, err
		}
		lost := missing(d.dialect.Fold(table))
		if there {
			lost, err = contents{d, table}.look(ctx, u)
		}
		if err == nil && lost != "" {
			err = codes.Errorf(codes.Storage, "%s", lost)
		}
		if err != nil || u.why != "" {
			return u, err
		}
	}
	for _, statement := range d.dialect.Create(d.dialect.Fold(table)) {
		if _, err := d.db.ExecContext(ctx, statement); err != nil {
			return u, err
		}
	}
	_, u, err = d.inspect(ctx, table)
	if err == nil && u.why == "" && !registered {
		err = d.register(ctx, table)
	}
	return u, err
}

// missing says that a table is not there which was.
func missing(name string) string {
	return "the table " + name + ", in which fields have been landed, is not in the landing database any more, so that it is not known what they are: rename it back, or restore it; or, if they shall be gone, start the server once with --landing-moved"
}

// legible fails with storage.Unusable if a table must not be read. One that was never there has no
// rows.
func (d *Database) legible(ctx context.Context, table string) (there bool, err error) {
	u, ok := d.checks.known(table)
	for tries := 0; !ok; tries++ {
		if ok, u, err = d.inspect(ctx, table); err != nil {
			return false, err
		}
		if ok {
			lost, err := contents{d, table}.look(ctx, u)
			switch {
			case err != nil:
				return false, err
			case lost != "":
				return false, d.unusable("%s", lost)
			case u.read:
				d.checks.note(table, u)
			}
			break
		}
		registered, err := d.registered(ctx, table)
		if err != nil || !registered {
			return false, err
		}
		if tries > 0 { // else it may have been made just now
			return false, d.unusable("%s", missing(d.dialect.Fold(table)))
		}
	}
	if !u.read && u.why != "" {
		return false, d.unusable("the table %s cannot be read: %s; rename it and import it from there, or alter it", d.dialect.Fold(table), u.why)
	}
	return true, nil
}

// unusable is a storage.Unusable with the name of the database, which peers are not told.
func (d *Database) unusable(format string, args ...any) error {
	return fmt.Errorf("%s: %w", d.Name(), player.Unusablef(format, args...))
}

// about is what the row of a table is about in what the database says of itself. Where case does
// not count, no two are the same.
func about(table string) string { return aboutTable + FoldCase(table) }

// registered reports whether a table was in use: it is missed if it is not there. That of proofs
// is not, as nothing stays in it. It fails if the database has not the name that it had.
func (d *Database) registered(ctx context.Context, table string) (bool, error) {
	name := d.connect.database()
	has, err := column(ctx, d.db, d.dialect.Bind("SELECT what FROM "+identityTable+" WHERE what = ? OR what = ? AND name = ?"), about(table), aboutDatabase, name)
	absent := err != nil && d.dialect.Fault(err) == Absent
	switch {
	case name != "" && (absent || err == nil && !slices.Contains(has, aboutDatabase)):
		return false, d.another(ctx)
	case absent:
		return false, nil
	}
	return table != Proof.Table() && slices.Contains(has, about(table)), err
}

// same fails if the database has not the name that it had: a connection goes on in one that was
// made again.
func (d *Database) same(ctx context.Context) error {
	if d.connect.database() == "" {
		return nil
	}
	_, err := d.registered(ctx, Proof.Table())
	return err
}

// another says what is wrong with a database that has not the name that it had.
func (d *Database) another(ctx context.Context) error {
	d.renew()
	conn, err := d.connect.dial(ctx)
	if err != nil {
		return err
	}
	_ = conn.raw.Close() // it was only to be judged
	return codes.Errorf(codes.Unreachable, "a connection to the database %s led to another one than those before; it is not used any more", d.Name())
}

// register has a table be missed from now on. Another one may do so at the same time.
func (d *Database) register(ctx context.Context, table string) error {
	if table == Proof.Table() {
		return nil
	}
	insert := func() error {
		_, err := d.db.ExecContext(ctx, d.dialect.Bind("INSERT INTO "+identityTable+" (what, name) VALUES (?, '')"), about(table))
		return err
	}
	err := insert()
	if err != nil && d.dialect.Fault(err) == Absent && d.connect.database() == "" {
		_, failed := d.db.ExecContext(ctx, createIdentity)
		if err = insert(); err != nil {
			err = errors.Join(failed, err)
		}
	}
	if there, failed := d.registered(ctx, table); failed != nil || there {
		return failed
	}
	return err
}
