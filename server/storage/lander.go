package storage

import (
	"cmp"

	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// settings tells landers what they go by.
func (f *Handlers) settings(dst []byte, _ none) ([]byte, error) {
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
	loop.AwaitDisk(&s.Conn, h, func(dst []byte) []byte {
		claim, err := f.store.Claim(f.life, q.Table, q.Who)
		if err != nil {
			return s.AppendRefusal(dst, h, err)
		}
		claims.took(q.Table, claim.Fence)
		return protocol.AppendLanderClaimed(dst, claim)
	})
	return true
}

// take gives a lander its next batch. A lander asks for rows, and one reply has a limit of
// bytes: it gets fewer rows if they are long.
func (f *Handlers) take(dst []byte, q protocol.LanderTake) ([]byte, error) {
	limit := cmp.Or(q.Limit, f.store.Settings().Batch)
	b, err := f.store.Dirty(f.life, q.Table, limit)
	for err == nil && b != nil && limit > 1 && sizeOfRows(b.Rows) > protocol.MaxFieldBytes {
		limit /= 2
		b, err = f.store.Dirty(f.life, q.Table, limit)
	}
	return protocol.AppendLanderBatch(dst, b), err
}

func sizeOfRows(rows []storage.DirtyRow) (n int) {
	for i := range rows {
		n += len(rows[i].Name) + len(rows[i].Value)
	}
	return n
}

// landed hears what has become of a batch.
func (f *Handlers) landed(dst []byte, q protocol.LanderLanded) ([]byte, error) {
	return success(dst, f.store.Landed(f.life, q.Fence, &q.Batch, q.Failed))
}

// newer hears of a version in the database.
func (f *Handlers) newer(dst []byte, version int64) ([]byte, error) {
	return success(dst, f.store.Newer(f.life, version))
}

// release takes a dirty table back.
func (f *Handlers) release(dst []byte, q protocol.LanderClaim) ([]byte, error) {
	return success(dst, f.store.Release(f.life, q.Table, q.Fence))
}

func success(dst []byte, err error) ([]byte, error) {
	return protocol.AppendResult(dst, 0, "success"), err
}
