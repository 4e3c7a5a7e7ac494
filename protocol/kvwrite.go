package protocol

import (
	"time"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// KVWrite is a request that changes the store: a transaction, and what has to be
// known of the request to answer it. It keeps nothing of the request's body.
type KVWrite struct {
	// Txn is for kv.Store.Commit. It is not looked at again for the reply.
	Txn *kv.Txn
	// Raw lets values of type bytes follow the reply's JSON.
	Raw bool

	cmd Command
	// single is the operation of every command but KVTXN, which has the two lists.
	single      opForm
	then, other []opForm
}

// opForm is an operation's kind and whether the entry before was asked for: what
// the form of its result depends on.
type opForm uint8

const wantPrev opForm = 0x80

func formOf(op *kv.Op) opForm {
	if op.WantPrev {
		return opForm(op.Kind) | wantPrev
	}
	return opForm(op.Kind)
}

func formsOf(ops []kv.Op) []opForm {
	forms := make([]opForm, len(ops))
	for i := range ops {
		forms[i] = formOf(&ops[i])
	}
	return forms
}

func (f opForm) kind() kv.OpKind { return kv.OpKind(f &^ wantPrev) }
func (f opForm) prev() bool      { return f&wantPrev != 0 }

// writeKind is the operation of a command that has one.
func writeKind(cmd Command) kv.OpKind {
	switch cmd {
	case KVPut, KVCas, KVRestore:
		return kv.OpPut
	case KVDel:
		return kv.OpDelete
	case KVDelPrefix, KVDrop:
		return kv.OpDeletePrefix
	case KVIncr:
		return kv.OpIncr
	case KVLease:
		return kv.OpGrant
	case KVRevoke:
		return kv.OpRevoke
	}
	return 0
}

// KVWrite reads the request of a command that is one transaction: KVPUT, KVDEL,
// KVDELPREFIX, KVDROP, KVTXN, KVCAS, KVINCR, KVLEASE, KVREVOKE. The error has a
// code. The number of operations is held against its limit; names, values and
// times are left to kv.Txn.Check, which Commit calls.
func (r *Request) KVWrite(cmd Command) (KVWrite, error) {
	var m message
	m.begin(r)
	w := KVWrite{cmd: cmd}
	switch {
	case cmd == KVTxn:
		m.txn(&w)
	case cmd == KVRestore || writeKind(cmd) == 0:
		return w, codes.Errorf(codes.BadOp, "%v is not a single transaction", cmd)
	default:
		m.single(&w)
	}
	return w, m.end()
}

// loneTxn and guardedTxn are a transaction with room for what most have, so that
// it is allocated in one piece.
type loneTxn struct {
	kv.Txn
	ops [1]kv.Op
}

type guardedTxn struct {
	kv.Txn
	compare [1]kv.Compare
	ops     [2]kv.Op
}

// single makes the transaction of a command with one operation. A condition makes
// it a transaction whose other branch reads what was found instead.
func (m *message) single(w *KVWrite) {
	o := &m.top
	switch w.cmd {
	case KVPut, KVCas:
		w.Raw = o.has(fieldRaw)
	default:
		w.Raw = o.flag(fieldRaw)
	}
	kind := writeKind(w.cmd)
	switch {
	case w.cmd == KVCas:
		m.guarded(w, kind, fieldExpect)
	case o.has(fieldIfMod) && (kind == kv.OpPut || kind == kv.OpDelete):
		m.guarded(w, kind, fieldIfMod)
	default:
		t := new(loneTxn)
		m.op(o, w.cmd, kind, "", &t.ops[0])
		t.Then = t.ops[:]
		w.Txn = &t.Txn
	}
	w.single = formOf(&w.Txn.Then[0])
	ns := w.Txn.Then[0].NS
	if kind == kv.OpGrant || kind == kv.OpRevoke {
		ns = string(m.text(o, fieldNS))
	}
	m.conditions(w.Txn, ns)
}

func (m *message) guarded(w *KVWrite, kind kv.OpKind, condition field) {
	o := &m.top
	t := new(guardedTxn)
	op, found, compare := &t.ops[0], &t.ops[1], &t.compare[0]
	if condition == fieldExpect && o.at[fieldExpect] < o.at[fieldRaw] { // whose octets come first
		*compare = m.expect()
		m.op(o, w.cmd, kind, "", op)
	} else {
		m.op(o, w.cmd, kind, "", op)
		if condition == fieldExpect {
			*compare = m.expect()
		} else {
			*compare = sinceMod(kv.Revision(m.count(o, fieldIfMod)))
		}
	}
	compare.NS, compare.Key = op.NS, op.Key
	*found = kv.Op{Kind: kv.OpGet, NS: op.NS, Key: op.Key}
	t.If, t.Then, t.Else = t.compare[:], t.ops[:1:1], t.ops[1:]
	w.Txn = &t.Txn
}

// sinceMod is the condition that a key was changed last by rev; 0: that it is
// absent.
func sinceMod(rev kv.Revision) kv.Compare {
	return kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: int64(rev)}
}

// expect is KVCAS' condition.
func (m *message) expect() kv.Compare {
	i := m.top.at[fieldExpect]
	switch {
	case i == 0:
		m.fail(codes.Errorf(codes.BadRequest, "member expect is missing: give the expected value, or null if there is none"))
	case m.top.members[i-1].Kind == jsontext.Null:
		return kv.Absent("", "")
	case m.top.members[i-1].Kind != jsontext.Object:
		m.badMember(fieldExpect, "an object with a value")
	default:
		var o object
		m.enter(0, m.top.members[i-1].Raw, &o)
		return kv.Compare{Target: kv.CompareValue, Relation: kv.Equal, Value: m.given(&o, 0)}
	}
	return kv.Compare{}
}

