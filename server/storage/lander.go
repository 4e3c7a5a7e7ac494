package storage

import (
	"context"

	"confcenter/kv"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// Lander is what landers in processes of their own need of a *storage.Storage.
type Lander interface {
	Settings() storage.Settings
	Claim(ctx context.Context, table int, who string) (storage.Claim, error)
	Release(ctx context.Context, table int, fence kv.Revision) error
	Dirty(ctx context.Context, table, limit int) (*storage.Batch, error)
	Landed(ctx context.Context, fence kv.Revision, b *storage.Batch, failed []storage.Failure) error
	Newer(ctx context.Context, version int64) error
}

// settings tells landers what they go by.
func (f *Handlers) settings(s *gate.Session, h protocol.Header, _ []byte) bool {
	set := f.store.Settings()
	s.End(protocol.AppendLanderSettings(s.Begin(h.Command.Reply(), h.Seq), protocol.LanderSettings{
		Tables: set.Tables, Prefix: set.Prefix, SavingSuffix: set.SavingSuffix, ErrorSuffix: set.ErrorSuffix,
		LockTime: set.LockTime.Milliseconds(), Delay: set.Delay.Milliseconds(), Batch: set.Batch,
	}))
	return true
}

// claim gives a lander a dirty table, or says who has it.
func (f *Handlers) claim(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LanderClaim()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		claim, err := f.store.Claim(f.life, q.Table, q.Who)
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		return protocol.AppendLanderClaimed(dst, protocol.LanderClaimed(claim))
	})
	return true
}

// take gives a lander its next batch. A lander asks for rows, and one reply has a limit of
// bytes: it gets fewer rows if they are long.
func (f *Handlers) take(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LanderTake()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		limit := q.Limit
		if limit == 0 {
			limit = f.store.Settings().Batch
		}
		b, err := f.store.Dirty(f.life, q.Table, limit)
		for err == nil && b != nil && limit > 1 && sizeOfRows(b.Rows) > protocol.MaxFieldBytes {
			limit /= 2
			b, err = f.store.Dirty(f.life, q.Table, limit)
		}
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		return protocol.AppendLanderBatch(dst, wireBatch(b))
	})
	return true
}

func sizeOfRows(rows []storage.DirtyRow) (n int) {
	for i := range rows {
		n += len(rows[i].Name) + len(rows[i].Value)
	}
	return n
}

func wireBatch(b *storage.Batch) *protocol.LanderBatch {
	if b == nil {
		return nil
	}
	out := &protocol.LanderBatch{Table: b.Table, Tables: b.Tables, After: b.After, Through: b.Through, Count: b.Count, More: b.More, Rows: make([]protocol.LanderRow, len(b.Rows))}
	for i := range b.Rows {
		r := &b.Rows[i]
		out.Rows[i] = protocol.LanderRow{
			StorageName: protocol.StorageName{Owner: protocol.StorageOwner(r.Owner), Name: r.Name}, Value: r.Value, Version: r.Version,
			Removed: r.Removed, RemovedAt: r.RemovedAt, Created: r.Created, Updated: r.Updated, Revision: r.Revision, Noted: r.Noted,
		}
	}
	return out
}

// landed hears what has become of a batch.
func (f *Handlers) landed(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LanderLanded()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	b := &storage.Batch{Table: q.Table, Tables: q.Tables, After: q.After, Through: q.Through, Count: q.Count, More: q.More}
	for _, r := range q.Rows {
		row := storage.DirtyRow{Revision: r.Revision, Noted: r.Noted}
		row.Owner, row.Name, row.Version = storage.Owner(r.Owner), r.Name, r.Version
		b.Rows = append(b.Rows, row)
	}
	failed := make([]storage.Failure, len(q.Failed))
	for i, one := range q.Failed {
		failed[i] = storage.Failure(one)
	}
	f.tell(s, h, func() error { return f.store.Landed(f.life, q.Fence, b, failed) })
	return true
}

// newer hears of a version in the database.
func (f *Handlers) newer(s *gate.Session, h protocol.Header, _ []byte) bool {
	version, err := s.Desk.Req.LanderVersion()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.tell(s, h, func() error { return f.store.Newer(f.life, version) })
	return true
}

// release takes a dirty table back.
func (f *Handlers) release(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LanderClaim()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.tell(s, h, func() error { return f.store.Release(f.life, q.Table, q.Fence) })
	return true
}

// tell answers with whether do has worked.
func (f *Handlers) tell(s *gate.Session, h protocol.Header, do func() error) {
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		if err := do(); err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		return protocol.AppendResult(dst, 0, "success")
	})
}
