package protocol

import (
	"confcenter/kv"
)

// KVHistoryQuery is KVHISTORY's request.
type KVHistoryQuery struct {
	NS, Key string
	Before  kv.Revision // only versions older than this one; 0: all
	Limit   int         // 0: kv.MaxHistory
	Raw     bool
}

// KVHistory reads KVHISTORY's request. NS and Key are checked.
func (r *Request) KVHistory() (KVHistoryQuery, error) {
	var m message
	m.begin(r)
	q := KVHistoryQuery{
		NS: string(m.text(&m.top, fieldNS)), Key: string(m.text(&m.top, fieldKey)),
		Before: kv.Revision(m.count(&m.top, fieldBefore)), Limit: int(m.count(&m.top, fieldLimit)), Raw: m.top.flag(fieldRaw),
	}
	if err := m.end(); err != nil {
		return q, err
	}
	return q, checkPair([]byte(q.NS), []byte(q.Key))
}

// AppendKVHistory appends KVHISTORY's request.
func AppendKVHistory(dst []byte, q KVHistoryQuery) []byte {
	b := builder{dst: append(dst, '{')}
	b.text(fieldNS, q.NS)
	b.text(fieldKey, q.Key)
	b.given(fieldBefore, int64(q.Before))
	b.given(fieldLimit, int64(q.Limit))
	b.flag(fieldRaw, q.Raw)
	return b.end()
}

// AppendKVVersions appends KVHISTORY's reply.
func AppendKVVersions(dst []byte, rev kv.Revision, v kv.Versions, raw bool) []byte {
	b := builder{dst: kvStart(dst, rev), raw: raw}
	b.open(fieldVersions, '[')
	for _, e := range v.Entries {
		b.element()
		b.members(e, true)
		b.close('}')
	}
	b.close(']')
	b.flag(fieldMore, v.More)
	b.given(fieldFloor, int64(v.Floor))
	return b.end()
}

// ParseKVVersions reads KVHISTORY's reply for that key. A refusal is a
// *RefusedError.
func ParseKVVersions(body []byte, ns, key string) (kv.Versions, error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return kv.Versions{}, err
	}
	v := kv.Versions{
		Entries: m.entriesIn(fieldVersions, ns, key),
		More:    m.top.flag(fieldMore),
		Floor:   kv.Revision(m.number(&m.top, fieldFloor)),
	}
	for _, e := range v.Entries {
		if e == nil {
			m.missing(fieldVersions)
		}
	}
	return v, m.end()
}
