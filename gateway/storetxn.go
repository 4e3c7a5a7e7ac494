package gateway

import (
	"net/http"

	"confcenter/codes"
	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// maxReadBack bounds what the gets of one transaction may answer with.
const maxReadBack = 8 << 20

// storeTxn carries out a transaction. Its members have the names that they have in
// KVTXN's request.
func (g *Gateway) storeTxn(w http.ResponseWriter, r *http.Request) error {
	if err := parametersOf(r).end(); err != nil {
		return err
	}
	b := newBuffer()
	defer b.free()
	o, err := objectOf(r, b)
	if err != nil {
		return err
	}
	txn := &kv.Txn{}
	ns := o.text("ns")
	o.each("if", kv.MaxCompares, func(c *object) { txn.If = append(txn.If, c.compare(ns)) })
	o.each("then", kv.MaxOps, func(op *object) { txn.Then = append(txn.Then, op.operation(ns)) })
	o.each("else", kv.MaxOps, func(op *object) { txn.Else = append(txn.Else, op.operation(ns)) })
	o.fences(txn, ns)
	if txn.Token = o.text("token"); txn.Token != "" {
		txn.TokenNS = ns
	}
	if err := o.end(); err != nil {
		return err
	}
	shapes := [2][]opForm{formsOf(txn.Then), formsOf(txn.Else)} // the store owns txn from here
	res, err := g.commit(r, txn)
	if err != nil {
		return err
	}
	size := resultSize(res)
	if size > maxReadBack {
		return codes.Errorf(codes.TooLarge, "the transaction was applied, at revision %d, but what it read has %d bytes and the limit of one reply is %d; read it again in parts",
			res.Revision, size, maxReadBack)
	}
	b.b = b.b[:0]
	b.grow(size)
	b.b = appendBool(b.b, `{"held":`, res.Held)
	b.b = appendNumber(b.b, `,"revision":`, int64(res.Revision))
	if res.Replayed {
		b.b = append(b.b, `,"replayed":true`...)
	}
	branch := shapes[1]
	if res.Held {
		branch = shapes[0]
	}
	b.b = append(b.b, `,"results":[`...)
	for i := range min(len(branch), len(res.Ops)) {
		if i > 0 {
			b.b = append(b.b, ',')
		}
		b.b = appendResult(b.b, branch[i], &res.Ops[i])
	}
	b.b = append(b.b, `]}`...)
	return sendFresh(w, b.b)
}

// names reads a namespace, which the whole transaction may have instead, and a key.
func (o *object) names(ns, member string) (string, string) {
	if own := o.text("ns"); own != "" {
		ns = own
	}
	return ns, o.text(member)
}

var targets = map[string]kv.Target{"value": kv.CompareValue, "version": kv.CompareVersion, "create": kv.CompareCreate, "mod": kv.CompareMod}

var relations = map[string]kv.Relation{"": kv.Equal, "=": kv.Equal, "!=": kv.NotEqual, "<": kv.Less, ">": kv.Greater}

func (o *object) compare(ns string) kv.Compare {
	var c kv.Compare
	c.NS, c.Key = o.names(ns, "key")
	var known bool
	if c.Target, known = targets[o.text("target")]; !known {
		o.bad("target", "value, version, create or mod")
	}
	if c.Relation, known = relations[o.text("op")]; !known {
		o.bad("op", "=, !=, < or >")
	}
	switch {
	case c.Target == kv.CompareValue:
		c.Value = o.value(0)
	case o.member("number") == nil:
		o.bad("number", "an integer of 64 bits")
	default:
		c.Number = o.number("number", 0)
	}
	return c
}

// expect is the condition that a key has a value, or with null that there is none.
func (o *object) expect(ns, key string) kv.Compare {
	m := o.find("expect")
	switch {
	case m == nil:
		o.fail(codes.Errorf(codes.BadRequest, "member \"expect\" is missing: give the expected value, or null if there is none"))
	case m.Kind == jsontext.Null:
		return kv.Absent(ns, key)
	case m.Kind != jsontext.Object:
		o.bad("expect", "an object with a value, or null")
	default:
		inner := o.inner(m.Raw)
		c := kv.Compare{NS: ns, Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: inner.value(0)}
		if err := inner.end(); err != nil {
			o.fault.err = codes.Errorf(codes.Of(err), "expect: %w", err)
		}
		return c
	}
	return kv.Compare{}
}

func (o *object) operation(ns string) kv.Op {
	kind, known := kv.ParseOp(o.text("op"))
	if !known {
		o.fail(codes.Errorf(codes.BadOp, "there is no operation %.40q: use get, put, delete, delete_prefix, incr, grant or revoke", o.text("op")))
	}
	op := kv.Op{Kind: kind}
	switch kind {
	case kv.OpGrant:
		op.TTL = o.ttl("ttl")
		return op
	case kv.OpRevoke:
		if o.member("lease") == nil {
			o.bad("lease", "the number of a lease")
		}
		op.Lease = kv.LeaseID(o.count("lease"))
		return op
	case kv.OpDeletePrefix:
		if o.member("prefix") == nil {
			o.fail(codes.Errorf(codes.BadRequest, "member \"prefix\" is missing; give \"\" to delete everything"))
		}
		op.NS, op.Key = o.names(ns, "prefix")
		op.Limit = int(o.count("limit"))
		return op
	}
	op.NS, op.Key = o.names(ns, "key")
	if kind == kv.OpGet {
		return op
	}
	op.WantPrev = o.flag("prev")
	if kind == kv.OpDelete {
		return op
	}
	op.TTL, op.Expires = o.ttl("ttl"), o.number("expires", 0)
	op.Lease = kv.LeaseID(o.count("lease"))
	if kind == kv.OpIncr {
		op.Delta, op.Initial = o.number("by", 1), o.number("initial", 0)
		op.Min, op.Max = o.bound("min"), o.bound("max")
	} else if kind == kv.OpPut {
		op.Value = o.value(kv.String)
	}
	return op
}

// fences reads if_fence: one lock that must be held, or several.
func (o *object) fences(txn *kv.Txn, ns string) {
	one := func(f *object) {
		fence := kv.Fence{}
		fence.NS, fence.Key = f.names(ns, "key")
		if f.member("fence") == nil {
			f.bad("fence", "the token of the lock")
		}
		fence.Token = kv.Revision(f.number("fence", 0))
		txn.Fences = append(txn.Fences, fence)
	}
	m := o.member("if_fence")
	if m == nil || m.Kind != jsontext.Object {
		o.each("if_fence", kv.MaxCompares, one)
		return
	}
	inner := o.inner(m.Raw)
	one(inner)
	_ = inner.end() // the fault is shared
}

// opForm is what has to be known of an operation to answer for it.
type opForm struct {
	kind kv.OpKind
	prev bool
	put  kv.Value // a replayed result has no values
}

func formsOf(ops []kv.Op) []opForm {
	forms := make([]opForm, len(ops))
	for i := range ops {
		forms[i] = opForm{ops[i].Kind, ops[i].WantPrev, ops[i].Value}
	}
	return forms
}

// resultSize is what a result has of keys and values.
func resultSize(res *kv.Result) (n int) {
	for i := range res.Ops {
		for _, e := range [2]*kv.Entry{res.Ops[i].Entry, res.Ops[i].Prev} {
			if e != nil {
				n += e.Size()
			}
		}
	}
	return n
}

// appendResult appends what one operation did: an entry for those that read or
// write one, else what is known.
func appendResult(dst []byte, form opForm, res *kv.OpResult) []byte {
	switch form.kind {
	case kv.OpGet, kv.OpPut, kv.OpIncr:
		if res.Entry == nil {
			return append(dst, "null"...)
		}
		entry := *res.Entry
		if entry.Value.Type == 0 {
			entry.Value = form.put
		}
		dst = appendEntryOpen(dst, &entry, withValue)
	case kv.OpGrant:
		dst = appendNumber(dst, `{"lease":`, int64(res.Lease.ID))
		dst = appendNumber(dst, `,"ttl_ms":`, res.Lease.TTL.Milliseconds())
	case kv.OpDeletePrefix:
		dst = appendNumber(dst, `{"deleted":`, res.Count)
		dst = appendBool(dst, `,"more":`, res.More)
	default:
		dst = appendNumber(dst, `{"deleted":`, res.Count)
	}
	if form.prev {
		dst = appendPrev(dst, res.Prev, withValue)
	}
	return append(dst, '}')
}
