package protocol

import (
	"confcenter/codes"
	"confcenter/kv/kvjson"
	"confcenter/storage/field"
	"confcenter/storage/storagejson"
)

// MaxRefused is how many rows of the list of errors one reply has at most.
const MaxRefused = 1000

// AppendLandingStatus appends STSTATUS's reply.
func AppendLandingStatus(dst []byte, tables []field.TableStatus) []byte {
	return append(storagejson.AppendTables(append(dst, `{"code":0,"tables":`...), tables), '}')
}

// ParseLandingStatus reads STSTATUS's reply. A refusal is a *RefusedError.
func ParseLandingStatus(body []byte) ([]field.TableStatus, error) {
	return parseReply(body, func(m *reader) []field.TableStatus { return storagejson.ReadTables(&m.Reader) })
}

// LandingErrorsQuery is STERRORS's request.
type LandingErrorsQuery struct {
	After field.Ref // the last one of the page before; the zero value: the first page
	Limit int       // at most so many; 0 or more than MaxRefused: MaxRefused
}

// LandingErrorsQuery reads STERRORS's request.
func (r *Request) LandingErrorsQuery() (LandingErrorsQuery, error) {
	return readRequest(r, func(m *reader) LandingErrorsQuery {
		q := LandingErrorsQuery{Limit: int(m.Count(&m.Top, kvjson.Limit))}
		if q.Limit == 0 || q.Limit > MaxRefused {
			q.Limit = MaxRefused
		}
		var after kvjson.Object
		if kvjson.EnterMember(&m.Reader, 0, &m.Top, kvjson.After, &after) {
			q.After = storagejson.ReadRef(&m.Reader, &after)
		}
		return q
	})
}

// AppendLandingErrorsQuery appends STERRORS's request.
func AppendLandingErrorsQuery(dst []byte, q LandingErrorsQuery) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	if q.After != (field.Ref{}) {
		w.Open(kvjson.After, '{')
		storagejson.WriteRef(&w, q.After)
		w.Close('}')
	}
	w.Given(kvjson.Limit, int64(q.Limit))
	return w.End()
}

// LandingErrors is STERRORS's reply.
type LandingErrors struct {
	Rows []field.ErrorRow
	More bool
}

// AppendLandingErrors appends STERRORS's reply.
func AppendLandingErrors(dst []byte, list []field.ErrorRow, more bool) []byte {
	w := replyStart(dst)
	storagejson.WriteErrors(&w, list, more)
	return w.End()
}

// ParseLandingErrors reads STERRORS's reply. A refusal is a *RefusedError.
func ParseLandingErrors(body []byte) (LandingErrors, error) {
	return parseReply(body, func(m *reader) (page LandingErrors) {
		page.Rows, page.More = storagejson.ReadErrors(&m.Reader)
		return page
	})
}

// LandingRows is the request of STRETRY and STDROP.
type LandingRows struct {
	Rows    []field.Ref // nil: all that were refused
	Confirm int64       // STDROP: how many of them it gives up
	Landed  bool        // STRETRY: what was landed is meant, and not Rows
	Since   int64       // of Landed: what was written since then, in ms since 1970
}

// LandingRows reads the request of STRETRY or STDROP.
func (r *Request) LandingRows() (LandingRows, error) {
	return readRequest(r, func(m *reader) LandingRows {
		q := LandingRows{Rows: storagejson.ReadRows(&m.Reader), Confirm: m.Count(&m.Top, kvjson.Confirm), Landed: m.Top.Has(kvjson.Since), Since: m.Count(&m.Top, kvjson.Since)}
		if q.Landed && q.Rows != nil {
			m.Fail(codes.Errorf(codes.BadRequest, "rows and since exclude each other: refused fields are landed again, or all that was landed since then"))
		}
		return q
	})
}

// AppendLandingRows appends the request of STRETRY or STDROP.
func AppendLandingRows(dst []byte, q LandingRows) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	storagejson.WriteRows(&w, q.Rows)
	w.Given(kvjson.Confirm, q.Confirm)
	if q.Landed {
		w.Number(kvjson.Since, q.Since)
	}
	return w.End()
}
