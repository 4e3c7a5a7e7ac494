package storage

import (
	"context"

	"confcenter/codes"
	"confcenter/protocol"
	"confcenter/server/gate"
	"confcenter/server/loop"
	"confcenter/storage"
)

// Landing is what operators need of a *storage.Storage.
type Landing interface {
	Status() []storage.TableStatus
	Errors(after storage.FieldName, limit int) (list []storage.ErrorRow, more bool)
	Retry(ctx context.Context, fields []storage.FieldName) (int, error)
	Drop(ctx context.Context, fields []storage.FieldName) (int, error)
}

// status says how it stands with landing.
func (f *Handlers) status(s *gate.Session, h protocol.Header, _ []byte) bool {
	s.Later(h, func(dst []byte) []byte {
		status := f.store.Status()
		tables := make([]protocol.LandingTable, len(status))
		for i, t := range status {
			tables[i] = protocol.LandingTable(t)
		}
		return protocol.AppendLandingStatus(dst, tables)
	})
	return true
}

// errors lists fields that the database has refused.
func (f *Handlers) errors(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LandingErrorsQuery()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	s.Later(h, func(dst []byte) []byte {
		rows, more := f.store.Errors(fieldName(q.After), q.Limit)
		list := make([]protocol.LandingError, len(rows))
		for i, r := range rows {
			list[i] = protocol.LandingError{
				StorageName: protocol.StorageName{Owner: protocol.StorageOwner(r.Owner), Name: r.Name}, List: r.List, Revision: r.Revision, Reason: r.Reason,
				Attempts: r.Attempts, First: r.First, Next: r.Next, Dropped: r.Dropped,
			}
		}
		return protocol.AppendLandingErrors(dst, list, more)
	})
	return true
}

// retry has refused fields tried again.
func (f *Handlers) retry(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LandingRows()
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.change(s, h, q, f.store.Retry)
	return true
}

// drop gives refused fields up.
func (f *Handlers) drop(s *gate.Session, h protocol.Header, _ []byte) bool {
	q, err := s.Desk.Req.LandingRows()
	switch {
	case err != nil:
	case q.All:
		err = codes.Errorf(codes.BadRequest, "member rows is missing: name the fields to give up")
	case q.Confirm != int64(len(q.Rows)):
		err = codes.Errorf(codes.Unconfirmed, "this gives up landing %d fields; give that number as confirm", len(q.Rows))
	}
	if err != nil {
		s.RefuseState(h, err)
		return true
	}
	f.change(s, h, q, f.store.Drop)
	return true
}

// change answers with how many of the rows do has changed.
func (f *Handlers) change(s *gate.Session, h protocol.Header, q protocol.LandingRows, do func(context.Context, []storage.FieldName) (int, error)) {
	var fields []storage.FieldName // nil: all
	if !q.All {
		fields = make([]storage.FieldName, 0, len(q.Rows))
	}
	for _, row := range q.Rows {
		fields = append(fields, fieldName(row))
	}
	loop.Await(&s.Conn, h, func(dst []byte) []byte {
		n, err := do(f.life, fields)
		return appendCount(s, dst, h, int64(n), err)
	})
}

func appendCount(s *gate.Session, dst []byte, h protocol.Header, n int64, err error) []byte {
	if err != nil {
		return s.AppendRefusal(dst, h, err)
	}
	return protocol.AppendStorageCount(dst, n)
}

func fieldName(f protocol.StorageName) storage.FieldName {
	return storage.FieldName{Owner: storage.Owner(f.Owner), Name: f.Name}
}
