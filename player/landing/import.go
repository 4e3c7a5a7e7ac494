package landing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/player/field"
)

// Import takes over a table of others that has the columns of homo's landers: it copies the
// rows into the database that a server lands in, or checks them if they are there already.
//
// A copied row has up_version 0, whatever the other table says. So it is older than anything
// that a server has landed or will land, and replaces only what was imported before; it may be
// copied twice, and while the server is running.
//
// What has been copied is noted in the target, in the table confcenter__import, after the rows
// of each page: an import that was killed copies at most its last page again. One that ran to
// its end begins anew, which brings over what has changed since.
type Import struct {
	From, To    *Database
	Table       string // of From
	App, Region string // whose rows they are
	Restart     bool   // begin anew even if an import was interrupted

	// Told is told of the progress after each page, and may end the import.
	Told func(*Imported) error
	// Listed is told of each row that is refused, whose key was converted, or that looks odd, and
	// why.
	Listed func(key, why string, refused bool)
}

// Imported is how far an Import has got. Its numbers go on after an interruption.
type Imported struct {
	Target string // the table in the target
	Same   bool   // it is the table itself: its rows are only checked
	Total  int64  // rows of the source: at the beginning of this run, and from the end on at its end
	Before int64  // those that an interrupted run had read

	Read      int64 // rows read
	There     int64 // of them in the target, as they were or newer
	Converted int64 // of them under a key with escapes
	Refused   int64 // rows that the target cannot have
	Odd       int64 // rows read in this run that are taken over as they are, though they look wrong
	Missing   int64 // rows that were written but are not in the target
	Newest    int64 // the greatest up_version of the source
}

// importing is a running Import.
type importing struct {
	*Import
	at     position
	now    Imported
	where  string // of a page but the first
	fields string // to select
}

// Run imports. An error of codes.Unreachable, or that of an ended context, interrupts it: run
// it again. What came of an import that ran to its end is for Verdict to say.
func (m *Import) Run(ctx context.Context) (*Imported, error) {
	run := &importing{Import: m, now: Imported{Target: field.Owner{App: m.App, Region: m.Region}.Table()}}
	if err := run.prepare(ctx); err != nil {
		return nil, err
	}
	var err error
	if run.now.Total, err = m.From.count(ctx, m.Table); err != nil {
		return nil, err
	}
	if err := run.pages(ctx); err != nil {
		return nil, err
	}
	if run.now.Total, err = m.From.count(ctx, m.Table); err != nil {
		return nil, err
	}
	if !run.now.Same {
		has, err := m.To.count(ctx, m.To.dialect.Fold(run.now.Target))
		if err != nil {
			return nil, err
		}
		run.now.Missing = max(run.now.Missing, run.now.There-has)
		if err := run.finish(ctx); err != nil {
			return nil, err
		}
	}
	return &run.now, nil
}

// prepare sees to it that both tables can be worked with, and finds where to begin.
func (m *importing) prepare(ctx context.Context) error {
	if err := (field.Owner{App: m.App, Region: m.Region, Logic: "l", ID: "o"}).Check(); err != nil {
		return err
	}
	for _, d := range []*Database{m.From, m.To} {
		if err := d.learn(ctx); err != nil {
			return d.failure(err)
		}
	}
	if err := m.look(ctx); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	shared, err := m.shared(ctx)
	if err != nil {
		return err
	}
	m.now.Same = shared && m.Table == m.To.dialect.Fold(m.now.Target)
	if err := m.To.ready(ctx, m.now.Target, true); err != nil && m.now.Same {
		return fmt.Errorf("%w (by RENAME TABLE for example), and import it from there with --app and --region", err)
	} else if err != nil {
		return err
	}
	if m.now.Same {
		m.at = position{}
		return errors.Join(m.finish(ctx), m.To.indexed(ctx, m.Table))
	}
	m.at.restore(&m.now)
	return m.To.failure(contents{m.To, m.now.Target}.giveUp(ctx))
}

