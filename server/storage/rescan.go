package storage

import (
	"context"

	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/storage/field"
)

// rescan hears that others have filled a table.
func (f *Handlers) rescan(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LandingRescan) ([]byte, error) {
	owner := field.Owner{App: q.App, Region: q.Region, Logic: "l", ID: "o"}
	if err := owner.Check(); err != nil {
		return dst, err
	}
	err := f.store.Rescan(ctx, owner.Table())
	if err == nil && q.Version != 0 {
		err = f.store.Newer(ctx, q.Version)
	}
	return success(dst, err)
}
