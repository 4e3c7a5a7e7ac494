package protocol

import "confcenter/kv"

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

// AppendKVAlive appends KVALIVE's reply: the beginning of KVLEASEINFO's, which is a kv.Lease.
func AppendKVAlive(dst []byte, l kv.Lease) []byte {
	dst = appendNumber(append(dst, `{"code":0`...), "lease", int64(l.ID))
	return append(appendNumber(dst, "ttl", l.TTL.Milliseconds()), '}')
}
