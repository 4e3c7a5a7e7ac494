package landing

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/player"
	"confcenter/player/field"
)

// Database is a database that fields are landed in, and read from: a storage.Backing. Its
// methods may be called from any goroutine. Errors are of codes.Unreachable if the database
// cannot work now; none of them tells the password.
type Database struct {
	address *Address // set at open, as are the other parts
	db      *sql.DB
	connect *connector // of db
	dialect Dialect
	most    int64         // MaxOwner of Parts
	large   chan struct{} // has one while someone loads much

	checks checks // of tables

	mu     sync.Mutex
	moment moment // guarded by mu
}

// Limits of a Database.
const (
	MaxConnections = 16               // open at a time
	queryTime      = time.Minute      // for a query or statement
	loadTime       = 15 * time.Second // for a query that a player waits for
	idleTime       = 5 * time.Minute  // of a connection, before it is closed
	lifeTime       = 5 * time.Minute  // of a connection, so that other servers behind an address, and another database, are found
	perQuery       = 500              // names in one query
	perLoad        = 1 << 20          // bytes of a load, beyond which one goes on at a time
	momentTime     = time.Minute      // before the database is asked for its time again
)

// moment is what the database's clock said at a time, which has not gone on since as far as
// the process's own steady clock tells.
type moment struct {
	at    time.Time // just after it; zero: not known
	there int64     // in µs since 1970
}

// Parts are what a Database is made of.
type Parts struct {
	Address *Address
	DB      *sql.DB
	Dialect Dialect
	connect *connector // of DB

	MaxOwner int64         // bytes of an owner, beyond which it is not loaded as a whole; 0: storage.MaxOwner
	Large    chan struct{} // takes one while someone loads much; nil: one of the Database's own
}

// PartsOf reads the DSN, see the package's comment, for a Database that is to be made otherwise
// than by OpenDatabase: tests look at its parts, and change them.
func PartsOf(dsn string) (Parts, error) {
	a, err := parseDSN(dsn)
	if err != nil {
		return Parts{}, err
	}
	open := dialects[a.Kind]
	if open == nil {
		return Parts{}, BadDSN("it begins with " + a.Kind + ":, and this program was built without " + products[a.Kind] + " (make build has it)")
	}
	inner, d, err := open(a)
	if err != nil {
		return Parts{}, err
	}
	c := &connector{Connector: inner, address: a, dialect: d}
	return Parts{Address: a, DB: sql.OpenDB(c), Dialect: d, connect: c}, nil
}

// OpenDatabase reads the DSN, see the package's comment. It does not connect: a database that
// is down is found to be so when it is used.
func OpenDatabase(dsn string) (*Database, error) {
	p, err := PartsOf(dsn)
	if err != nil {
		return nil, err
	}
	return NewDatabase(p), nil
}

// NewDatabase puts a Database together. Its Close closes DB.
func NewDatabase(p Parts) *Database {
	p.DB.SetMaxOpenConns(MaxConnections)
	p.DB.SetMaxIdleConns(MaxConnections / 4)
	p.DB.SetConnMaxIdleTime(idleTime)
	p.DB.SetConnMaxLifetime(lifeTime)
	if p.Large == nil {
		p.Large = make(chan struct{}, 1)
	}
	return &Database{address: p.Address, db: p.DB, connect: p.connect, dialect: p.Dialect, most: cmp.Or(p.MaxOwner, player.MaxOwner), large: p.Large}
}

// Name is the DSN without password and parameters.
func (d *Database) Name() string { return d.address.name }

// Close closes the connections.
func (d *Database) Close() error { return d.db.Close() }

// failure is err as others may see it.
func (d *Database) failure(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, new(*codes.Error)) {
		return err
	}
	if d.dialect.Fault(err) == Broken {
		d.renew()
	}
	return &codes.Error{Code: codes.Unreachable, Text: "the database " + d.Name() + " does not answer: " + d.address.Hide(err.Error())}
}

// Admit implements storage.Backing.
func (d *Database) Admit(judge player.Judge, moved bool) {
	d.connect.moved.Store(moved)
	d.connect.judge.Store(&judge)
	d.renew() // those that there are were not judged
}

// learn has the dialect know the server, by a connection if there was none yet.
func (d *Database) learn(ctx context.Context) error {
	if d.connect.opened.Load() > 0 {
		return nil
	}
	return d.db.PingContext(ctx)
}

// until is the end of ctx in the database's clock, in µs since 1970. A process that is stopped
// and goes on may send a statement long after it was to be given up: the database knows.
func (d *Database) until(ctx context.Context) (int64, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64, nil
	}
	d.mu.Lock()
	m := d.moment
	d.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) > momentTime {
		if err := d.db.QueryRowContext(ctx, "SELECT "+d.dialect.Now()).Scan(&m.there); err != nil {
			return 0, err
		}
		m.at = time.Now()
		d.setMoment(m)
	}
	return m.there + deadline.Sub(m.at).Microseconds(), nil
}