// look finds the columns. A table of others may lack those that the document does not name.
func (m *importing) look(ctx context.Context) error {
	d := m.From
	has, err := column(ctx, d.db, d.dialect.Bind(d.dialect.Columns()), m.Table)
	if err != nil {
		return d.failure(err)
	}
	if len(has) == 0 {
		return codes.Errorf(codes.NotFound, "there is no table %s in %s", m.Table, d.Name())
	}
	there := map[string]bool{}
	for _, name := range has {
		there[strings.ToLower(name)] = true
	}
	var fields []string
	for _, name := range columns {
		quoted := d.dialect.Quote(name)
		switch {
		case name == "value" && there[name]: // and its length, so that no large one is read
			fields = append(fields, fmt.Sprintf("CASE WHEN LENGTH(%s) <= %d THEN %[1]s END", quoted, maxValue), "LENGTH("+quoted+")")
		case there[name]:
			fields = append(fields, quoted)
		case name == "up_version", name == "is_del", name == "del_time", name == "query_all_key", name == "create_time", name == "update_time":
			fields = append(fields, "NULL")
		default:
			return codes.Errorf(codes.BadRequest, "the table %s in %s has no column %s, so that it is none of fields", m.Table, d.Name(), name)
		}
	}
	m.fields = strings.Join(fields, ", ")
	return nil
}

// pages reads and writes page by page, and reads the next one while one is written.
func (m *importing) pages(ctx context.Context) error {
	type fetched struct {
		page *page
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	next := make(chan fetched, 1)
	fetch := func(after string, first bool, rows int) {
		p, err := m.read(ctx, after, first, rows)
		next <- fetched{p, err}
	}
	go fetch(m.at.after, m.at.Read == 0, pageRows)
	for {
		got := <-next
		if got.err != nil {
			cancel()
			return got.err
		}
		if len(got.page.rows) == 0 {
			cancel()
			return nil
		}
		go fetch(got.page.last(), false, got.page.next)
		if err := m.take(ctx, got.page); err != nil {
			cancel()
			<-next
			return err
		}
	}
}

// take takes a page over.
func (m *importing) take(ctx context.Context, p *page) error {
	rows, err := m.judge(ctx, p)
	if err != nil {
		return err
	}
	if m.now.Same {
		m.now.There += int64(len(rows))
	} else if err := m.write(ctx, rows); err != nil {
		return err
	}
	m.now.Read += int64(len(p.rows))
	if !m.now.Same {
		if err := m.advance(ctx, p.last()); err != nil {
			return err
		}
	}
	return m.Told(&m.now)
}

func (m *importing) refuse(key, why string) {
	m.now.Refused++
	m.Listed(key, why, true)
}

// write writes rows, and looks whether they are there.
func (m *importing) write(ctx context.Context, rows []field.DirtyRow) error {
	w, err := m.To.Write(ctx, rows)
	if err != nil {
		return err
	}
	failed := map[string]bool{}
	for _, f := range w.Failed {
		failed[f.Key] = true
		m.refuse(f.Key, f.Reason)
	}
	var keys []string
	for i := range rows {
		if key := rows[i].Key(); !failed[key] {
			keys = append(keys, key)
		}
	}
	there, err := m.To.present(ctx, m.To.dialect.Fold(m.now.Target), keys)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if there[key] {
			m.now.There++
			continue
		}
		m.now.Missing++
		m.Listed(key, "it was written, but the database has not got it", true)
	}
	return nil
}

// Verdict is nil if all rows of the source are in the target.
func (m *Imported) Verdict() error {
	const again = "; import again, which starts over"
	switch {
	case m.Missing > 0:
		return codes.Errorf(codes.Conflict, "%d of the %d rows that were written are not in table %s any more: find out what deletes them (a trigger, or someone who works on the table)%s", m.Missing, m.There+m.Missing, m.Target, again)
	case m.Read != m.Total:
		return codes.Errorf(codes.Conflict, "%d rows were read, but the table has %d now: something writes to it; stop the landers that do%s", m.Read, m.Total, again)
	case m.Refused > 0 && m.Same:
		return codes.Errorf(codes.Conflict, "%d of %d rows cannot be found where they are, see above: rename the table, and import it from there with --app and --region", m.Refused, m.Total)
	case m.Refused > 0:
		return codes.Errorf(codes.Conflict, "%d of %d rows were refused, see above; all others are there: correct those in the source%s", m.Refused, m.Total, again)
	}
	return nil
}

// Left is how long the rest takes if it goes on as in that time since it began.
func (m *Imported) Left(since time.Duration) time.Duration {
	if m.Read <= m.Before || m.Total <= m.Read {
		return 0
	}
	return time.Duration(float64(m.Total-m.Read) / float64(m.Read-m.Before) * float64(since)).Round(time.Second)
}
