package protocol

import (
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// MaxRefused is how many rows of the list of errors one reply has at most.
const MaxRefused = 1000

// LandingTable is how it stands with one dirty table.
type LandingTable struct {
	Table   int    // its number
	List    string // its name for operators
	Saving  string // the name of what is being landed, if something is
	Errors  string // the name of its list of errors
	Dirty   int64  // fields that the database has not got yet
	Oldest  int64  // when the oldest of them was written, in ms since 1970; 0: none
	Refused int64  // fields in the list of errors
	Dropped int64  // fields that an operator has given up
	Landed  uint64 // rows landed since the start
	Last    int64  // when rows were landed last, in ms since 1970; 0: not since the start
	Rate    int64  // rows a second, of the last minute
	Cursor  int64  // all changes up to this revision are landed or in the list of errors
}

// AppendLandingStatus appends STSTATUS's reply.
func AppendLandingStatus(dst []byte, tables []LandingTable) []byte {
	dst = append(dst, `{"code":0,"tables":[`...)
	for i := range tables {
		t := &tables[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(appendNumber(append(dst, '{'), "table", int64(t.Table)), "list", t.List)
		if t.Saving != "" {
			dst = appendText(dst, "saving", t.Saving)
		}
		dst = appendText(dst, "errors_list", t.Errors)
		for _, n := range t.numbers() {
			dst = appendNumber(dst, n.name, *n.n)
		}
		dst = append(appendNumber(dst, "landed", int64(t.Landed)), '}')
	}
	return append(dst, "]}"...)
}

// tableNumber is a number of a LandingTable under its name.
type tableNumber struct {
	name string
	n    *int64
}

func (t *LandingTable) numbers() [7]tableNumber {
	return [...]tableNumber{
		{"dirty", &t.Dirty}, {"oldest", &t.Oldest}, {"errors", &t.Refused}, {"dropped", &t.Dropped},
		{"last", &t.Last}, {"rate", &t.Rate}, {"cursor", &t.Cursor},
	}
}

// ParseLandingStatus reads STSTATUS's reply. A refusal is a *RefusedError.
func ParseLandingStatus(body []byte) ([]LandingTable, error) {
	var r Request
	return parseList(&r, body, "tables", func(m *storageReader) LandingTable {
		t := LandingTable{Table: int(m.number("table")), List: m.text("list"), Saving: m.text("saving"), Errors: m.text("errors_list"), Landed: uint64(m.count("landed"))}
		for _, n := range t.numbers() {
			*n.n = m.number(n.name)
		}
		return t
	})
}

// StorageName names one field.
type StorageName struct {
	Owner StorageOwner
	Name  string
}

// LandingError is a field that the database has refused.
type LandingError struct {
	StorageName
	List     string      // of the dirty table, with the suffix of errors
	Revision kv.Revision // of the change that was refused
	Reason   string
	Attempts int
	First    int64 // when it was refused first, in ms since 1970
	Next     int64 // when it is tried again; 0: never, because it was dropped
	Dropped  bool
}

// LandingErrorsQuery is STERRORS's request.
type LandingErrorsQuery struct {
	After StorageName // the last one of the page before; the zero value: the first page
	Limit int         // at most so many; 0 or more than MaxRefused: MaxRefused
}

// LandingErrorsQuery reads STERRORS's request.
func (r *Request) LandingErrorsQuery() (LandingErrorsQuery, error) {
	m := storageReader{r: r}
	q := LandingErrorsQuery{Limit: int(m.count("limit"))}
	if q.Limit == 0 || q.Limit > MaxRefused {
		q.Limit = MaxRefused
	}
	if after, ok := m.member("after"); ok {
		if after.Kind != jsontext.Object {
			m.bad("after", "an object")
		}
		q.After = within(&m, after.Raw, (*storageReader).row)
	}
	return q, m.err
}

// AppendLandingErrorsQuery appends STERRORS's request.
func AppendLandingErrorsQuery(dst []byte, q LandingErrorsQuery) []byte {
	dst = append(dst, '{')
	if q.After != (StorageName{}) {
		dst = append(appendRow(append(appendMember(dst, "after"), '{'), q.After), '}')
	}
	return append(appendGiven(dst, "limit", int64(q.Limit)), '}')
}

// AppendLandingErrors appends STERRORS's reply.
func AppendLandingErrors(dst []byte, list []LandingError, more bool) []byte {
	dst = append(dst, `{"code":0,"errors":[`...)
	for i := range list {
		e := &list[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(appendRow(append(dst, '{'), e.StorageName), "list", e.List)
		dst = appendText(appendNumber(dst, "rev", int64(e.Revision)), "reason", e.Reason)
		dst = appendNumber(appendNumber(dst, "attempts", int64(e.Attempts)), "first", e.First)
		dst = append(appendFlag(appendNumber(dst, "next", e.Next), "dropped", e.Dropped), '}')
	}
	return append(appendFlag(append(dst, ']'), "more", more), '}')
}

// ParseLandingErrors reads STERRORS's reply. A refusal is a *RefusedError.
func ParseLandingErrors(body []byte) (list []LandingError, more bool, err error) {
	var r Request
	list, err = parseList(&r, body, "errors", func(m *storageReader) LandingError {
		return LandingError{
			StorageName: m.row(), List: m.text("list"), Revision: kv.Revision(m.number("rev")), Reason: m.text("reason"),
			Attempts: int(m.number("attempts")), First: m.number("first"), Next: m.number("next"), Dropped: m.r.Flag("dropped"),
		}
	})
	return list, r.Flag("more"), err
}

// LandingRows is the request of STRETRY and STDROP.
type LandingRows struct {
	Rows []StorageName
	All  bool // the request names no rows: all that were refused are meant
	// Confirm is how many rows STDROP says it gives up.
	Confirm int64
}

// LandingRows reads the request of STRETRY or STDROP.
func (r *Request) LandingRows() (LandingRows, error) {
	m := storageReader{r: r, most: MaxFields}
	q := LandingRows{All: !m.has("rows"), Confirm: m.count("confirm")}
	it, _ := m.items("rows", jsontext.Array, 0)
	for it.Next() {
		q.Rows = append(q.Rows, within(&m, it.Raw(), (*storageReader).row))
	}
	return q, m.err
}

// AppendLandingRows appends the request of STRETRY or STDROP.
func AppendLandingRows(dst []byte, q LandingRows) []byte {
	dst = append(dst, '{')
	if !q.All {
		dst = append(appendMember(dst, "rows"), '[')
		for i, row := range q.Rows {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendRow(append(dst, '{'), row), '}')
		}
		dst = append(dst, ']')
	}
	return append(appendGiven(dst, "confirm", q.Confirm), '}')
}

// AppendStorageCount appends a reply that is a number: STOWNERS's to a request for one,
// STRETRY's and STDROP's.
func AppendStorageCount(dst []byte, n int64) []byte {
	return append(appendNumber(append(dst, `{"code":0`...), "count", n), '}')
}

// ParseStorageCount reads what AppendStorageCount appended. A refusal is a *RefusedError.
func ParseStorageCount(body []byte) (int64, error) {
	var r Request
	if err := r.parseSuccess(body); err != nil {
		return 0, err
	}
	m := storageReader{r: &r}
	if !m.has("count") {
		m.fail(&ReplyError{Member: "count"})
	}
	return m.number("count"), m.err
}

// row reads the name of a field.
func (m *storageReader) row() StorageName { return StorageName{m.owner(), m.text("name")} }

func appendRow(dst []byte, f StorageName) []byte {
	return appendText(appendOwner(dst, f.Owner), "name", f.Name)
}

// parseList reads a reply's array of objects.
func parseList[T any](r *Request, body []byte, name string, read func(*storageReader) T) ([]T, error) {
	if err := r.parseSuccess(body); err != nil {
		return nil, err
	}
	m := storageReader{r: r}
	if !m.has(name) {
		m.fail(&ReplyError{Member: name})
	}
	var list []T
	for it, _ := m.items(name, jsontext.Array, 0); it.Next(); {
		list = append(list, within(&m, it.Raw(), read))
	}
	return list, m.err
}

// within reads an object of the message.
func within[T any](m *storageReader, raw []byte, read func(*storageReader) T) T {
	inner := storageReader{r: &Request{members: jsontext.AppendMembers(nil, raw)}}
	found := read(&inner)
	m.fail(inner.err)
	return found
}
