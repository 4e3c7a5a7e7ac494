package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/storage/field"
	"confcenter/storage/storagejson"
)

// MaxFieldBytes is how many bytes of names and values one reply has at most; pages are
// shorter.
const MaxFieldBytes = kv.MaxTxnBytes

// replyStart begins a successful reply.
func replyStart(dst []byte) kvjson.Writer { return kvjson.Writer{Buf: append(dst, `{"code":0`...)} }

// readRequest reads a request of player storage with read.
func readRequest[T any](r *Request, read func(m *reader) T) (T, error) {
	var m reader
	m.begin(r)
	found := read(&m)
	return found, m.End()
}

// StorageQuery is the request of STGET, and of STALL, which has no Names but a page.
type StorageQuery struct {
	Owner    field.Owner
	Names    []string
	Versions bool // tell the fields' versions
	field.Ask
}

// StorageQuery reads the request of STALL.
func (r *Request) StorageQuery() (StorageQuery, error) {
	return readRequest(r, func(m *reader) StorageQuery {
		return StorageQuery{
			Owner: storagejson.ReadOwner(&m.Reader, &m.Top), Versions: m.Flag(&m.Top, kvjson.Versions),
			Ask: field.Ask{After: string(m.Text(&m.Top, kvjson.After)), Limit: int(m.Count(&m.Top, kvjson.Limit)), Revision: kv.Revision(m.Count(&m.Top, kvjson.Rev))},
		}
	})
}

// AppendStorageQuery appends the request of STGET or STALL.
func AppendStorageQuery(dst []byte, cmd Command, q StorageQuery) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	storagejson.WriteOwner(&w, q.Owner)
	if cmd == StGet {
		storagejson.WriteNames(&w, q.Names)
	} else {
		w.TextGiven(kvjson.After, q.After)
		w.Given(kvjson.Limit, int64(q.Limit))
		w.Given(kvjson.Rev, int64(q.Revision))
	}
	w.Flag(kvjson.Versions, q.Versions)
	return w.End()
}

// AppendStorageFields appends STGET's reply.
func AppendStorageFields(dst []byte, fields []field.Field, versions bool) []byte {
	w := replyStart(dst)
	storagejson.WriteFields(&w, fields, versions)
	return w.End()
}

// AppendStoragePage appends STALL's reply.
func AppendStoragePage(dst []byte, page *field.Page, versions bool) []byte {
	w := replyStart(dst)
	w.Number(kvjson.Rev, int64(page.Revision))
	storagejson.WritePage(&w, page, versions)
	return w.End()
}

// StoragePage is the reply to STGET, and to STALL, which has more than the fields.
type StoragePage struct {
	field.Page        // the fields have no order
	Next       string // what to ask for the next page After; "": there is none
}

// ParseStoragePage reads the reply to STGET or STALL. A refusal is a *RefusedError.
func ParseStoragePage(body []byte) (StoragePage, error) {
	return parseReply(body, func(m *reader) (p StoragePage) {
		p.Page, p.Next = storagejson.ReadPage(&m.Reader)
		return p
	})
}

// StorageKind is the kind of write that c is; 0 if it is none.
func (c Command) StorageKind() field.Kind {
	if c < StUpdate || c > StRestore {
		return 0
	}
	return field.Update + field.Kind(c-StUpdate)
}

// StorageWrite reads the request of a command that has a StorageKind into w, all but the
// actor. Names and values are not checked.
func (r *Request) StorageWrite(cmd Command, w *field.Write) error {
	var m reader
	m.begin(r)
	w.Owner, w.Kind = storagejson.ReadOwner(&m.Reader, &m.Top), cmd.StorageKind()
	storagejson.ReadWrite(&m.Reader, w)
	return m.End()
}

// AppendStorageWrite appends a write's request.
func AppendStorageWrite(dst []byte, write *field.Write) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	storagejson.WriteWrite(&w, write)
	return w.End()
}

