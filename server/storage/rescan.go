package storage

import (
	"context"

	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/storage"
)

// Rescanner is what those who fill a table need of a *storage.Storage.
type Rescanner interface {
	Rescan(ctx context.Context, table string) error
}

// rescan hears that others have filled a table.
func (f *Handlers) rescan(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LandingRescan()
	owner := storage.Owner{App: q.App, Region: q.Region, Logic: "l", ID: "o"}
	if err == nil {
		err = owner.Check()
	}
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.tell(s, h, func() error {
		if err := f.store.Rescan(f.life, owner.Table()); err != nil || q.Version == 0 {
			return err
		}
		return f.store.Newer(f.life, q.Version)
	})
	return true
}
