package storage

import (
	"context"

	"confcenter/protocol"
	"confcenter/server/edge"
)

// status says how it stands with landing.
func (f *Handlers) status(_ context.Context, _ *edge.Request, dst []byte, _ *struct{}) ([]byte, error) {
	return protocol.AppendLandingStatus(dst, f.store.Status()), nil
}

// errors lists fields that the database has refused.
func (f *Handlers) errors(_ context.Context, _ *edge.Request, dst []byte, q *protocol.LandingErrorsQuery) ([]byte, error) {
	rows, more := f.store.Errors(q.After, q.Limit)
	return protocol.AppendLandingErrors(dst, rows, more), nil
}

// retry has refused fields tried again, or landed ones landed once more.
func (f *Handlers) retry(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LandingRows) ([]byte, error) {
	if q.Landed {
		n, err := f.store.Reland(ctx, q.Since)
		return protocol.AppendStorageCount(dst, int64(n)), err
	}
	n, err := f.store.Retry(ctx, q.Rows)
	return protocol.AppendStorageCount(dst, int64(n)), err
}

// drop gives refused fields up.
func (f *Handlers) drop(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LandingRows) ([]byte, error) {
	n, err := f.store.Drop(ctx, q.Rows, q.Confirm)
	return protocol.AppendStorageCount(dst, int64(n)), err
}
