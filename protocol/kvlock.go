package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
)

// KVLockRequest is KVLOCK's request.
type KVLockRequest struct {
	NS, Key string
	Lease   kv.LeaseID
	// Value is what others read in the lock's key; an empty string if none is given.
	Value kv.Value
	Wait  bool // stand in line if somebody else holds the lock
	Raw   bool // the reply's values of type bytes may follow its JSON
}

// KVLock reads KVLOCK's request. NS, Key and Value are checked.
func (r *Request) KVLock() (KVLockRequest, error) {
	var m message
	m.begin(r)
	q := KVLockRequest{Lease: m.lease(&m.top), Value: kv.StringValue(""), Wait: m.top.flag(fieldWait), Raw: m.top.has(fieldRaw)}
	q.NS, q.Key = m.names(&m.top, "", fieldKey)
	if q.Raw || m.top.at[fieldValue] != 0 {
		q.Value = m.value(&m.top, kv.String)
	}
	if err := m.end(); err != nil {
		return q, err
	}
	if err := checkPair([]byte(q.NS), []byte(q.Key)); err != nil {
		return q, err
	}
	return q, q.Value.Check()
}

// AppendKVLock appends KVLOCK's request. With Raw a value of type bytes follows the
// JSON.
func AppendKVLock(dst []byte, q KVLockRequest) []byte {
	b := builder{dst: append(dst, '{'), raw: q.Raw}
	b.text(fieldNS, q.NS)
	b.text(fieldKey, q.Key)
	b.number(fieldLease, int64(q.Lease))
	if q.Value.Type != 0 {
		b.value(q.Value)
	}
	b.flag(fieldWait, q.Wait)
	return b.end()
}

// KVLocked is KVLOCK's reply.
type KVLocked struct {
	// Granted false, without an error, means that the request waits: KVGRANT tells
	// when it is over.
	Granted  bool
	Fence    kv.Revision // if Granted: the fencing token
	Revision kv.Revision // at which this was so
}

// AppendKVLocked appends KVLOCK's reply to a lock that is granted or waited for.
func AppendKVLocked(dst []byte, l KVLocked) []byte {
	b := builder{dst: kvStart(dst, l.Revision)}
	if l.Granted {
		b.number(fieldGranted, 1)
		b.number(fieldFence, int64(l.Fence))
	} else {
		b.number(fieldGranted, 0)
	}
	return b.end()
}

// AppendKVHeld appends KVLOCK's refusal of a lock that somebody else holds:
// codes.Locked. holder is the lock's key, nil if it is not known.
func AppendKVHeld(dst []byte, rev kv.Revision, holder *kv.Entry, raw bool) []byte {
	b := builder{dst: appendInt(append(dst, '{'), "code", int32(codes.Locked)), raw: raw}
	b.text(fieldDesc, codes.Locked.Error())
	b.number(fieldRev, int64(rev))
	b.entry(fieldCurrent, holder)
	return b.end()
}

// ParseKVLocked reads KVLOCK's reply. A refusal is a *RefusedError; of one with
// codes.Locked, holder is the lock's key if the reply tells.
func ParseKVLocked(body []byte, ns, key string) (l KVLocked, holder *kv.Entry, err error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		refused, ok := err.(*RefusedError)
		if ok && refused.Result.Code == int32(codes.Locked) {
			holder = m.entryIn(&m.top, fieldCurrent, 0, ns, key)
			if bad := m.end(); bad != nil {
				return l, nil, bad
			}
		}
		return l, holder, err
	}
	l = KVLocked{Granted: m.top.flag(fieldGranted), Fence: kv.Revision(m.number(&m.top, fieldFence)), Revision: m.revision()}
	if l.Granted && l.Fence < 1 {
		m.missing(fieldFence)
	}
	return l, nil, m.end()
}

// KVUnlockRequest is KVUNLOCK's request: with Fence, to give up a lock that is
// held; with Lease, to wait no longer for it, or to give it up if it was granted in
// the meantime. One of them is 0.
type KVUnlockRequest struct {
	NS, Key string
	Fence   kv.Revision
	Lease   kv.LeaseID
}

// KVUnlock reads KVUNLOCK's request. NS and Key are checked.
func (r *Request) KVUnlock() (KVUnlockRequest, error) {
	var m message
	m.begin(r)
	q := KVUnlockRequest{Fence: kv.Revision(m.number(&m.top, fieldFence)), Lease: kv.LeaseID(m.number(&m.top, fieldLease))}
	q.NS, q.Key = m.names(&m.top, "", fieldKey)
	if m.top.has(fieldFence) == m.top.has(fieldLease) {
		m.fail(codes.Errorf(codes.BadRequest, "give either fence, for a lock that is held, or lease, for a lock that is waited for"))
	}
	if err := m.end(); err != nil {
		return q, err
	}
	return q, checkPair([]byte(q.NS), []byte(q.Key))
}

// AppendKVUnlock appends KVUNLOCK's request.
func AppendKVUnlock(dst []byte, q KVUnlockRequest) []byte {
	b := builder{dst: append(dst, '{')}
	b.text(fieldNS, q.NS)
	b.text(fieldKey, q.Key)
	b.given(fieldFence, int64(q.Fence))
	b.given(fieldLease, int64(q.Lease))
	return b.end()
}

// AppendKVDone appends a reply that tells of success at a revision and nothing
// else: KVUNLOCK's.
func AppendKVDone(dst []byte, rev kv.Revision) []byte { return append(kvStart(dst, rev), '}') }

// ParseKVDone reads what AppendKVDone appended. A refusal is a *RefusedError.
func ParseKVDone(body []byte) (kv.Revision, error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		return 0, err
	}
	rev := m.revision()
	return rev, m.end()
}

// KVGranted is the KVGRANT a server pushes when the wait for a lock is over.
type KVGranted struct {
	NS, Key string
	Lease   kv.LeaseID
	Fence   kv.Revision // the fencing token, if Code is 0
	// Code and Desc say why the wait ended without the lock.
	Code codes.Code
	Desc string
}

// AppendKVGranted appends KVGRANT's body.
func AppendKVGranted(dst []byte, g KVGranted) []byte {
	b := builder{dst: append(dst, '{')}
	b.text(fieldNS, g.NS)
	b.text(fieldKey, g.Key)
	b.number(fieldLease, int64(g.Lease))
	if g.Code == 0 {
		b.number(fieldFence, int64(g.Fence))
	} else {
		b.number(fieldCode, int64(g.Code))
		b.text(fieldDesc, g.Desc)
	}
	return b.end()
}

// ParseKVGranted reads KVGRANT's body.
func ParseKVGranted(body []byte) (KVGranted, error) {
	var r Request
	if err := r.ParseTailed(body); err != nil {
		return KVGranted{}, err
	}
	var m message
	m.begin(&r)
	g := KVGranted{
		Lease: m.lease(&m.top), Fence: kv.Revision(m.number(&m.top, fieldFence)),
		Code: codes.Code(m.number(&m.top, fieldCode)), Desc: string(m.text(&m.top, fieldDesc)),
	}
	g.NS, g.Key = m.names(&m.top, "", fieldKey)
	if g.Code == 0 && g.Fence < 1 {
		m.missing(fieldFence)
	}
	return g, m.end()
}
