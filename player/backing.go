package player

import (
	"context"
	"errors"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/player/field"
)

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
	// Admit has each connection to the database be judged before its first use, from now on.
	// With moved the database is taken as it is: it need not have the tables that it had.
	Admit(judge Judge, moved bool)
	// Fields returns the rows of those fields that there are.
	Fields(ctx context.Context, o field.Owner, names []string) ([]field.Row, error)
	// All returns all rows of an owner; codes.TooLarge if they take more than MaxOwner.
	All(ctx context.Context, o field.Owner) ([]field.Row, error)
	// Owners calls each with the query_all_key of owners, in the order of their bytes; each
	// must not keep it.
	Owners(ctx context.Context, q OwnerQuery, each func(key []byte)) error
	// Purge deletes rows that were removed, of those that it looks at: the next so many of a
	// table in the order of their owners.
	Purge(ctx context.Context, p Purge) (Purged, error)
	// Tables lists the names of the tables of fields. A table that was never there has no rows.
	// One that is missing or was emptied by others, or in which different fields are the same, fails
	// with Unusable.
	Tables(ctx context.Context) ([]string, error)
}

// outage is whether the database answers, as the log was told.
type outage struct {
	mu   sync.Mutex
	down bool      // guarded by mu: it was logged, and not its end
	told time.Time // guarded by mu: when it was logged last
}

// outagePause is the least time between two outages that are logged.
const outagePause = time.Minute

// errDown is what peers are told of a database that fails. What it or its driver says may name
// hosts, users and files.
var errDown = codes.Errorf(codes.Unreachable, "the landing database does not answer, and the server's log says why; what is in memory can still be read and written")

// asked is for each query that a caller waits for. It returns the error as peers may see it,
// and logs once what it is.
func (c *cold) asked(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errDown // no one waits any more, so it says nothing about the database
	}
	if errors.Is(err, codes.TooLarge) {
		return err // in words for peers
	}
	if u, ok := errors.AsType[*Unusable](err); ok {
		c.identity.say(u, err)
		return u // in words for peers, too
	}
	now, o := c.s.clock.Now(), &c.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil && o.down:
		o.down = false
		c.s.log.Info().Msg("the database answers again to those who ask for what has left memory")
	case err != nil && !o.down && (o.told.IsZero() || now.Sub(o.told) >= outagePause):
		o.down, o.told = true, now
		c.s.log.Warn().Err(err).Msg("the database does not answer: requests for what has left memory fail until it does")
	}
	if err == nil {
		return nil
	}
	return errDown
}
