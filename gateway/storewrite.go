package gateway

import (
	"net/http"

	"confcenter/codes"
	"confcenter/kv"
)

// storePut writes a key, on the condition of If-Match or if_absent.
func (g *Gateway) storePut(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	write, o, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &write.Then[0]
	op.Value = o.value(kv.String)
	o.times(op)
	if o.flag("if_absent") {
		if len(write.If) > 0 {
			o.fail(codes.Errorf(codes.BadRequest, "if_absent excludes the headers If-Match and If-None-Match"))
		}
		write.If = append(write.If, kv.Absent(op.NS, op.Key))
	}
	o.token(write)
	if err := o.end(); err != nil {
		return err
	}
	return g.putAndSend(w, r, b, write)
}

// writeOf begins a transaction on the key of the query, with the condition of the
// headers, and reads the body.
func writeOf(r *http.Request, b *buffer, kind kv.OpKind) (*kv.Txn, *object, error) {
	p := parametersOf(r)
	op := kv.Op{Kind: kind, NS: p.needed("ns"), Key: p.needed("key")}
	if err := p.end(); err != nil {
		return nil, nil, err
	}
	if err := checkPair(op.NS, op.Key); err != nil { // for a text without the number of an operation
		return nil, nil, err
	}
	txn := &kv.Txn{Then: []kv.Op{op}}
	cond, err := conditionOf(r)
	if err != nil {
		return nil, nil, err
	}
	switch cond.kind {
	case ifIs:
		txn.If = []kv.Compare{{NS: op.NS, Key: op.Key, Target: kv.CompareMod, Relation: kv.Equal, Number: cond.value}}
	case ifThere:
		txn.If = []kv.Compare{{NS: op.NS, Key: op.Key, Target: kv.CompareVersion, Relation: kv.Greater}}
	case ifAbsent:
		txn.If = []kv.Compare{kv.Absent(op.NS, op.Key)}
	case ifNever:
		txn.If = []kv.Compare{{NS: op.NS, Key: op.Key, Target: kv.CompareVersion, Relation: kv.Less}}
	}
	if kind == kv.OpDelete {
		return txn, nil, nil
	}
	o, err := objectOf(r, b)
	return txn, o, err
}

// times reads when the key is to end.
func (o *object) times(op *kv.Op) {
	if o.find("ttl") != nil { // seconds to some, ms to others, on the wire for one
		o.fail(codes.Errorf(codes.BadRequest, "member \"ttl\" is not known here: give ttl_ms, in milliseconds"))
	}
	op.TTL, op.Expires = o.ttl("ttl_ms"), o.number("expires_ms", 0)
	op.Lease = kv.LeaseID(o.count("lease"))
}

// token reads the request token, which belongs to the namespace written to.
func (o *object) token(txn *kv.Txn) {
	if txn.Token = o.text("token"); txn.Token != "" {
		txn.TokenNS = txn.Then[0].NS
	}
}

// conditional commits a transaction of one operation. One whose conditions do not
// hold is a conflict; the header ETag then tells what is there.
func (g *Gateway) conditional(w http.ResponseWriter, r *http.Request, txn *kv.Txn) (*kv.Result, error) {
	op := &txn.Then[0]
	if len(txn.If) > 0 {
		txn.Else = []kv.Op{{Kind: kv.OpGet, NS: op.NS, Key: op.Key}}
	}
	ns, key := op.NS, op.Key // the store owns txn from here
	res, err := g.commit(r, txn)
	if err != nil {
		return nil, err
	}
	if res.Held {
		return res, nil
	}
	now := res.Ops[0].Entry
	if now == nil {
		return nil, codes.Errorf(codes.Conflict, "key %q in namespace %q is not as the request expects: there is none", key, ns)
	}
	setETag(w, int64(now.Mod))
	return nil, codes.Errorf(codes.Conflict, "key %q in namespace %q is not as the request expects: it was changed last by revision %d", key, ns, now.Mod)
}

// putAndSend commits a put and answers with the entry it made.
func (g *Gateway) putAndSend(w http.ResponseWriter, r *http.Request, b *buffer, txn *kv.Txn) error {
	value := txn.Then[0].Value
	res, err := g.conditional(w, r, txn)
	if err != nil {
		return err
	}
	entry := res.Ops[0].Entry
	if entry == nil {
		return codes.Errorf(codes.Internal, "a put has left no entry")
	}
	if entry.Value.Type == 0 && !entry.Deleted() { // a replayed one
		whole := *entry
		whole.Value = value
		entry = &whole
	}
	return sendEntry(w, b, entry)
}

