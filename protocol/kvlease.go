package protocol

import (
	"time"

	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVLeaseID reads the request of KVALIVE and KVLEASEINFO. KVLEASE and KVREVOKE are
// transactions: see KVWrite.
func (r *Request) KVLeaseID() (kv.LeaseID, error) {
	var m reader
	m.begin(r)
	id := m.Lease(&m.Top)
	return id, m.End()
}

// AppendKVLeaseID appends the request of KVALIVE and KVLEASEINFO.
func AppendKVLeaseID(dst []byte, id kv.LeaseID) []byte {
	return append(appendNumber(append(dst, '{'), "lease", int64(id)), '}')
}

// AppendKVAlive appends KVALIVE's reply.
func AppendKVAlive(dst []byte, l kv.Lease) []byte {
	dst = appendNumber(append(dst, `{"code":0`...), "lease", int64(l.ID))
	return append(appendNumber(dst, "ttl", l.TTL.Milliseconds()), '}')
}

// AppendKVLeaseInfo appends KVLEASEINFO's reply.
func AppendKVLeaseInfo(dst []byte, l kv.Lease) []byte {
	w := kvjson.Writer{Buf: append(dst, `{"code":0`...)}
	w.Number(kvjson.Lease, int64(l.ID))
	w.Number(kvjson.TTL, l.TTL.Milliseconds())
	w.Number(kvjson.Left, l.Left.Milliseconds())
	w.Number(kvjson.Keys, int64(l.Keys))
	return w.End()
}

// ParseKVLease reads the reply of KVALIVE and KVLEASEINFO; times are in whole ms. A
// refusal is a *RefusedError.
func ParseKVLease(body []byte) (kv.Lease, error) {
	return parseReply(body, func(m *reader) kv.Lease {
		if !m.Top.Has(kvjson.Lease) {
			m.Missing(kvjson.Lease)
		}
		return kv.Lease{
			ID:   kv.LeaseID(m.Number(&m.Top, kvjson.Lease)),
			TTL:  time.Duration(m.Number(&m.Top, kvjson.TTL)) * time.Millisecond,
			Left: time.Duration(m.Number(&m.Top, kvjson.Left)) * time.Millisecond,
			Keys: int(m.Number(&m.Top, kvjson.Keys)),
		}
	})
}
