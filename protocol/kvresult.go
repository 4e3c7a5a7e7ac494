package protocol

import (
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// notAsExpected is the desc of a write whose condition does not hold.
const notAsExpected = "the key is not as the request expects; current is what it is now"

// AppendReply appends the reply to a write that the store has done, or has not done
// because a condition of KVPUT, KVDEL, KVCAS or KVRESTORE did not hold: then the
// code is 412. Errors are answered with AppendResult.
func (w *KVWrite) AppendReply(dst []byte, res *kv.Result) []byte {
	b := builder{raw: w.Raw}
	switch {
	case w.cmd == KVTxn:
		b.dst = kvStart(dst, res.Revision)
		w.results(&b, res)
	case len(res.Ops) == 0:
		b.dst = kvStart(dst, res.Revision)
	case !res.Held:
		b.dst = appendInt(append(dst, '{'), "code", int32(codes.Conflict))
		b.text(fieldDesc, notAsExpected)
		b.number(fieldRev, int64(res.Revision))
		b.entry(fieldCurrent, res.Ops[0].Entry)
	default:
		b.dst = kvStart(dst, res.Revision)
		b.result(w.single, &res.Ops[0])
	}
	b.flag(fieldReplayed, res.Replayed)
	return b.end()
}

func (w *KVWrite) results(b *builder, res *kv.Result) {
	forms, held := w.other, int64(0)
	if res.Held {
		forms, held = w.then, 1
	}
	b.number(fieldHeld, held)
	b.open(fieldResults, '[')
	for i := range min(len(forms), len(res.Ops)) {
		if forms[i].kind() == kv.OpGet && res.Ops[i].Entry == nil {
			b.dst = append(appendComma(b.dst), "null"...)
			continue
		}
		b.element()
		b.result(forms[i], &res.Ops[i])
		b.close('}')
	}
	b.close(']')
}

// result appends the members of what one operation did.
func (b *builder) result(form opForm, op *kv.OpResult) {
	switch form.kind() {
	case kv.OpGet, kv.OpIncr:
		if op.Entry != nil {
			b.members(op.Entry, true)
		}
	case kv.OpPut:
		if op.Entry != nil {
			b.members(op.Entry, false)
		}
	case kv.OpDelete, kv.OpRevoke:
		b.number(fieldDeleted, op.Count)
	case kv.OpDeletePrefix:
		b.number(fieldDeleted, op.Count)
		b.flag(fieldMore, op.More)
	case kv.OpGrant:
		b.number(fieldLease, int64(op.Lease.ID))
		b.number(fieldTTL, op.Lease.TTL.Milliseconds())
	}
	if form.prev() {
		b.entry(fieldPrev, op.Prev)
	}
}

// ParseKVResult reads the reply to txn, which AppendKVWrite sent as cmd. If a
// condition did not hold, that is not an error: Held says so, and the result is that
// of Else. Put entries get the values of txn. A refusal is a *RefusedError.
func ParseKVResult(cmd Command, body []byte, txn *kv.Txn) (*kv.Result, error) {
	var r Request
	var m message
	if err := m.reply(&r, body); err != nil {
		refused, ok := err.(*RefusedError)
		if !ok || refused.Result.Code != int32(codes.Conflict) || len(txn.Else) != 1 || m.top.at[fieldCurrent] == 0 {
			return nil, err
		}
		found := kv.OpResult{Entry: m.entryIn(&m.top, fieldCurrent, 0, txn.Else[0].NS, txn.Else[0].Key)}
		return &kv.Result{Revision: m.revision(), Ops: []kv.OpResult{found}, Replayed: m.top.flag(fieldReplayed)}, m.end()
	}
	res := &kv.Result{Revision: m.revision(), Held: true, Replayed: m.top.flag(fieldReplayed)}
	if cmd == KVTxn {
		m.results(res, txn)
	} else if len(txn.Then) == 1 {
		res.Ops = make([]kv.OpResult, 1)
		m.result(&m.top, 0, &txn.Then[0], &res.Ops[0])
	}
	if err := m.end(); err != nil {
		return nil, err
	}
	return res, nil
}

func (m *message) results(res *kv.Result, txn *kv.Txn) {
	res.Held = m.top.flag(fieldHeld)
	ops := txn.Else
	if res.Held {
		ops = txn.Then
	}
	if elements(&m.top, fieldResults, len(ops)) != len(ops) {
		m.missing(fieldResults)
		return
	}
	res.Ops = make([]kv.OpResult, 0, len(ops))
	m.array(&m.top, fieldResults, func(raw []byte, kind jsontext.Kind) {
		i := len(res.Ops)
		res.Ops = res.Ops[:i+1]
		if kind != jsontext.Null {
			var o object
			m.enter(0, raw, &o)
			m.result(&o, 1, &ops[i], &res.Ops[i])
		} else if ops[i].Kind != kv.OpGet {
			m.missing(fieldResults)
		}
	})
}

// result reads what op did from o; level is free for objects within o.
func (m *message) result(o *object, level int, op *kv.Op, res *kv.OpResult) {
	switch op.Kind {
	case kv.OpGet:
		res.Entry = m.entry(o, op.NS, op.Key)
	case kv.OpPut:
		if o.has(fieldMod) {
			if res.Entry = m.entry(o, op.NS, op.Key); !res.Entry.Deleted() {
				res.Entry.Value = op.Value
			}
		}
	case kv.OpIncr:
		if o.has(fieldMod) {
			res.Entry = m.entry(o, op.NS, op.Key)
		}
	case kv.OpDelete, kv.OpRevoke, kv.OpDeletePrefix:
		if !o.has(fieldDeleted) {
			m.missing(fieldDeleted)
		}
		res.Count, res.More = m.number(o, fieldDeleted), o.flag(fieldMore)
	case kv.OpGrant:
		res.Lease = kv.Lease{ID: m.lease(o), TTL: time.Duration(m.number(o, fieldTTL)) * time.Millisecond}
	}
	if op.WantPrev {
		res.Prev = m.entryIn(o, fieldPrev, level, op.NS, op.Key)
	}
}
