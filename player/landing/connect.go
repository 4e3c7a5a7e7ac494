package landing

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"confcenter/codes"
	"confcenter/player"
)

// connector makes connections, each of which it looks at before it is used: it may lead to
// another database than the one before.
type connector struct {
	driver.Connector
	address *Address // set at open, as is dialect
	dialect Dialect

	opened atomic.Int64                 // connections of the pool
	judge  atomic.Pointer[player.Judge] // nil: any database will do
	moved  atomic.Bool                  // tables that the database should have are forgotten, once
	name   atomic.Pointer[string]       // of the database that the newest connection leads to; nil: none
}

// database is its name; "" if it has none.
func (c *connector) database() string {
	if name := c.name.Load(); name != nil {
		return *name
	}
	return ""
}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	c.opened.Add(1)
	return conn.raw, nil
}

// dial makes a connection that is not the pool's.
func (c *connector) dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTime) // the pool may have none
	defer cancel()
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	conn := &Conn{raw, c.dialect}
	if err = c.dialect.Learn(ctx, conn); err == nil {
		err = c.identify(ctx, conn)
	}
	if err != nil {
		_ = raw.Close() // whatever it says, it is not used
		return nil, err
	}
	return conn, nil
}

// identityTable has a row for each thing that a database says of itself. It is no name of a table of
// fields.
const identityTable = "confcenter__identity"

// What its rows are about.
const (
	aboutDatabase = "database"
	aboutStore    = "store"
	aboutTable    = "table/" // one for each table that was in use
)

const createIdentity = "CREATE TABLE IF NOT EXISTS " + identityTable + " (what VARCHAR(150) NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL)"

// identify has the database be judged, and says what it shall say of itself. Several may do so at
// the same time: the first one counts, and the others look again.
func (c *connector) identify(ctx context.Context, conn *Conn) error {
	judge := c.judge.Load()
	if judge == nil {
		is, _, err := c.identity(ctx, conn)
		c.name.Store(&is.Database)
		return err
	}
	var written error
	for range 3 {
		is, there, err := c.identity(ctx, conn)
		if err != nil {
			return err
		}
		want, err := (*judge)(ctx, is, func() ([]string, error) {
			names, err := conn.Query(ctx, c.dialect.Tables())
			return fieldTables(c.dialect, firsts(names)), err
		})
		if err != nil {
			written = fmt.Errorf("%s: %w", c.address.name, err)
			if again, _, failed := c.identity(ctx, conn); failed == nil && again != is {
				continue // another connection has just said what this one did not see
			}
			return written
		}
		if want == is && c.moved.Load() {
			if err := c.settle(ctx, conn, true); err != nil {
				return err
			}
			c.moved.Store(false)
		}
		if want == is {
			c.name.Store(&is.Database)
			return nil
		}
		written = c.say(ctx, conn, there, is, want)
	}
	return cmp.Or(written, error(codes.Errorf(codes.Busy, "others change what the database %s says of itself all the time", c.address.name)))
}

// identity reads what the database says of itself. It may have no table for that.
func (c *connector) identity(ctx context.Context, conn *Conn) (is player.Identity, there bool, err error) {
	rows, err := conn.Query(ctx, "SELECT what, name FROM "+identityTable+" WHERE what IN (?, ?)", aboutDatabase, aboutStore)
	if err != nil && c.dialect.Fault(err) == Absent {
		return is, false, nil
	}
	for _, row := range rows {
		switch row[0] {
		case aboutDatabase:
			is.Database = row[1]
		case aboutStore:
			is.Store = row[1]
		}
	}
	return is, true, err
}

