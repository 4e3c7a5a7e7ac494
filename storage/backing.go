package storage

import "context"

// OwnerQuery says which owners to list.
type OwnerQuery struct {
	App, Region string
	Logic       string // only owners of that kind; "": of all
	After       string // those after this query_all_key
	Limit       int    // at most so many
	Removed     bool   // also those all of whose rows are removed
}

// Purge says which rows to look at, and which of them to delete.
type Purge struct {
	App, Region string
	After       string // the query_all_key to go on after; "": from the beginning
	Removed     int64  // rows are deleted that were removed until then, in ms since 1970,
	Below       int64  // and have a version below that one
	Limit       int    // about how many rows to look at
}

// Purged is what came of a Purge.
type Purged struct {
	Rows int    // that were deleted, also if there was an error
	Next string // go on after it
	More bool   // there are rows that were not looked at
}

// MaxOwner is how much an owner may have in the database, in bytes, to be loaded as a whole.
const MaxOwner = 64 << 20

// Backing is the database that fields are landed in, as far as it is read. Its methods wait,
// and may be called from any goroutine. Of rows that are there they tell the ones removed as
// well.
type Backing interface {
	// Fields returns the rows of those fields that there are.
	Fields(ctx context.Context, o Owner, names []string) ([]Row, error)
	// All returns all rows of an owner; codes.TooLarge if they take more than MaxOwner.
	All(ctx context.Context, o Owner) ([]Row, error)
	// Owners lists the query_all_key of owners, in the order of their bytes.
	Owners(ctx context.Context, q OwnerQuery) ([]string, error)
	// Purge deletes rows that were removed, of those that it looks at: the next so many of a
	// table in the order of their owners.
	Purge(ctx context.Context, p Purge) (Purged, error)
	// Tables lists the names of the tables of fields. A table that does not exist has no rows.
	Tables(ctx context.Context) ([]string, error)
}
