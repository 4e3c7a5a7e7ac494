package protocol

import (
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVWrite is a request that changes the store: a transaction, and what is needed to
// answer it. It keeps nothing of the request's body.
type KVWrite struct {
	// Txn is for kv.Store.Commit. The reply does not need it.
	Txn *kv.Txn
	// Raw lets values of type bytes follow the reply's JSON.
	Raw bool
	// Reveal asks for sealed values in the reply as far as the client may know them, not their marks.
	Reveal bool

	cmd Command
	// single is the operation of every command but KVTXN, which has the two lists.
	single      kvjson.OpForm
	then, other []kvjson.OpForm

	lone *loneTxn // room for an unconditional transaction, reused from request to request
}

// Forget clears w but keeps room for a transaction: w may be passed to ReadKVWrite again
// once Txn is no longer in use.
func (w *KVWrite) Forget() {
	if w.lone != nil {
		*w.lone = loneTxn{}
	}
	*w = KVWrite{lone: w.lone}
}

// IsWrite reports whether c is one transaction, which KVWrite reads.
func (c Command) IsWrite() bool { return c == KVTxn || c != KVRestore && c.op() != 0 }

// op is the operation of a command that has one.
func (c Command) op() kv.OpKind {
	if row := Lookup(c); row != nil {
		return row.Op
	}
	return 0
}

// KVWrite reads the request of a command for which IsWrite is true. The error has a code.
// Only the number of operations is checked; names, values and times are left to
// kv.Txn.Check, which Commit calls.
func (r *Request) KVWrite(cmd Command) (KVWrite, error) {
	var w KVWrite
	err := r.ReadKVWrite(&w, cmd)
	return w, err
}

// ReadKVWrite is KVWrite into w, which is new or has been cleared by Forget.
func (r *Request) ReadKVWrite(w *KVWrite, cmd Command) error {
	var m reader
	m.begin(r)
	w.cmd = cmd
	switch {
	case cmd == KVTxn:
		w.Txn, w.Raw, w.Reveal = new(kv.Txn), m.Flag(&m.Top, kvjson.Raw), m.Flag(&m.Top, kvjson.Reveal)
		m.Txn("", w.Txn)
		w.then, w.other = kvjson.FormsOf(w.Txn.Then), kvjson.FormsOf(w.Txn.Else)
	case !cmd.IsWrite():
		return codes.Errorf(codes.BadOp, "%v is not a single transaction", cmd)
	default:
		m.single(w)
	}
	return m.End()
}

// loneTxn and guardedTxn are transactions with room for their operations, so that they
// are allocated in one piece.
type loneTxn struct {
	kv.Txn
	ops [1]kv.Op
}

type guardedTxn struct {
	kv.Txn
	compare [1]kv.Compare
	ops     [2]kv.Op
}

// single makes the transaction of a command with one operation. With a condition, the
// other branch reads the key.
func (m *reader) single(w *KVWrite) {
	o := &m.Top
	w.Reveal = m.Flag(o, kvjson.Reveal)
	kind := w.cmd.op()
	if kind.Has(kv.MemberValue) && w.cmd != KVRestore {
		w.Raw = o.Has(kvjson.Raw) // the length of the value
	} else {
		w.Raw = m.Flag(o, kvjson.Raw)
	}
	switch {
	case w.cmd == KVCas:
		m.guarded(w, kvjson.Expect)
	case o.Has(kvjson.IfMod) && (kind == kv.OpPut || kind == kv.OpDelete):
		m.guarded(w, kvjson.IfMod)
	default:
		if w.lone == nil {
			w.lone = new(loneTxn)
		}
		t := w.lone
		m.op(w.cmd, &t.ops[0])
		t.Then = t.ops[:]
		w.Txn = &t.Txn
	}
	w.single = kvjson.FormOf(&w.Txn.Then[0])
	ns := w.Txn.Then[0].NS
	if !kind.Has(kv.MemberKey | kv.MemberPrefix) {
		ns = string(m.Text(o, kvjson.NS))
	}
	m.Conditions(w.Txn, ns)
}

func (m *reader) guarded(w *KVWrite, condition kvjson.Field) {
	o := &m.Top
	t := new(guardedTxn)
	op, found, compare := &t.ops[0], &t.ops[1], &t.compare[0]
	if condition == kvjson.Expect && o.Before(kvjson.Expect, kvjson.Raw) { // its octets come first
		*compare = m.Expect()
		m.op(w.cmd, op)
	} else {
		m.op(w.cmd, op)
		if condition == kvjson.Expect {
			*compare = m.Expect()
		} else {
			*compare = kv.Compare{Target: kv.CompareMod, Relation: kv.Equal, Number: m.Count(o, kvjson.IfMod)} // 0: it is absent
		}
	}
	compare.NS, compare.Key = op.NS, op.Key
	*found = kv.Op{Kind: kv.OpGet, NS: op.NS, Key: op.Key}
	t.If, t.Then, t.Else = t.compare[:], t.ops[:1:1], t.ops[1:]
	w.Txn = &t.Txn
}

// op reads the one operation of cmd.
func (m *reader) op(cmd Command, op *kv.Op) {
	o := &m.Top
	switch cmd {
	case KVDrop:
		op.Kind, op.NS = kv.OpDeletePrefix, string(m.Text(o, kvjson.NS))
		op.Limit, op.Confirm = int(m.Count(o, kvjson.Limit)), string(m.Text(o, kvjson.Confirm))
	case KVRestore: // its value is looked up later
		op.Kind = kv.OpPut
		op.NS, op.Key = m.Names(o, "", kvjson.Key)
		op.WantPrev = m.Flag(o, kvjson.Prev)
		m.Ends(o, op)
	default:
		m.Op(o, cmd.op(), "", op)
	}
}

// KVRestoration is KVRESTORE's request: a put of a past version's value, which the caller
// has to look up.
type KVRestoration struct {
	NS, Key string
	Rev     kv.Revision // the key's value when this was current
	write   KVWrite
}

// KVRestore reads KVRESTORE's request. NS and Key are checked.
func (r *Request) KVRestore() (KVRestoration, error) {
	var m reader
	m.begin(r)
	q := KVRestoration{Rev: kv.Revision(m.Count(&m.Top, kvjson.Rev)), write: KVWrite{cmd: KVRestore}}
	if q.Rev == 0 {
		m.Fail(codes.Errorf(codes.BadRequest, "member rev is missing: give a revision at which the key had the value"))
	}
	m.single(&q.write)
	q.NS, q.Key = q.write.Txn.Then[0].NS, q.write.Txn.Then[0].Key
	return q, m.endPair(q.NS, q.Key)
}

// Write is the transaction that restores the value v. It may be called once: the
// transaction is the same each time.
func (q *KVRestoration) Write(v kv.Value) KVWrite {
	q.write.Txn.Then[0].Value = v
	return q.write
}
