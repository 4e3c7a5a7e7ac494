// Package landops is what operators and landers in processes of their own ask of landing: two tables of
// operations, whose ids are in the family of player storage. Questions and answers are messages by their tags
// kv, see package kvjson. HTTP has routes of its own for what operators ask.
package landops

import (
	"context"

	"confcenter/access"
	"confcenter/kv"
	"confcenter/op"
	"confcenter/player/field"
)

// Store is what they need of a *storage.Storage.
type Store interface {
	// what operators need
	Status() []field.TableStatus
	Errors(after field.Ref, limit int) (list []field.ErrorRow, more bool)
	Retry(ctx context.Context, fields []field.Ref) (int, error)
	Reland(ctx context.Context, since int64) (int, error)
	Drop(ctx context.Context, fields []field.Ref, confirm int64) (int, error)
	// what landers in processes of their own need
	Settings() field.Settings
	Claim(ctx context.Context, table int, who string) (field.Claim, error)
	Release(ctx context.Context, table int, fence kv.Revision) error
	Dirty(ctx context.Context, table, limit int) (*field.Batch, error)
	Landed(ctx context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error
	Newer(ctx context.Context, version int64) error
	// what those who fill a table need
	Rescan(ctx context.Context, table string) error
}

// Landing is asked.
type Landing struct {
	Store Store // set at open
	Most  int   // bytes of names and values that one batch may have
}

// Models are the tables, of which landing is asked.
func Models(landing *Landing) []op.Model {
	return []op.Model{{Name: "landing", Operations: operators, Asked: landing}, {Name: "lander", Operations: landers, Asked: landing}}
}

var operators = []op.Operation{
	op.Define("status", access.LandingRead, "", "tells how it stands with each dirty table", (*Landing).status).InMemory(),
	op.Define("errors", access.LandingRead, "", "lists fields that the database has refused", (*Landing).errors).InMemory(),
	op.Define("retry", access.LandingWrite, "", "has refused fields landed again, or landed ones once more", (*Landing).retry),
	op.Define("drop", access.LandingWrite, "", "gives refused fields up", (*Landing).drop),
	op.Define("rescan", access.LandingWrite, "", "hears that others have filled a table", (*Landing).rescan),
}

var landers = []op.Operation{
	op.Define("settings", access.LandingLand, "", "tells what landers go by", (*Landing).settings).InMemory(),
	op.Define("claim", access.LandingLand, "", "gives a lander a dirty table, or says who has it", (*Landing).claim),
	op.Define("take", access.LandingLand, "", "gives a lander its next batch", (*Landing).take),
	op.Define("landed", access.LandingLand, "", "hears what has become of a batch", (*Landing).landed),
	op.Define("newer", access.LandingLand, "", "hears of a version in the database", (*Landing).newer),
	op.Define("release", access.LandingLand, "", "takes a dirty table back", (*Landing).release),
}

func (l *Landing) status(context.Context, *access.Actor, *field.Nothing) (*field.Tables, error) {
	return &field.Tables{Tables: l.Store.Status()}, nil
}

func (l *Landing) errors(_ context.Context, _ *access.Actor, q *field.ErrorsAsk) (*field.ErrorPage, error) {
	if q.Limit == 0 || q.Limit > field.MaxErrors {
		q.Limit = field.MaxErrors
	}
	list, more := l.Store.Errors(q.After, q.Limit)
	return &field.ErrorPage{Errors: list, More: more}, nil
}

func (l *Landing) retry(ctx context.Context, _ *access.Actor, q *field.RetryAsk) (*field.Count, error) {
	if q.Since != nil {
		return count(l.Store.Reland(ctx, *q.Since))
	}
	return count(l.Store.Retry(ctx, q.Rows))
}

func (l *Landing) drop(ctx context.Context, _ *access.Actor, q *field.DropAsk) (*field.Count, error) {
	return count(l.Store.Drop(ctx, q.Rows, q.Confirm))
}

func count(n int, err error) (*field.Count, error) { return &field.Count{Count: int64(n)}, err }

func (l *Landing) rescan(ctx context.Context, _ *access.Actor, q *field.RescanAsk) (*field.Done, error) {
	owner := field.Owner{App: q.App, Region: q.Region, Logic: "l", ID: "o"}
	err := owner.Check()
	if err == nil {
		err = l.Store.Rescan(ctx, owner.Table())
	}
	if err == nil && q.Version != 0 {
		err = l.Store.Newer(ctx, q.Version)
	}
	return done(err)
}

func done(err error) (*field.Done, error) { return &field.Done{Desc: "success"}, err }

func (l *Landing) settings(context.Context, *access.Actor, *field.Nothing) (*field.Settings, error) {
	set := l.Store.Settings()
	return &set, nil
}

// claimed is what a connection holds when its lander has that table.
type claimed int

// claim has what it gives end with the connection, so that a lander that was killed is not waited for.
func (l *Landing) claim(ctx context.Context, _ *access.Actor, q *field.ClaimAsk) (*field.Claim, error) {
	c, err := l.Store.Claim(ctx, q.Table, q.Who)
	switch {
	case err != nil:
	case c.Fence == 0:
		op.OnEnd(ctx, claimed(q.Table), nil)
	default:
		op.OnEnd(ctx, claimed(q.Table), func() { _ = l.Store.Release(impatient, q.Table, c.Fence) })
	}
	return &c, err
}

// impatient is the context of who waits for nothing: a claim that is not given back ends with its time.
var impatient = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// take gives fewer rows than a lander asks for if they are long, as one answer has a limit of bytes.
func (l *Landing) take(ctx context.Context, _ *access.Actor, q *field.TakeAsk) (*field.Taken, error) {
	limit := q.Limit
	if limit == 0 {
		limit = l.Store.Settings().Batch
	}
	b, err := l.Store.Dirty(ctx, q.Table, limit)
	for err == nil && b != nil && limit > 1 && sizeOf(b.Rows) > l.Most {
		limit /= 2
		b, err = l.Store.Dirty(ctx, q.Table, limit)
	}
	return &field.Taken{Batch: b}, err
}

func sizeOf(rows []field.DirtyRow) (n int) {
	for i := range rows {
		n += len(rows[i].Name) + len(rows[i].Value)
	}
	return n
}

func (l *Landing) landed(ctx context.Context, _ *access.Actor, q *field.LandedAsk) (*field.Done, error) {
	return done(l.Store.Landed(ctx, q.Fence, &q.Batch, q.Failed))
}

func (l *Landing) newer(ctx context.Context, _ *access.Actor, q *field.NewerAsk) (*field.Done, error) {
	return done(l.Store.Newer(ctx, q.Version))
}

func (l *Landing) release(ctx context.Context, _ *access.Actor, q *field.ReleaseAsk) (*field.Done, error) {
	return done(l.Store.Release(ctx, q.Table, q.Fence))
}
