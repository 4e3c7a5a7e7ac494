package protocol

import (
	"slices"

	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVHistoryQuery is KVHISTORY's request.
type KVHistoryQuery struct {
	NS     string      `kv:"ns"`
	Key    string      `kv:"key"`
	Before kv.Revision `kv:"before,count,omit"` // only versions older than this one; 0: all
	Limit  int         `kv:"limit,count,omit"`  // 0: kv.MaxHistory
	Raw    bool        `kv:"raw"`
	Reveal bool        `kv:"reveal"` // as in KVRead
}

// Check checks the names.
func (q *KVHistoryQuery) Check() error { return checkPair([]byte(q.NS), []byte(q.Key)) }

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
