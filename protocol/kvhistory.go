package protocol

import (
	"slices"

	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVHistoryQuery is KVHISTORY's request.
type KVHistoryQuery struct {
	NS, Key string
	Before  kv.Revision // only versions older than this one; 0: all
	Limit   int         // 0: kv.MaxHistory
	Raw     bool
	Reveal  bool // as in KVRead
}

// KVHistory reads KVHISTORY's request. NS and Key are checked.
func (r *Request) KVHistory() (KVHistoryQuery, error) {
	var m reader
	m.begin(r)
	q := KVHistoryQuery{
		NS: string(m.Text(&m.Top, kvjson.NS)), Key: string(m.Text(&m.Top, kvjson.Key)),
		Before: kv.Revision(m.Count(&m.Top, kvjson.Before)), Limit: int(m.Count(&m.Top, kvjson.Limit)), Raw: m.Flag(&m.Top, kvjson.Raw),
		Reveal: m.Flag(&m.Top, kvjson.Reveal),
	}
	return q, m.endPair(q.NS, q.Key)
}

// AppendKVHistory appends KVHISTORY's request.
func AppendKVHistory(dst []byte, q KVHistoryQuery) []byte {
	w := kvjson.Writer{Buf: append(dst, '{')}
	w.Text(kvjson.NS, q.NS)
	w.Text(kvjson.Key, q.Key)
	w.Given(kvjson.Before, int64(q.Before))
	w.Given(kvjson.Limit, int64(q.Limit))
	w.Flag(kvjson.Raw, q.Raw)
	w.Flag(kvjson.Reveal, q.Reveal)
	return w.End()
}

// AppendKVVersions appends KVHISTORY's reply.
func AppendKVVersions(dst []byte, rev kv.Revision, v kv.Versions, raw bool) []byte {
	w := kvjson.Writer{Buf: kvStart(dst, rev), Octets: raw}
	w.Open(kvjson.Versions, '[')
	for _, e := range v.Entries {
		w.Element()
		w.Members(e, true)
		w.Close('}')
	}
	w.Close(']')
	w.Flag(kvjson.More, v.More)
	w.Given(kvjson.Floor, int64(v.Floor))
	return w.End()
}

// ParseKVVersions reads KVHISTORY's reply for that key. A refusal is a
// *RefusedError.
func ParseKVVersions(body []byte, ns, key string) (kv.Versions, error) {
	return parseReply(body, func(m *reader) kv.Versions {
		return kv.Versions{
			Entries: m.entries(kvjson.Versions, ns, key),
			More:    m.Flag(&m.Top, kvjson.More),
			Floor:   kv.Revision(m.Number(&m.Top, kvjson.Floor)),
		}
	})
}

// entries reads a list of entries, none of which may be null.
func (m *reader) entries(list kvjson.Field, ns, key string) []*kv.Entry {
	entries := m.Entries(list, ns, key)
	if slices.Contains(entries, nil) {
		m.Missing(list)
	}
	return entries
}