func (d *Database) setMoment(m moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.moment = m
}

// Fields implements storage.Backing.
func (d *Database) Fields(ctx context.Context, o field.Owner, names []string) (rows []field.Row, err error) {
	for some := range slices.Chunk(names, perQuery) {
		keys := make([]any, len(some))
		for i, name := range some {
			keys[i] = field.Ref{Owner: o, Name: name}.Key()
		}
		found, err := d.load(ctx, o, "primary_key IN (?"+strings.Repeat(",?", len(keys)-1)+")", keys)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// All implements storage.Backing.
func (d *Database) All(ctx context.Context, o field.Owner) ([]field.Row, error) {
	return d.load(ctx, o, "query_all_key = ?", []any{o.Key()})
}

func (d *Database) load(ctx context.Context, o field.Owner, where string, args []any) (list []field.Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	err = d.query(ctx, o.Table(), func(ctx context.Context, table string) (found bool, err error) {
		rows, err := d.db.QueryContext(ctx, d.dialect.Bind("SELECT "+quoteAll(d.dialect, columns)+" FROM "+table+" WHERE "+where), args...)
		if err != nil {
			return false, err
		}
		defer rows.Close()
		list, err = d.collect(ctx, rows, o)
		return len(list) > 0, err
	})
	return list, err
}

// collect reads the rows of an owner. Only one who has much waits in memory at a time.
func (d *Database) collect(ctx context.Context, rows *sql.Rows, o field.Owner) (list []field.Row, err error) {
	size := int64(0)
	for rows.Next() {
		r := field.Row{Owner: o}
		primary, err := scan(rows, &r)
		if err != nil {
			return nil, err
		}
		before := size
		switch size += int64(len(primary) + len(r.Value)); {
		case size > d.most:
			return nil, codes.Errorf(codes.TooLarge, "owner %q has more than %d bytes in the database, which is the most that is loaded at a time; ask for some of its fields only", o.Key(), d.most)
		case before <= perLoad && size > perLoad:
			select {
			case d.large <- struct{}{}:
				defer func() { <-d.large }()
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// query has a function read a table, whose name it gets quoted, and say whether it has found
// anything: if not, the table may have been emptied. A table that was never there has
// no rows; storage.Unusable says that it was, or mixes rows up. What was read of another database
// than the one before, which the connection goes on in, does not count.
func (d *Database) query(ctx context.Context, table string, read func(ctx context.Context, table string) (found bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	if err := d.learn(ctx); err != nil {
		return d.failure(err)
	}
	once := func() (there bool, err error) {
		if there, err = d.legible(ctx, table); err != nil || !there {
			return there, err
		}
		c := contents{d, table}
		found, err := read(ctx, c.name())
		if err != nil || found {
			return true, err
		}
		return true, c.check(ctx)
	}
	there, err := once()
	if err != nil && d.dialect.Fault(err) == Absent { // since it was looked at
		d.checks.forget(table)
		there, err = once()
	}
	if err == nil && there {
		err = d.same(ctx)
	}
	return d.failure(err)
}

// scan reads a row with all columns, and returns its primary key. Columns that rows of others
// may lack are 0.
func scan(rows *sql.Rows, r *field.Row) (primary string, err error) {
	var version, removed, removedAt, created, updated sql.NullInt64
	var owner string
	err = rows.Scan(&primary, &r.Owner.Logic, &r.Owner.ID, &r.Name, &r.Value, &version, &removed, &removedAt, &owner, &created, &updated)
	r.Version, r.Removed, r.RemovedAt, r.Created, r.Updated = version.Int64, removed.Int64 != 0, removedAt.Int64, created.Int64, updated.Int64
	return primary, err
}

// Owners implements storage.Backing.
func (d *Database) Owners(ctx context.Context, q player.OwnerQuery, each func(key []byte)) error {
	where, args := d.dialect.Ordered("query_all_key")+" > ?", []any{q.After}
	if !q.Removed {
		where += " AND COALESCE(is_del, 0) = 0"
	}
	if q.Logic != "" {
		where, args = where+" AND logic_type = ?", append(args, q.Logic)
	}
	by := d.dialect.Ordered("query_all_key")
	return d.query(ctx, field.Owner{App: q.App, Region: q.Region}.Table(), func(ctx context.Context, table string) (found bool, err error) {
		err = eachOf(ctx, d.db, func(key []byte) {
			found = true
			each(key)
		}, d.dialect.Bind("SELECT DISTINCT "+by+" FROM "+table+" WHERE "+where+" ORDER BY "+by+" LIMIT ?"), append(args, q.Limit)...)
		return found, err
	})
}

// Tables implements storage.Backing: also those that are missing.
func (d *Database) Tables(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	if err := d.learn(ctx); err != nil {
		return nil, d.failure(err)
	}
	names, err := column(ctx, d.db, d.dialect.Tables())
	if err != nil {
		return nil, d.failure(err)
	}
	missed, err := column(ctx, d.db, "SELECT what FROM "+identityTable)
	if err != nil && d.dialect.Fault(err) != Absent {
		return nil, d.failure(err)
	}
	tables := fieldTables(d.dialect, names)
	for _, what := range missed {
		if folded, ok := strings.CutPrefix(what, aboutTable); ok {
			tables = append(tables, UnfoldCase(folded))
		}
	}
	slices.Sort(tables)
	return slices.Compact(tables), nil
}

// fieldTables are those of the tables of a database whose names are those of tables of fields.
func fieldTables(d Dialect, names []string) (tables []string) {
	for _, name := range names {
		table := d.Unfold(name)
		if _, _, ok := field.ParseTable(table); ok {
			tables = append(tables, table)
		}
	}
	return tables
}

// Written is what came of Write.
type Written struct {
	Rows   int // that the database took, or had in a later version
	Failed []field.Failure
	// Newer is the greatest of the later versions that the database has of rows; 0: there is
	// none.
	Newer      int64
	Statements int
	// Unfit is why a table cannot be landed in, whose rows are all Failed; nil: there is none.
	Unfit error
	// After an error: the database answers, so it has trouble with these
	// rows or their table only; and the connection broke while it was given rows.
	Answers, Broke bool

	isolate bool // rows that break the connection are looked for
}

// Write writes rows, many in one statement, and makes their tables. No row is written when the
// deadline of ctx is over by the database's clock, even if this process was stopped meanwhile. A row whose version is below
// the database's changes nothing. Rows that the database refuses for themselves are Failed, all
// others are written. An error means that the database cannot work now: some rows may be written.
func (d *Database) Write(ctx context.Context, rows []field.DirtyRow) (Written, error) {
	return d.write(ctx, rows, Written{})
}

// Isolate is Write for rows that have broken the connection again and again while the database
// answered, as a limit of a proxy's makes them. Rows that break it alone as well are Failed.
func (d *Database) Isolate(ctx context.Context, rows []field.DirtyRow) (Written, error) {
	return d.write(ctx, rows, Written{isolate: true})
}

func (d *Database) write(ctx context.Context, rows []field.DirtyRow, w Written) (Written, error) {
	byTable := map[string][]field.DirtyRow{}
	for i := range rows {
		table := rows[i].Table()
		byTable[table] = append(byTable[table], rows[i])
	}
	for table, rows := range byTable {
		if err := d.writeTable(ctx, table, rows, &w); err != nil {
			w.Answers = d.answers(ctx, w.Broke)
			return w, err
		}
	}
	return w, nil
}

func (d *Database) writeTable(ctx context.Context, table string, rows []field.DirtyRow, w *Written) error {
	until, err := d.until(ctx)
	if err != nil {
		return d.failure(err)
	}
	limited, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	switch err := d.ready(limited, table, false); {
	case errors.Is(err, codes.Storage):
		w.failAll(rows, err)
		return nil
	case err != nil:
		return err
	}
	// In the order of the key the database finds its pages faster, and two landers cannot
	// wait for each other.
	slices.SortFunc(rows, func(a, b field.DirtyRow) int { return cmp.Compare(a.Key(), b.Key()) })
	most, bytes := d.dialect.Most()
	g := Guard{until, d.connect.database()}
	for len(rows) > 0 {
		n := fits(rows, most, bytes)
		if err := d.statement(ctx, table, rows[:n], g, w); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// fits is how many rows one statement may have, at least one.
func fits(rows []field.DirtyRow, most, bytes int) int {
	for i := range rows {
		bytes -= len(rows[i].Value)
		if i == most || bytes < 0 && i > 0 {
			return i
		}
	}
	return len(rows)
}

// statement writes rows with one statement or, if that is refused, halves them until those that
// the database refuses are alone.
func (d *Database) statement(ctx context.Context, table string, rows []field.DirtyRow, g Guard, w *Written) error {
	err := d.upsert(ctx, table, rows, g, w)
	alone := w.isolate && len(rows) == 1
	for n := 1; n < MaxBreaks && alone && d.broke(err) && d.answers(ctx, true); n++ {
		err = d.upsert(ctx, table, rows, g, w)
	}
	switch {
	case err == nil:
		w.Rows += len(rows)
		return nil
	case errors.Is(err, codes.Storage): // the table was dropped or emptied meanwhile
		w.failAll(rows, err)
		return nil
	case d.dialect.Fault(err) == Late:
		d.setMoment(moment{}) // perhaps its clock was set
		if err := d.same(ctx); err != nil {
			return d.failure(err)
		}
		return codes.Errorf(codes.Unreachable, "a statement reached the database %s after its time, so that it wrote nothing; the rows are taken again", d.Name())
	case w.isolate && d.broke(err) && d.answers(ctx, true):
		if alone && w.Rows == 0 && len(w.Failed) == maxBlamed {
			w.Broke = true
			return d.failure(err)
		}
		if alone {
			w.fail(&rows[0], "the connection to the database breaks when this row is written, and the database answers otherwise: look for limits of a proxy's, and into the database's log")
			return nil
		}
	case ctx.Err() != nil || d.dialect.Fault(err) != Refused:
		w.Broke = d.broke(err)
		return d.failure(err)
	case len(rows) == 1:
		w.fail(&rows[0], d.address.Hide(err.Error()))
		return nil
	}
	if err := d.statement(ctx, table, rows[:len(rows)/2], g, w); err != nil {
		return err
	}
	return d.statement(ctx, table, rows[len(rows)/2:], g, w)
}

// Rows are to blame for a connection that breaks once they have broken it so often, and only so
// many of them if no other was written: else no writes get through, and it is not about rows.
const (
	MaxBreaks = 3
	maxBlamed = 10
)

// broke reports whether an error of a statement says that the connection broke. One that took
// too long does not: that is not about its rows.
func (d *Database) broke(err error) bool {
	return err != nil && d.dialect.Fault(err) == Broken && !errors.As(err, new(*codes.Error)) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// renew has those who come next make new connections, each of which is looked at: what has failed
// may be the sign of another database, as that of one that was made again is.
func (d *Database) renew() {
	d.db.SetMaxIdleConns(0) // closes them
	d.db.SetMaxIdleConns(MaxConnections / 4)
}

// answers reports whether the database answers: on a new connection if one has broken, as
// others may have broken with it.
func (d *Database) answers(ctx context.Context, broke bool) bool {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	if broke {
		d.renew()
	}
	var one int
	return d.db.QueryRowContext(ctx, "SELECT 1").Scan(&one) == nil
}

func (d *Database) upsert(ctx context.Context, table string, rows []field.DirtyRow, g Guard, w *Written) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	name := d.dialect.Fold(table)
	w.Statements++
	write := func() (kept bool, err error) { return d.dialect.Upsert(ctx, d.db, name, rows, g) }
	kept, err := contents{d, table}.upsert(ctx, write)
	if err != nil && d.dialect.Fault(err) == Absent { // someone has dropped it
		d.checks.forget(table)
		if err := d.ready(ctx, table, false); err != nil {
			return err
		}
		kept, err = contents{d, table}.upsert(ctx, write)
	}
	if err != nil || !kept {
		return err
	}
	for some := range slices.Chunk(rows, perQuery) {
		if err := d.later(ctx, name, some, w); err != nil {
			return err
		}
	}
	return nil
}

// later looks which of some rows the database has in a later version. Those whose version leaves no
// room for another one are failed: no other row has to wait for that.
func (d *Database) later(ctx context.Context, name string, rows []field.DirtyRow, w *Written) error {
	args, byKey := make([]any, 0, 2*len(rows)), make(map[string]*field.DirtyRow, len(rows))
	for i := range rows {
		args, byKey[rows[i].Key()] = append(args, rows[i].Key(), rows[i].Version), &rows[i]
	}
	const later = "primary_key = ? AND up_version > ?"
	found, err := d.db.QueryContext(ctx, d.dialect.Bind("SELECT primary_key, up_version FROM "+d.dialect.Quote(name)+" WHERE "+later+strings.Repeat(" OR "+later, len(rows)-1)), args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var key string
		var version int64
		if err := found.Scan(&key, &version); err != nil {
			return err
		}
		if version < maxVersion {
			w.Newer = max(w.Newer, version)
		} else if r := byKey[key]; r != nil {
			w.Rows-- // which will be counted as taken
			w.fail(r, fmt.Sprintf("the database has it in version %d, and the limit is %d: correct up_version there", version, int64(maxVersion)))
		}
	}
	return found.Err()
}

// failAll is for the rows of a table that cannot be landed in.
func (w *Written) failAll(rows []field.DirtyRow, why error) {
	w.Unfit = why
	for i := range rows {
		w.fail(&rows[i], why.Error())
	}
}

func (w *Written) fail(r *field.DirtyRow, why string) {
	w.Failed = append(w.Failed, field.Failure{Table: r.Table(), Key: r.Key(), Reason: why})
}
