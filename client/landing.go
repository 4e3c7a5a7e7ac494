package client

import (
	"context"
	"time"

	"confcenter/kv"
	"confcenter/player/field"
	"confcenter/protocol"
)

// Landing is how the server gets on with writing player storage to its database: for
// operators.
type Landing struct{ c *Client }

// Landing returns what operators need. Nothing is sent.
func (c *Client) Landing() *Landing { return &Landing{c} }

// What landing tells.
type (
	// LandingTable is how it stands with one dirty table.
	LandingTable = field.TableStatus
	// LandingError is a field that the database has refused.
	LandingError = field.ErrorRow
	// FieldName names one field of an owner.
	FieldName = field.Ref
)

// Status is how it stands with each dirty table.
func (l *Landing) Status(ctx context.Context) ([]LandingTable, error) {
	told, err := say[field.Tables](ctx, l.c, protocol.StStatus, &field.Nothing{})
	return told.Tables, during(err, "landing status")
}

// Errors lists at most limit (0: as many as one answer holds) fields that the database has
// refused, after that one (the zero value: from the beginning), and whether there are more.
func (l *Landing) Errors(ctx context.Context, after FieldName, limit int) (list []LandingError, more bool, err error) {
	page, err := say[field.ErrorPage](ctx, l.c, protocol.StErrors, &field.ErrorsAsk{After: after, Limit: limit})
	return page.Errors, page.More, during(err, "landing errors")
}

// Retry has refused fields tried again at once, and returns how many: all of them if none is
// named.
func (l *Landing) Retry(ctx context.Context, fields ...FieldName) (int64, error) {
	done, err := say[field.Count](ctx, l.c, protocol.StRetry, &field.RetryAsk{Refused: field.Refused{Rows: fields}})
	return done.Count, during(err, "landing retry")
}

// Reland has all that the server's memory has and that was written since then landed once more,
// although it was landed: for a database that has gone back in time. The zero time means all. It
// returns how many fields that are.
func (l *Landing) Reland(ctx context.Context, since time.Time) (int64, error) {
	var from int64
	if !since.IsZero() {
		from = max(0, since.UnixMilli())
	}
	done, err := say[field.Count](ctx, l.c, protocol.StRetry, &field.RetryAsk{Since: &from})
	return done.Count, during(err, "landing reland")
}

// Drop gives up landing these refused fields, all of them if none is named, and returns how
// many. They stay readable, and are landed again when they change. confirm is how many it gives
// up: those that are refused, and not given up yet. With another number nothing is given up,
// and the error, with codes.Unconfirmed, tells the right one; it is no error if there is none.
//
// It may be sent twice: the second time there is nothing more to do. Only if the first one has done a part is it
// refused then, as no one confirmed the rest.
func (l *Landing) Drop(ctx context.Context, confirm int64, fields ...FieldName) (int64, error) {
	done, err := say[field.Count](ctx, l.c, protocol.StDrop, &field.DropAsk{Refused: field.Refused{Rows: fields}, Confirm: confirm})
	return done.Count, during(err, "landing drop")
}

// Rescan says that others have filled the table of an app and a region in the database, with
// rows of at most that version (0: they have none). Once it returns, the server finds them.
func (l *Landing) Rescan(ctx context.Context, app, region string, version int64) error {
	return tell(ctx, l.c, protocol.StRescan, &field.RescanAsk{App: app, Region: region, Version: version})
}

// Lander is the server's side of landing, for a lander in a process of its own: it is a Source
// of package player/landing, which writes to databases.
type Lander struct{ c *Client }

// Lander returns what a lander needs. Nothing is sent.
func (c *Client) Lander() *Lander { return &Lander{c} }

// Connection identifies, by ==, the connection that requests go by; nil: there is none now.
// Another one may lead to a server that was started anew, with another database.
func (l *Lander) Connection() any {
	if sess, _ := l.c.state(); sess != nil {
		return sess
	}
	return nil
}

// Settings are those that landers go by.
func (l *Lander) Settings(ctx context.Context) (field.Settings, error) {
	set, err := say[field.Settings](ctx, l.c, protocol.LdSettings, &field.Nothing{})
	return set, during(err, "landing settings")
}

// Claim asks for a dirty table, or renews the claim of the same lander. It may be sent twice.
func (l *Lander) Claim(ctx context.Context, table int, who string) (field.Claim, error) {
	claimed, err := say[field.Claim](ctx, l.c, protocol.LdClaim, &field.ClaimAsk{Table: table, Who: who})
	return claimed, during(err, "claim of dirty table %d", table)
}

// Release gives a claim back.
func (l *Lander) Release(ctx context.Context, table int, fence kv.Revision) error {
	return tell(ctx, l.c, protocol.LdRelease, &field.ReleaseAsk{Table: table, Fence: fence})
}

// Dirty returns the next batch of a dirty table, about limit rows (0: the settings'), fewer if
// they are long; nil if there is nothing to land.
func (l *Lander) Dirty(ctx context.Context, table, limit int) (*field.Batch, error) {
	taken, err := say[field.Taken](ctx, l.c, protocol.LdTake, &field.TakeAsk{Table: table, Limit: limit})
	return taken.Batch, during(err, "batch of dirty table %d", table)
}

// Landed says what has become of a batch: its rows are in the database, except those that
// failed. Of the rows it sends those that the server asks for. If the connection breaks it is
// sent again: the second time it may fail with codes.Conflict, although the first has taken
// effect.
func (l *Lander) Landed(ctx context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error {
	done := &field.LandedAsk{Batch: *b, Fence: fence, Failed: failed}
	done.Rows, done.Count = nil, max(b.Count, len(b.Rows))
	refused := make(map[field.Failure]bool, len(failed))
	for _, f := range failed {
		refused[field.Failure{Table: f.Table, Key: f.Key}] = true
	}
	for _, row := range b.Rows {
		if row.Noted || len(refused) > 0 && refused[field.Failure{Table: row.Table(), Key: row.Key()}] {
			row.Value = nil
			done.Rows = append(done.Rows, row)
		}
	}
	return tell(ctx, l.c, protocol.LdLanded, done)
}

// Newer says that the database has a row with that version or a later one. The batch has to be
// taken again.
func (l *Lander) Newer(ctx context.Context, version int64) error {
	return tell(ctx, l.c, protocol.LdNewer, &field.NewerAsk{Version: version})
}
