package storage

import (
	"confcenter/protocol"
	"confcenter/storage"
)

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
