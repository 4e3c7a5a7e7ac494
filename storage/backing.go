package storage

import "context"

// Backing is the database that fields are landed in, as far as it is read. Its methods wait,
// and may be called from any goroutine. Of rows that are there they tell the ones removed as
// well.
type Backing interface {
	// Fields returns the rows of those fields that there are.
	Fields(ctx context.Context, o Owner, names []string) ([]Row, error)
	// All returns all rows of an owner.
	All(ctx context.Context, o Owner) ([]Row, error)
	// Owners lists the query_all_key of owners that have a row that is not removed, in the
	// order of their bytes, after that one, at most limit. With logic it is only about owners
	// of that kind.
	Owners(ctx context.Context, app, region, logic, after string, limit int) ([]string, error)
	// Tables lists the names of the tables of fields. A table that does not exist has no rows.
	Tables(ctx context.Context) ([]string, error)
}
