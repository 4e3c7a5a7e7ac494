package storage

import (
	"context"

	"confcenter/protocol"
	"confcenter/storage"
)

// Rescanner is what those who fill a table need of a *storage.Storage.
type Rescanner interface {
	Rescan(ctx context.Context, table string) error
}

// rescan hears that others have filled a table.
func (f *Handlers) rescan(dst []byte, q protocol.LandingRescan) ([]byte, error) {
	owner := storage.Owner{App: q.App, Region: q.Region, Logic: "l", ID: "o"}
	if err := owner.Check(); err != nil {
		return dst, err
	}
	err := f.store.Rescan(f.life, owner.Table())
	if err == nil && q.Version != 0 {
		err = f.store.Newer(f.life, q.Version)
	}
	return success(dst, err)
}
