package gateway

import (
	"net/http"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// storePut writes a key, on the condition of If-Match or if_absent.
func (g *Gateway) storePut(w http.ResponseWriter, r *http.Request) error {
	b := newBuffer()
	defer b.free()
	write, m, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &write.Then[0]
	m.Change(&m.Top, op)
	if m.Flag(&m.Top, kvjson.IfAbsent) {
		if len(write.If) > 0 {
			m.Fail(codes.Errorf(codes.BadRequest, "if_absent excludes the headers If-Match and If-None-Match"))
		}
		write.If = append(write.If, kv.Absent(op.NS, op.Key))
	}
	m.Token(write, op.NS)
	if err := m.End(); err != nil {
		return err
	}
	return g.putAndSend(w, r, b, write)
}

// writeOf begins a transaction on the key of the query, with the condition of the
// headers, and reads the body.
func writeOf(r *http.Request, b *buffer, kind kv.OpKind) (*kv.Txn, *bodyReader, error) {
	p := parametersOf(r)
	op := kv.Op{Kind: kind, NS: p.needed("ns"), Key: p.needed("key")}
	if err := p.end(); err != nil {
		return nil, nil, err
	}
	if err := kv.CheckPair(op.NS, op.Key); err != nil { // for a text without the number of an operation
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
	m, err := bodyOf(r, b, kvjson.HTTP)
	return txn, m, err
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
	if res.Ops[0].Entry == nil {
		return codes.Errorf(codes.Internal, "a put has left no entry")
	}
	return sendEntry(w, b, whole(res.Ops[0].Entry, value))
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
	txn, m, err := writeOf(r, b, kv.OpIncr)
	if err != nil {
		return err
	}
	m.Change(&m.Top, &txn.Then[0])
	m.Token(txn, txn.Then[0].NS)
	if err := m.End(); err != nil {
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
	txn, m, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &txn.Then[0]
	expected := m.Expect()
	expected.NS, expected.Key = op.NS, op.Key
	txn.If = append(txn.If, expected)
	m.Change(&m.Top, op)
	m.Token(txn, op.NS)
	if err := m.End(); err != nil {
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
	m, err := bodyOf(r, b, kvjson.HTTP)
	if err != nil {
		return err
	}
	txn := &kv.Txn{}
	var item kvjson.Object
	for items := m.Elements(&m.Top, kvjson.Items, kv.MaxOps); m.Next(&items, &item); {
		op := kv.Op{Kind: kv.OpPut, NS: ns, Key: string(m.Text(&item, kvjson.Key))}
		if m.Flag(&item, kvjson.Delete) {
			op.Kind = kv.OpDelete
		} else {
			m.Change(&item, &op)
		}
		txn.Then = append(txn.Then, op)
	}
	if len(txn.Then) == 0 {
		m.Fail(codes.Errorf(codes.BadRequest, "member \"items\" is missing or empty"))
	}
	m.Token(txn, ns)
	if err := m.End(); err != nil {
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
	txn, m, err := writeOf(r, b, kv.OpPut)
	if err != nil {
		return err
	}
	op := &txn.Then[0]
	rev := kv.Revision(m.Count(&m.Top, kvjson.Revision))
	if rev == 0 {
		m.Fail(codes.Errorf(codes.BadRequest, "member \"revision\" is missing: give one at which the key had the value"))
	}
	m.Ends(&m.Top, op)
	m.Token(txn, op.NS)
	if err := m.End(); err != nil {
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
