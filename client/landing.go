package client

import (
	"context"
	"time"

	"confcenter/protocol"
	"confcenter/storage/field"
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