// storeDelete deletes a key. Deleting an absent key is not an error.
func (g *Gateway) storeDelete(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	txn, _, err := writeOf(r, b, kv.OpDelete)
	if err != nil {
		return err
	}
	res, err := g.conditional(w, r, txn)
	if err != nil {
		return err
	}
	b.b = appendBool(b.b[:0], `{"deleted":`, res.Ops[0].Count > 0)
	b.b = append(appendNumber(b.b, `,"revision":`, int64(res.Revision)), '}')
	return sendFresh(w, b.b)
}

// storeDrop deletes the keys of a namespace, with which it is gone.
func (g *Gateway) storeDrop(w http.ResponseWriter, r *http.Request) error {
	p := parametersOf(r)
	ns := p.needed("ns")
	if err := p.end(); err != nil {
		return err
	}
	res, err := g.commit(r, &kv.Txn{Then: []kv.Op{{Kind: kv.OpDeletePrefix, NS: ns}}})
	if err != nil {
		return err
	}
	b := newBuffer()
	defer b.free()
	b.b = appendNumber(b.b, `{"deleted":`, res.Ops[0].Count)
	b.b = append(appendBool(b.b, `,"more":`, res.Ops[0].More), '}')
	return sendFresh(w, b.b)
}

// storeIncr adds to an int.
func (g *Gateway) storeIncr(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	txn, o, err := writeOf(r, b, kv.OpIncr)
	if err != nil {
		return err
	}
	op := &txn.Then[0]
	op.Delta, op.Initial = o.number("by", 1), o.number("initial", 0)
	op.Min, op.Max = o.bound("min"), o.bound("max")
	o.times(op)
	o.token(txn)
	if err := o.end(); err != nil {
		return err
	}
	res, err := g.conditional(w, r, txn)
	if err != nil {
		return err
	}
	return sendEntry(w, b, res.Ops[0].Entry)
}

// storeCas writes a key if it has the value that is expected, or none.
func (g *Gateway) storeCas(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	txn, o, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &txn.Then[0]
	txn.If = append(txn.If, o.expect(op.NS, op.Key))
	op.Value = o.value(kv.String)
	o.times(op)
	o.token(txn)
	if err := o.end(); err != nil {
		return err
	}
	return g.putAndSend(w, r, b, txn)
}

// storeBatch writes and deletes keys of one namespace together.
func (g *Gateway) storeBatch(w http.ResponseWriter, r *http.Request) error {
	p := parametersOf(r)
	ns := p.needed("ns")
	if err := p.end(); err != nil {
		return err
	}
	b := newBuffer()
	defer b.free()
	o, err := objectOf(r, b)
	if err != nil {
		return err
	}
	txn := &kv.Txn{}
	o.each("items", kv.MaxOps, func(item *object) {
		op := kv.Op{Kind: kv.OpPut, NS: ns, Key: item.text("key")}
		if item.flag("delete") {
			op.Kind = kv.OpDelete
		} else {
			op.Value = item.value(kv.String)
			item.times(&op)
		}
		txn.Then = append(txn.Then, op)
	})
	if len(txn.Then) == 0 {
		o.fail(codes.Errorf(codes.BadRequest, "member \"items\" is missing or empty"))
	} else {
		o.token(txn)
	}
	if err := o.end(); err != nil {
		return err
	}
	count := len(txn.Then)
	res, err := g.commit(r, txn)
	if err != nil {
		return err
	}
	b.b = appendNumber(b.b[:0], `{"revision":`, int64(res.Revision))
	b.b = append(appendNumber(b.b, `,"count":`, int64(count)), '}')
	return sendFresh(w, b.b)
}

// storeRestore writes what a key was at a revision anew.
func (g *Gateway) storeRestore(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	txn, o, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &txn.Then[0]
	rev := kv.Revision(o.count("revision"))
	if rev == 0 {
		o.fail(codes.Errorf(codes.BadRequest, "member \"revision\" is missing: give one at which the key had the value"))
	}
	o.times(op)
	o.token(txn)
	if err := o.end(); err != nil {
		return err
	}
	past, err := g.stores.State.GetAt(r.Context(), op.NS, op.Key, rev)
	switch {
	case err != nil:
		return err
	case past == nil:
		return codes.Errorf(codes.NotFound, "key %q did not exist at revision %d: there is nothing to restore", op.Key, rev)
	}
	op.Value = past.Value
	return g.putAndSend(w, r, b, txn)
}
