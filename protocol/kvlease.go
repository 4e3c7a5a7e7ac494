package protocol

import (
	"time"

	"confcenter/kv"
)

// KVLeaseID reads the request of KVALIVE and KVLEASEINFO. KVLEASE and KVREVOKE are
// transactions: see KVWrite.
func (r *Request) KVLeaseID() (kv.LeaseID, error) {
	var m message
	m.begin(r)
	id := m.lease(&m.top)
	return id, m.end()
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
	b := builder{dst: append(dst, `{"code":0`...)}
	b.number(fieldLease, int64(l.ID))
	b.number(fieldTTL, l.TTL.Milliseconds())
	b.number(fieldLeft, l.Left.Milliseconds())
	b.number(fieldKeys, int64(l.Keys))
	return b.end()
}

// ParseKVLease reads the reply of KVALIVE and KVLEASEINFO; times are in whole ms. A
// refusal is a *RefusedError.
func ParseKVLease(body []byte) (kv.Lease, error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return kv.Lease{}, err
	}
	if !m.top.has(fieldLease) {
		m.missing(fieldLease)
	}
	l := kv.Lease{
		ID:   kv.LeaseID(m.number(&m.top, fieldLease)),
		TTL:  time.Duration(m.number(&m.top, fieldTTL)) * time.Millisecond,
		Left: time.Duration(m.number(&m.top, fieldLeft)) * time.Millisecond,
		Keys: int(m.number(&m.top, fieldKeys)),
	}
	return l, m.end()
}
