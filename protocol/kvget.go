package protocol

import (
	"bytes"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// MaxGet is how many keys one KVMGET may ask for.
const MaxGet = 1000

// KVRead is KVGET's request. The names are those of the request's body.
type KVRead struct {
	NS, Key []byte
	// Rev asks for the entry as it was at that revision; 0: now.
	Rev kv.Revision
	// MinRev must have been reached, else codes.FutureRevision.
	MinRev kv.Revision
	// Raw lets values of type bytes follow the reply's JSON.
	Raw bool
	// Reveal asks for sealed values as far as the client may know them, not their marks.
	Reveal bool
}

// KVGet reads KVGET's request. It allocates nothing unless a name has escapes. The error
// has a code. NS and Key are checked.
func (r *Request) KVGet() (KVRead, error) {
	var m reader
	m.begin(r)
	q := KVRead{
		NS: m.Text(&m.Top, kvjson.NS), Key: m.Text(&m.Top, kvjson.Key),
		Rev: kv.Revision(m.Count(&m.Top, kvjson.Rev)), MinRev: kv.Revision(m.Count(&m.Top, kvjson.MinRev)),
		Raw: m.Flag(&m.Top, kvjson.Raw), Reveal: m.Flag(&m.Top, kvjson.Reveal),
	}
	if err := m.End(); err != nil {
		return KVRead{}, err
	}
	return q, checkPair(q.NS, q.Key)
}

// PlainKVGet reads KVGET's request in a quarter of the time if it has only a namespace
// and a key, in the form that this package writes, as most have. If ok is false the body
// may be anything; use [Request.KVGet].
func PlainKVGet(body []byte) (q KVRead, ok bool) {
	rest, ok := bytes.CutPrefix(body, plainHead)
	if !ok {
		return q, false
	}
	if q.NS, rest, ok = plainText(rest, kv.MaxNamespace); !ok {
		return q, false
	}
	if rest, ok = bytes.CutPrefix(rest, plainNext); !ok {
		return q, false
	}
	q.Key, rest, ok = plainText(rest, kv.MaxKey)
	return q, ok && string(rest) == `"}`
}

var plainHead, plainNext = []byte(`{"ns":"`), []byte(`","key":"`)

// plainText reads a name of printable ASCII without escapes, up to a quote.
func plainText(text []byte, limit int) (name, rest []byte, ok bool) {
	for i, c := range text {
		switch {
		case c == '"':
			return text[:i], text[i:], i > 0 && i <= limit
		case c < ' ' || c >= 0x7F || c == '\\':
			return nil, nil, false
		}
	}
	return nil, nil, false
}

// AppendKVRead appends KVGET's request.
func AppendKVRead(dst []byte, q KVRead) []byte {
	dst = appendText(append(dst, '{'), "ns", q.NS)
	w := kvjson.Writer{Buf: appendText(dst, "key", q.Key)}
	w.Given(kvjson.Rev, int64(q.Rev))
	w.Given(kvjson.MinRev, int64(q.MinRev))
	w.Flag(kvjson.Raw, q.Raw)
	w.Flag(kvjson.Reveal, q.Reveal)
	return w.End()
}

// AppendKVGot appends KVGET's reply: rev is the revision of the read; e is nil for an
// absent key.
func AppendKVGot(dst []byte, rev kv.Revision, e *kv.Entry, raw bool) []byte {
	if e == nil {
		dst = append(appendInt(append(dst, '{'), "code", int32(codes.NotFound)), `,"desc":"there is no such key"`...)
		return append(appendNumber(dst, "rev", int64(rev)), '}')
	}
	w := kvjson.Writer{Buf: kvStart(dst, rev)}
	if raw && e.Value.Type == kv.Bytes && !e.Deleted() {
		w.Buf = appendNumber(append(w.Buf, `,"type":"bytes"`...), "raw", int64(len(e.Value.Data)))
		w.Members(e, false)
		return append(w.End(), e.Value.Data...)
	}
	w.Members(e, true)
	return w.End()
}

// ParseKVGot reads KVGET's reply; the entry is nil for an absent key. Any other
// refusal is a *RefusedError. The entry is the caller's.
func ParseKVGot(body []byte, ns, key string) (*kv.Entry, kv.Revision, error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		refused, ok := err.(*RefusedError)
		if ok && refused.Result.Code == int32(codes.NotFound) && m.Top.Has(kvjson.Rev) {
			return nil, m.revision(), m.End()
		}
		return nil, 0, err
	}
	rev := m.revision()
	e := m.Entry(&m.Top, ns, key)
	if err := m.End(); err != nil {
		return nil, 0, err
	}
	return e, rev, nil
}

// KVMGetQuery is KVMGET's request.
type KVMGetQuery struct {
	NS     string      `kv:"ns"`
	Keys   []string    `kv:"keys"`
	MinRev kv.Revision `kv:"min_rev,count,omit"`
	Raw    bool        `kv:"raw"`
	Reveal bool        `kv:"reveal"` // as in KVRead
}

// KVMGet reads KVMGET's request. More than MaxGet keys: codes.TooManyOps. NS and
// Keys are checked.
func (r *Request) KVMGet() (KVMGetQuery, error) {
	var m reader
	m.begin(r)
	q := KVMGetQuery{NS: string(m.Text(&m.Top, kvjson.NS)), MinRev: kv.Revision(m.Count(&m.Top, kvjson.MinRev)), Raw: m.Flag(&m.Top, kvjson.Raw), Reveal: m.Flag(&m.Top, kvjson.Reveal)}
	m.Fail(kv.CheckNamespace(q.NS))
	for list := m.Elements(&m.Top, kvjson.Keys, MaxGet); m.Next(&list, nil); {
		if list.Kind() != jsontext.String {
			m.Bad(kvjson.Keys, "an array of strings")
			break
		}
		key := string(jsontext.Unquote(list.Raw()))
		m.Fail(kv.CheckKey(key))
		q.Keys = append(q.Keys, key)
	}
	return q, m.End()
}

// AppendKVGotMany appends KVMGET's reply: an entry for each key, nil for an absent
// one, all at revision rev.
func AppendKVGotMany(dst []byte, rev kv.Revision, entries []*kv.Entry, raw bool) []byte {
	w := kvjson.Writer{Buf: kvStart(dst, rev), Octets: raw}
	w.Entries(kvjson.Entries, entries, true)
	return w.End()
}

// ParseKVGotMany reads the reply to q: an entry for each of its keys, nil for an
// absent one. A refusal is a *RefusedError.
func ParseKVGotMany(body []byte, q KVMGetQuery) ([]*kv.Entry, kv.Revision, error) {
	var rev kv.Revision
	entries, err := parseReply(body, func(m *reader) []*kv.Entry {
		rev = m.revision()
		entries := m.Entries(kvjson.Entries, q.NS, "")
		if len(entries) != len(q.Keys) {
			m.Missing(kvjson.Entries)
		}
		return entries
	})
	return entries, rev, err
}