// say changes what the database says of itself, as far as it still is what it was.
func (c *connector) say(ctx context.Context, conn *Conn, there bool, is, want player.Identity) error {
	if !there {
		if err := conn.Exec(ctx, createIdentity); err != nil {
			if _, made, failed := c.identity(ctx, conn); failed != nil || !made {
				return err
			}
		}
	}
	if is.Database == "" { // of a version that has not registered them, or others
		if err := c.settle(ctx, conn, false); err != nil {
			return err
		}
	}
	var errs []error
	for _, one := range [...]struct{ about, is, want string }{{aboutDatabase, is.Database, want.Database}, {aboutStore, is.Store, want.Store}} {
		switch one.is {
		case one.want:
		case "":
			errs = append(errs, conn.insert(ctx, one.about, one.want))
		default:
			errs = append(errs, conn.Exec(ctx, "UPDATE "+identityTable+" SET name = ? WHERE what = ? AND name = ?", one.want, one.about, one.is))
		}
	}
	return errors.Join(errs...)
}

// settle has the database say that it has the tables that it has, and with givenUp no others, nor that
// they have had anything.
func (c *connector) settle(ctx context.Context, conn *Conn, givenUp bool) error {
	names, err := conn.Query(ctx, c.dialect.Tables())
	if err != nil {
		return err
	}
	tables := map[string]bool{}
	for _, table := range fieldTables(c.dialect, firsts(names)) {
		tables[about(table)] = table != Proof.Table()
	}
	rows, err := conn.Query(ctx, "SELECT what, name FROM "+identityTable)
	if err != nil {
		return err
	}
	for _, row := range rows { // each by a statement of its own, so that those who do the same do not deadlock
		what, name := row[0], row[1]
		switch {
		case !givenUp || !strings.HasPrefix(what, aboutTable):
		case !tables[what]:
			err = conn.Exec(ctx, "DELETE FROM "+identityTable+" WHERE what = ?", what)
		case name != "":
			err = conn.Exec(ctx, "UPDATE "+identityTable+" SET name = '' WHERE what = ?", what)
		}
		if err != nil {
			return err
		}
		delete(tables, what)
	}
	for what, missed := range tables {
		if !missed {
			continue
		}
		if err := conn.insert(ctx, what, ""); err != nil {
			return err
		}
	}
	return nil
}

// Conn is a connection before its first use.
type Conn struct {
	raw     driver.Conn
	dialect Dialect
}

// insert has the database say one thing more. Another connection may have said it at the same time,
// with another name too: the caller reads them again.
func (c *Conn) insert(ctx context.Context, what, name string) error {
	err := c.Exec(ctx, "INSERT INTO "+identityTable+" (what, name) VALUES (?, ?)", what, name)
	if err == nil {
		return nil
	}
	if rows, failed := c.Query(ctx, "SELECT name FROM "+identityTable+" WHERE what = ?", what); failed == nil && len(rows) > 0 {
		return nil
	}
	return err
}

// Exec executes a statement, whose arguments are question marks in it.
func (c *Conn) Exec(ctx context.Context, statement string, args ...string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(ctx, c.dialect.Bind(statement), named(args))
	return err
}

// Query reads rows as texts.
func (c *Conn) Query(ctx context.Context, query string, args ...string) (list [][]string, err error) {
	rows, err := c.raw.(driver.QueryerContext).QueryContext(ctx, c.dialect.Bind(query), named(args))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		texts := make([]string, len(values))
		for i, value := range values {
			if text, ok := value.([]byte); ok {
				value = string(text)
			}
			texts[i] = fmt.Sprint(value)
		}
		list = append(list, texts)
	}
}

// Setting is what a session has, and must have.
type Setting struct{ Name, Value string }

// Has reads a row with the settings of a session, in that order, and fails with storage.Unusable
// if it has another one: what stands between may have taken no notice of what it was told.
func (c *Conn) Has(ctx context.Context, query string, settings []Setting) error {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return err
	}
	for i, s := range settings {
		if got := rows[0][i]; got != s.Value {
			return player.Unusablef("a session of the landing database has %s = %s, although it was told to have %s: look for a proxy that does not pass on what it is told", s.Name, got, s.Value)
		}
	}
	return nil
}

func named(args []string) (list []driver.NamedValue) {
	for i, arg := range args {
		list = append(list, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return list
}

func firsts(rows [][]string) []string {
	list := make([]string, len(rows))
	for i, row := range rows {
		list[i] = row[0]
	}
	return list
}
