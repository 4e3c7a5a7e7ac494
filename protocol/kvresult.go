package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// notAsExpected is the desc of a write whose condition does not hold.
const notAsExpected = "the key is not as the request expects; current is what it is now"

// AppendReply appends the reply to a write. If a condition of KVPUT, KVDEL, KVCAS or
// KVRESTORE did not hold, the code is 412. Errors are answered with AppendResult.
func (q *KVWrite) AppendReply(dst []byte, res *kv.Result) []byte {
	w := kvjson.Writer{Octets: q.Raw}
	switch {
	case q.cmd == KVTxn:
		w.Buf = kvStart(dst, res.Revision)
		forms, held := q.other, int64(0)
		if res.Held {
			forms, held = q.then, 1
		}
		w.Number(kvjson.Held, held)
		w.Results(forms, res.Ops)
	case len(res.Ops) == 0:
		w.Buf = kvStart(dst, res.Revision)
	case !res.Held:
		w.Buf = appendInt(append(dst, '{'), "code", int32(codes.Conflict))
		w.Text(kvjson.Desc, notAsExpected)
		w.Number(kvjson.Rev, int64(res.Revision))
		w.Entry(kvjson.Current, res.Ops[0].Entry)
	default:
		w.Buf = kvStart(dst, res.Revision)
		w.Result(q.single, &res.Ops[0])
	}
	w.Flag(kvjson.Replayed, res.Replayed)
	return w.End()
}

// ParseKVResult reads the reply to txn, which AppendKVWrite sent as cmd. A condition that
// did not hold is not an error: Held is then false, and the result is that of Else.
// Entries of puts get their values from txn. A refusal is a *RefusedError.
func ParseKVResult(cmd Command, body []byte, txn *kv.Txn) (*kv.Result, error) {
	var r Request
	var m reader
	if err := m.reply(&r, body); err != nil {
		refused, ok := err.(*RefusedError)
		if !ok || refused.Result.Code != int32(codes.Conflict) || len(txn.Else) != 1 || !m.Top.Given(kvjson.Current) {
			return nil, err
		}
		found := kv.OpResult{Entry: m.EntryIn(&m.Top, kvjson.Current, 0, txn.Else[0].NS, txn.Else[0].Key)}
		return &kv.Result{Revision: m.revision(), Ops: []kv.OpResult{found}, Replayed: m.Flag(&m.Top, kvjson.Replayed)}, m.End()
	}
	res := &kv.Result{Revision: m.revision(), Held: true, Replayed: m.Flag(&m.Top, kvjson.Replayed)}
	if cmd == KVTxn {
		ops := txn.Else
		if res.Held = m.Flag(&m.Top, kvjson.Held); res.Held {
			ops = txn.Then
		}
		res.Ops = m.Results(ops)
	} else if len(txn.Then) == 1 {
		res.Ops = make([]kv.OpResult, 1)
		m.Result(&m.Top, 0, &txn.Then[0], &res.Ops[0])
	}
	if err := m.End(); err != nil {
		return nil, err
	}
	return res, nil
}