// AppendStorageOutcome appends the reply to a write; prev tells whether Prev was asked for.
func AppendStorageOutcome(dst []byte, kind field.Kind, out *field.Outcome, prev bool) []byte {
	w := replyStart(dst)
	storagejson.WriteOutcome(&w, kind, out, prev)
	return w.End()
}

// AppendStorageMismatch appends the refusal of a write whose Expect does not hold:
// codes.Conflict.
func AppendStorageMismatch(dst []byte, m *field.Mismatch) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Code, int64(codes.Conflict))
	w.Text(kvjson.Desc, m.Error())
	storagejson.WriteVersions(&w, m.Fields)
	return w.End()
}

// ParseStorageOutcome reads the reply to a write. A refusal is a *RefusedError; of one with
// codes.Conflict, Fields have the versions that the fields have.
func ParseStorageOutcome(kind field.Kind, body []byte) (out field.Outcome, err error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		if refused, ok := err.(*RefusedError); ok && refused.Result.Code == int32(codes.Conflict) {
			out.Fields = storagejson.ReadMismatch(&m.Reader)
		}
		return out, err
	}
	out = storagejson.ReadOutcome(&m.Reader, kind)
	return out, m.End()
}

// StorageOwnersQuery is STOWNERS's request.
type StorageOwnersQuery struct {
	App, Region string
	Logic       string // only owners of this type; "" all
	After       string // the last page's Next
	Limit       int    // at most so many; 0 or more than storagejson.MaxOwners: that
	// CountOnly asks only how many there are.
	CountOnly bool
}

// StorageOwnersQuery reads STOWNERS's request.
func (r *Request) StorageOwnersQuery() (StorageOwnersQuery, error) {
	return readRequest(r, func(m *reader) StorageOwnersQuery {
		o := storagejson.ReadOwner(&m.Reader, &m.Top)
		q := StorageOwnersQuery{
			App: o.App, Region: o.Region, Logic: o.Logic, After: string(m.Text(&m.Top, kvjson.After)),
			Limit: int(m.Count(&m.Top, kvjson.Limit)), CountOnly: m.Flag(&m.Top, kvjson.Count),
		}
		if q.Limit == 0 || q.Limit > storagejson.MaxOwners {
			q.Limit = storagejson.MaxOwners
		}
		return q
	})
}

// AppendStorageOwnersQuery appends STOWNERS's request.
func AppendStorageOwnersQuery(dst []byte, q StorageOwnersQuery) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	storagejson.WritePlace(&w, q.App, q.Region)
	w.TextGiven(kvjson.LogicType, q.Logic)
	w.TextGiven(kvjson.After, q.After)
	w.Given(kvjson.Limit, int64(q.Limit))
	w.Flag(kvjson.Count, q.CountOnly)
	return w.End()
}

// StorageOwners is STOWNERS's reply, unless only their number was asked for: a page.
type StorageOwners struct {
	Owners []field.Owner // without App and Region
	Next   string        // what to ask for the next page After; "": there is none
}

// AppendStorageOwners appends a page.
func AppendStorageOwners(dst []byte, list []field.Owner, next string) []byte {
	w := replyStart(dst)
	storagejson.WriteOwners(&w, list, next)
	return w.End()
}

// ParseStorageOwners reads a page. A refusal is a *RefusedError.
func ParseStorageOwners(body []byte) (StorageOwners, error) {
	return parseReply(body, func(m *reader) (page StorageOwners) {
		page.Owners, page.Next = storagejson.ReadOwners(&m.Reader)
		return page
	})
}

// AppendStorageCount appends a reply that is a number: STOWNERS's to a request for one,
// STRETRY's and STDROP's.
func AppendStorageCount(dst []byte, n int64) []byte {
	w := replyStart(dst)
	w.Number(kvjson.Count, n)
	return w.End()
}

// ParseStorageCount reads what AppendStorageCount appended. A refusal is a *RefusedError.
func ParseStorageCount(body []byte) (int64, error) {
	return parseReply(body, func(m *reader) int64 {
		if !m.Top.Has(kvjson.Count) {
			m.Missing(kvjson.Count)
		}
		return m.Number(&m.Top, kvjson.Count)
	})
}
