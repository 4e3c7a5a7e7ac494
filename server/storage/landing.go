package storage

import "confcenter/protocol"

// status says how it stands with landing.
func (f *Handlers) status(dst []byte, _ none) ([]byte, error) {
	return protocol.AppendLandingStatus(dst, f.store.Status()), nil
}

// errors lists fields that the database has refused.
func (f *Handlers) errors(dst []byte, q protocol.LandingErrorsQuery) ([]byte, error) {
	rows, more := f.store.Errors(q.After, q.Limit)
	return protocol.AppendLandingErrors(dst, rows, more), nil
}

// retry has refused fields tried again, or landed ones landed once more.
func (f *Handlers) retry(dst []byte, q protocol.LandingRows) ([]byte, error) {
	if q.Landed {
		n, err := f.store.Reland(f.life, q.Since)
		return protocol.AppendStorageCount(dst, int64(n)), err
	}
	n, err := f.store.Retry(f.life, q.Rows)
	return protocol.AppendStorageCount(dst, int64(n)), err
}

// drop gives refused fields up.
func (f *Handlers) drop(dst []byte, q protocol.LandingRows) ([]byte, error) {
	n, err := f.store.Drop(f.life, q.Rows, q.Confirm)
	return protocol.AppendStorageCount(dst, int64(n)), err
}
