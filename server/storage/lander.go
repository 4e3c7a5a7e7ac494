package storage

import (
	"cmp"
	"context"

	"confcenter/protocol"
	"confcenter/server/edge"
	"confcenter/server/gate"
	"confcenter/storage/field"
)

// settings tells landers what they go by.
func (f *Handlers) settings(_ context.Context, _ *edge.Request, dst []byte, _ *struct{}) ([]byte, error) {
	return protocol.AppendLanderSettings(dst, f.store.Settings()), nil
}

// claim gives a lander a dirty table, or says who has it.
func (f *Handlers) claim(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LanderClaim()
	if err != nil {
		s.Refuse(h, err)
		return true
	}
	claims := f.claimsOf(s)
	gate.Waits(s, h, func(ctx context.Context, dst []byte) ([]byte, error) {
		claim, err := f.store.Claim(ctx, q.Table, q.Who)
		if err == nil {
			claims.took(q.Table, claim.Fence)
		}
		return protocol.AppendLanderClaimed(dst, claim), err
	})
	return true
}

// take gives a lander its next batch. A lander asks for rows, and one reply has a limit of
// bytes: it gets fewer rows if they are long.
func (f *Handlers) take(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LanderTake) ([]byte, error) {
	limit := cmp.Or(q.Limit, f.store.Settings().Batch)
	b, err := f.store.Dirty(ctx, q.Table, limit)
	for err == nil && b != nil && limit > 1 && sizeOfRows(b.Rows) > protocol.MaxFieldBytes {
		limit /= 2
		b, err = f.store.Dirty(ctx, q.Table, limit)
	}
	return protocol.AppendLanderBatch(dst, b), err
}

func sizeOfRows(rows []field.DirtyRow) (n int) {
	for i := range rows {
		n += len(rows[i].Name) + len(rows[i].Value)
	}
	return n
}

// landed hears what has become of a batch.
func (f *Handlers) landed(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LanderLanded) ([]byte, error) {
	return success(dst, f.store.Landed(ctx, q.Fence, &q.Batch, q.Failed))
}

// newer hears of a version in the database.
func (f *Handlers) newer(ctx context.Context, _ *edge.Request, dst []byte, version *int64) ([]byte, error) {
	return success(dst, f.store.Newer(ctx, *version))
}

// release takes a dirty table back.
func (f *Handlers) release(ctx context.Context, _ *edge.Request, dst []byte, q *protocol.LanderClaim) ([]byte, error) {
	return success(dst, f.store.Release(ctx, q.Table, q.Fence))
}

func success(dst []byte, err error) ([]byte, error) {
	return protocol.AppendResult(dst, 0, "success"), err
}
