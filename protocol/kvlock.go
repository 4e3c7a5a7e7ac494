package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVLockRequest is KVLOCK's request.
type KVLockRequest struct {
	NS, Key string
	Lease   kv.LeaseID
	// Value is stored in the lock's key for others to read; default an empty string.
	Value kv.Value
	Wait  bool // wait in line if someone else holds the lock
	Raw   bool // the reply's values of type bytes may follow its JSON
}

// KVLock reads KVLOCK's request. NS, Key and Value are checked.
func (r *Request) KVLock() (KVLockRequest, error) {
	var m reader
	m.begin(r)
	q := KVLockRequest{Lease: m.Lease(&m.Top), Value: kv.StringValue(""), Wait: m.Flag(&m.Top, kvjson.Wait), Raw: m.Top.Has(kvjson.Raw)}
	q.NS, q.Key = m.Names(&m.Top, "", kvjson.Key)
	if q.Raw || m.Top.Given(kvjson.Value) {
		q.Value = m.Value(&m.Top, kv.String)
	}
	if err := m.endPair(q.NS, q.Key); err != nil {
		return q, err
	}
	return q, q.Value.Check()
}

// AppendKVLock appends KVLOCK's request. With Raw a value of type bytes follows the
// JSON.
func AppendKVLock(dst []byte, q KVLockRequest) []byte {
	w := kvjson.Writer{Buf: append(dst, '{'), Octets: q.Raw}
	w.Text(kvjson.NS, q.NS)
	w.Text(kvjson.Key, q.Key)
	w.Number(kvjson.Lease, int64(q.Lease))
	if q.Value.Type != 0 {
		w.Value(q.Value)
	}
	w.Flag(kvjson.Wait, q.Wait)
	return w.End()
}

// KVLocked is KVLOCK's reply.
type KVLocked struct {
	// Granted false, without an error, means that the request waits: KVGRANT follows.
	Granted  bool
	Fence    kv.Revision // if Granted: the fencing token
	Revision kv.Revision // of the answer
}

// AppendKVLocked appends KVLOCK's reply to a lock that is granted or waited for.
func AppendKVLocked(dst []byte, l KVLocked) []byte {
	w := kvjson.Writer{Buf: kvStart(dst, l.Revision)}
	if l.Granted {
		w.Number(kvjson.Granted, 1)
		w.Number(kvjson.Fence, int64(l.Fence))
	} else {
		w.Number(kvjson.Granted, 0)
	}
	return w.End()
}

// AppendKVHeld appends the refusal of a lock that another client holds, or of a write to it:
// codes.Locked. holder is the lock's key, nil if it is not known.
func AppendKVHeld(dst []byte, desc string, rev kv.Revision, holder *kv.Entry, raw bool) []byte {
	w := kvjson.Writer{Buf: appendInt(append(dst, '{'), "code", int32(codes.Locked)), Octets: raw}
	w.Text(kvjson.Desc, desc)
	w.Number(kvjson.Rev, int64(rev))
	w.Entry(kvjson.Current, holder)
	return w.End()
}

// ParseKVLocked reads KVLOCK's reply. A refusal is a *RefusedError; of one with
// codes.Locked, holder is the lock's key if the reply has it.
func ParseKVLocked(body []byte, ns, key string) (l KVLocked, holder *kv.Entry, err error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		refused, ok := err.(*RefusedError)
		if ok && refused.Result.Code == int32(codes.Locked) {
			holder = m.EntryIn(&m.Top, kvjson.Current, 0, ns, key)
			if bad := m.End(); bad != nil {
				return l, nil, bad
			}
		}
		return l, holder, err
	}
	l = KVLocked{Granted: m.Flag(&m.Top, kvjson.Granted), Fence: kv.Revision(m.Number(&m.Top, kvjson.Fence)), Revision: m.revision()}
	if l.Granted && l.Fence < 1 {
		m.Missing(kvjson.Fence)
	}
	return l, nil, m.End()
}

// KVUnlockRequest is KVUNLOCK's request. Fence releases a lock that is held. Lease stops
// waiting for it, or releases it if it has been granted in the meantime. One of them is
// 0.
type KVUnlockRequest struct {
	NS    string      `kv:"ns"`
	Key   string      `kv:"key"`
	Fence kv.Revision `kv:"fence,omit"`
	Lease kv.LeaseID  `kv:"lease,omit"`
}

// KVUnlock reads KVUNLOCK's request. NS and Key are checked.
func (r *Request) KVUnlock() (KVUnlockRequest, error) {
	var m reader
	m.begin(r)
	q := KVUnlockRequest{Fence: kv.Revision(m.Number(&m.Top, kvjson.Fence)), Lease: kv.LeaseID(m.Number(&m.Top, kvjson.Lease))}
	q.NS, q.Key = m.Names(&m.Top, "", kvjson.Key)
	if m.Top.Has(kvjson.Fence) == m.Top.Has(kvjson.Lease) {
		m.Fail(codes.Errorf(codes.BadRequest, "give either fence, to release a lock, or lease, to stop waiting for one"))
	}
	return q, m.endPair(q.NS, q.Key)
}

// AppendKVDone appends a successful reply with nothing but a revision: KVUNLOCK's.
func AppendKVDone(dst []byte, rev kv.Revision) []byte { return append(kvStart(dst, rev), '}') }

// ParseKVDone reads what AppendKVDone appended. A refusal is a *RefusedError.
func ParseKVDone(body []byte) (kv.Revision, error) {
	return parseReply(body, (*reader).revision)
}

// KVGranted is the KVGRANT a server pushes when the wait for a lock is over.
type KVGranted struct {
	NS    string      `kv:"ns"`
	Key   string      `kv:"key"`
	Lease kv.LeaseID  `kv:"lease,must"`
	Fence kv.Revision `kv:"fence,omit"` // the fencing token, if Code is 0
	// Code and Desc say why the wait ended without the lock.
	Code codes.Code `kv:"code,omit"`
	Desc string     `kv:"desc,omit"`
}

// Check refuses a grant without a token.
func (g *KVGranted) Check() error {
	if g.Code == 0 && g.Fence < 1 {
		return &ReplyError{Member: kvjson.Fence.String()}
	}
	return nil
}

// ParseKVGranted reads KVGRANT's body.
func ParseKVGranted(body []byte) (KVGranted, error) {
	var r Request
	if err := r.ParseTailed(body); err != nil {
		return KVGranted{}, err
	}
	return Read[KVGranted](&r)
}
