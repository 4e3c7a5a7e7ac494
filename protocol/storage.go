package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
	"confcenter/player/playerjson"
)

// MaxFieldBytes is how many bytes of names and values one reply has at most; pages are
// shorter.
const MaxFieldBytes = kv.MaxTxnBytes

// replyStart begins a successful reply.
func replyStart(dst []byte) kvjson.Writer { return kvjson.Writer{Buf: append(dst, `{"code":0`...)} }

// StorageQuery is STALL's request.
type StorageQuery struct {
	Owner field.Owner
	field.Ask
	Versions bool `kv:"versions"` // tell the fields' versions
}

// StorageNames is STGET's request, as it is sent.
type StorageNames struct {
	Owner    field.Owner
	Names    []string `kv:"names"`
	Versions bool     `kv:"versions"`
}

// AppendStorageFields appends STGET's reply.
func AppendStorageFields(dst []byte, fields []field.Field, versions bool) []byte {
	w := replyStart(dst)
	playerjson.WriteFields(&w, fields, versions)
	return w.End()
}

// AppendStoragePage appends STALL's reply.
func AppendStoragePage(dst []byte, page *field.Page, versions bool) []byte {
	w := replyStart(dst)
	w.Number(kvjson.Rev, int64(page.Revision))
	playerjson.WritePage(&w, page, versions)
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
		p.Page, p.Next = playerjson.ReadPage(&m.Reader)
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
	w.Owner, w.Kind = playerjson.ReadOwner(&m.Reader, &m.Top), cmd.StorageKind()
	playerjson.ReadWrite(&m.Reader, w)
	return m.End()
}

// AppendStorageWrite appends a write's request.
func AppendStorageWrite(dst []byte, write *field.Write) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	playerjson.WriteWrite(&w, write)
	return w.End()
}

// AppendStorageOutcome appends the reply to a write; prev tells whether Prev was asked for.
func AppendStorageOutcome(dst []byte, kind field.Kind, out *field.Outcome, prev bool) []byte {
	w := replyStart(dst)
	playerjson.WriteOutcome(&w, kind, out, prev)
	return w.End()
}

// AppendStorageMismatch appends the refusal of a write whose Expect does not hold:
// codes.Conflict.
func AppendStorageMismatch(dst []byte, m *field.Mismatch) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Number(kvjson.Code, int64(codes.Conflict))
	w.Text(kvjson.Desc, m.Error())
	playerjson.WriteVersions(&w, m.Fields)
	return w.End()
}

// ParseStorageOutcome reads the reply to a write. A refusal is a *RefusedError; of one with
// codes.Conflict, Fields have the versions that the fields have.
func ParseStorageOutcome(kind field.Kind, body []byte) (out field.Outcome, err error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		if refused, ok := err.(*RefusedError); ok && refused.Result.Code == int32(codes.Conflict) {
			out.Fields = playerjson.ReadMismatch(&m.Reader)
		}
		return out, err
	}
	out = playerjson.ReadOutcome(&m.Reader, kind)
	return out, m.End()
}

// StorageOwnersQuery is STOWNERS's request.
type StorageOwnersQuery struct {
	App       string `kv:"appId,else=1"`
	Region    string `kv:"regionId,else=1"`
	Logic     string `kv:"logicType,omit"`   // only owners of this type; "" all
	After     string `kv:"after,omit"`       // the last page's Next
	Limit     int    `kv:"limit,count,omit"` // at most so many; 0 or more than storagejson.MaxOwners: that
	CountOnly bool   `kv:"count"`            // asks only how many there are
}