// given is a value that must be there.
func (m *message) given(o *object, untyped kv.Type) kv.Value {
	if o.at[fieldValue] == 0 && !o.has(fieldRaw) {
		m.fail(codes.Errorf(codes.BadRequest, "member value is missing"))
	}
	return m.value(o, untyped)
}

// op reads one operation's members. ns is for one that has none itself. cmd is the
// command, KVTXN for an operation within one.
func (m *message) op(o *object, cmd Command, kind kv.OpKind, ns string, op *kv.Op) {
	op.Kind = kind
	switch kind {
	case kv.OpGrant:
		op.TTL = m.ttl(o)
		return
	case kv.OpRevoke:
		op.Lease = m.lease(o)
		return
	case kv.OpDeletePrefix:
		if cmd == KVDrop {
			op.NS, op.Key = string(m.text(o, fieldNS)), ""
		} else {
			if !o.has(fieldPrefix) {
				m.fail(codes.Errorf(codes.BadRequest, "member prefix is missing; give \"\" to delete everything"))
			}
			op.NS, op.Key = m.names(o, ns, fieldPrefix)
		}
		op.Limit = int(m.count(o, fieldLimit))
		return
	}
	op.NS, op.Key = m.names(o, ns, fieldKey)
	if kind == kv.OpGet {
		return
	}
	op.WantPrev = o.flag(fieldPrev)
	if kind == kv.OpDelete {
		return
	}
	op.TTL, op.Expires = m.ttl(o), m.number(o, fieldExpires)
	op.Lease = kv.LeaseID(m.count(o, fieldLease))
	if kind == kv.OpIncr {
		op.Delta = 1
		if o.has(fieldBy) {
			op.Delta = m.number(o, fieldBy)
		}
		op.Initial = m.number(o, fieldInitial)
		op.Min, op.Max = m.optional(o, fieldMin), m.optional(o, fieldMax)
	} else if cmd != KVRestore {
		op.Value = m.given(o, kv.String)
	}
}

// names copies a namespace and a name in it. Both live as long as the key, so they
// share one allocation.
func (m *message) names(o *object, ns string, f field) (string, string) {
	space, name := m.text(o, fieldNS), m.text(o, f)
	if space == nil {
		return ns, string(name)
	}
	both := string(space) + string(name)
	return both[:len(space)], both[len(space):]
}

// ttl is 0 if absent.
func (m *message) ttl(o *object) time.Duration {
	n := m.number(o, fieldTTL)
	if n < 0 || n > kv.MaxTTL.Milliseconds() {
		m.fail(codes.Errorf(codes.BadTTL, "ttl of %d ms is out of range: the limits are 0 and %d", n, kv.MaxTTL.Milliseconds()))
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// lease is a lease that must be named.
func (m *message) lease(o *object) kv.LeaseID {
	if !o.has(fieldLease) {
		m.fail(codes.Errorf(codes.BadRequest, "member lease is missing"))
	}
	return kv.LeaseID(m.number(o, fieldLease))
}

// conditions reads token and if_fence, which every write may have. ns is the
// token's, and that of a fence without one.
func (m *message) conditions(t *kv.Txn, ns string) {
	if token := m.text(&m.top, fieldToken); len(token) > 0 {
		t.Token, t.TokenNS = string(token), ns
	}
	fence := m.top.member(fieldIfFence)
	switch {
	case fence == nil:
	case fence.Kind == jsontext.Object:
		m.fence(t, ns, fence.Raw)
	default:
		m.array(&m.top, fieldIfFence, func(raw []byte, _ jsontext.Kind) {
			if len(t.Fences) == kv.MaxCompares {
				m.fail(codes.Errorf(codes.TooManyOps, "if_fence has more elements than the limit of %d", kv.MaxCompares))
				return
			}
			m.fence(t, ns, raw)
		})
	}
}

func (m *message) fence(t *kv.Txn, ns string, raw []byte) {
	var o object
	m.enter(0, raw, &o)
	if !o.has(fieldFence) {
		m.fail(codes.Errorf(codes.BadRequest, "if_fence has no member fence: give the token of the lock"))
	}
	space, key := m.names(&o, ns, fieldKey)
	t.Fences = append(t.Fences, kv.Fence{NS: space, Key: key, Token: kv.Revision(m.number(&o, fieldFence))})
}

// KVRestoration is KVRESTORE's request: a put whose value is that of a past version,
// which the caller has to look up.
type KVRestoration struct {
	NS, Key string
	Rev     kv.Revision // the key's value when this was current
	write   KVWrite
}

// KVRestore reads KVRESTORE's request. NS and Key are checked.
func (r *Request) KVRestore() (KVRestoration, error) {
	var m message
	m.begin(r)
	q := KVRestoration{Rev: kv.Revision(m.count(&m.top, fieldRev)), write: KVWrite{cmd: KVRestore}}
	if q.Rev == 0 {
		m.fail(codes.Errorf(codes.BadRequest, "member rev is missing: give a revision at which the key had the value"))
	}
	m.single(&q.write)
	q.NS, q.Key = q.write.Txn.Then[0].NS, q.write.Txn.Then[0].Key
	if err := m.end(); err != nil {
		return q, err
	}
	return q, checkPair([]byte(q.NS), []byte(q.Key))
}

// Write is the transaction that restores the value v. It may be called once: the
// transaction is the same each time.
func (q *KVRestoration) Write(v kv.Value) KVWrite {
	q.write.Txn.Then[0].Value = v
	return q.write
}
