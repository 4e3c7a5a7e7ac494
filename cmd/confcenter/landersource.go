package main

import (
	"context"
	"time"

	"confcenter/client"
	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/storage"
)

// landerSource is the landing.Source of a server's storage.
type landerSource struct{ *client.Lander }

// Settings implements landing.Source.
func (s landerSource) Settings(ctx context.Context) (storage.Settings, error) {
	set, err := s.Lander.Settings(ctx)
	return storage.Settings{
		Tables: set.Tables, Prefix: set.Prefix, SavingSuffix: set.SavingSuffix, ErrorSuffix: set.ErrorSuffix,
		LockTime: time.Duration(set.LockTime) * time.Millisecond, Delay: time.Duration(set.Delay) * time.Millisecond, Batch: set.Batch,
	}, err
}

// Claim implements landing.Source.
func (s landerSource) Claim(ctx context.Context, table int, who string) (storage.Claim, error) {
	claimed, err := s.Lander.Claim(ctx, table, who)
	return storage.Claim(claimed), err
}

// Dirty implements landing.Source.
func (s landerSource) Dirty(ctx context.Context, table, limit int) (*storage.Batch, error) {
	told, err := s.Take(ctx, table, limit)
	if err != nil || told == nil {
		return nil, err
	}
	b := &storage.Batch{Table: told.Table, Tables: told.Tables, After: told.After, Through: told.Through, More: told.More, Rows: make([]storage.DirtyRow, len(told.Rows))}
	for i, r := range told.Rows {
		b.Rows[i] = storage.DirtyRow{Revision: r.Revision, Noted: r.Noted, Row: storage.Row{
			Owner: storage.Owner(r.Owner), Name: r.Name, Value: r.Value, Version: r.Version,
			Removed: r.Removed, RemovedAt: r.RemovedAt, Created: r.Created, Updated: r.Updated,
		}}
	}
	return b, nil
}

// Landed implements landing.Source. The server knows most rows well enough by their batch.
func (s landerSource) Landed(ctx context.Context, fence kv.Revision, b *storage.Batch, failed []storage.Failure) error {
	done := protocol.LanderLanded{Fence: fence, LanderBatch: protocol.LanderBatch{Table: b.Table, Tables: b.Tables, After: b.After, Through: b.Through, Count: len(b.Rows)}}
	refused := map[storage.Failure]bool{}
	for _, f := range failed {
		done.Failed = append(done.Failed, protocol.LanderFailure(f))
		f.Reason = ""
		refused[f] = true
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Noted || refused[storage.Failure{Table: r.Table(), Key: r.Key()}] {
			done.Rows = append(done.Rows, protocol.LanderRow{StorageName: protocol.StorageName{Owner: protocol.StorageOwner(r.Owner), Name: r.Name}, Revision: r.Revision, Noted: r.Noted})
		}
	}
	return s.Lander.Landed(ctx, done)
}
