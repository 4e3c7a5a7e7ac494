package http

import (
	"net/http"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/op"
)

// storeWrite handles a write of one key, and answers with what it has done. read
// reads the members that are particular to the operation; nil: there is no body.
func (g *Gateway) storeWrite(kind kv.OpKind, read func(m *bodyReader, txn *kv.Txn, op *kv.Op)) handler {
	return func(w *reply, r *http.Request) error {
		txn, err := w.writeOf(r, kind)
		if err != nil {
			return err
		}
		if read != nil {
			m, err := w.readObject(r, kvjson.HTTP)
			if err != nil {
				return err
			}
			change := &txn.Then[0]
			read(m, txn, change)
			m.Token(txn, change.NS)
			if err := m.End(); err != nil {
				return err
			}
		}
		if err := g.judgeTxn(w, r, txn); err != nil {
			return err
		}
		return g.commitAndSend(w, txn)
	}
}

// readPut reads a put, which if_absent makes conditional.
func readPut(m *bodyReader, txn *kv.Txn, op *kv.Op) {
	m.Change(&m.Top, op)
	if m.Flag(&m.Top, kvjson.IfAbsent) {
		if len(txn.If) > 0 {
			m.Fail(codes.Errorf(codes.BadRequest, "if_absent excludes the headers If-Match and If-None-Match"))
		}
		txn.If = append(txn.If, kv.Absent(op.NS, op.Key))
	}
}

func readChange(m *bodyReader, _ *kv.Txn, op *kv.Op) { m.Change(&m.Top, op) }

// readCas reads a put on the condition that the key has the expected value, or that
// there is none.
func readCas(m *bodyReader, txn *kv.Txn, op *kv.Op) {
	expected := m.Expect()
	expected.NS, expected.Key = op.NS, op.Key
	txn.If = append(txn.If, expected)
	m.Change(&m.Top, op)
}

// writeOf begins a transaction on the key that the query names, with the condition
// of the headers.
func (w *reply) writeOf(r *http.Request, kind kv.OpKind) (*kv.Txn, error) {
	p := parametersOf(r)
	op := kv.Op{Kind: kind, NS: p.needed("ns"), Key: p.needed("key")}
	if err := p.end(); err != nil {
		return nil, err
	}
	if err := kv.CheckPair(op.NS, op.Key); err != nil { // gives a text without the number of an operation
		return nil, err
	}
	cond, err := conditionOf(r)
	if err != nil {
		return nil, err
	}
	txn := w.single(op)
	relation := [...]kv.Relation{ifIs: kv.Equal, ifThere: kv.Greater, ifAbsent: kv.Equal, ifNever: kv.Less}[cond.kind]
	switch cond.kind {
	case ifAnything:
	case ifIs:
		txn.If = []kv.Compare{{NS: op.NS, Key: op.Key, Target: kv.CompareMod, Relation: relation, Number: cond.value}}
	default:
		txn.If = []kv.Compare{{NS: op.NS, Key: op.Key, Target: kv.CompareVersion, Relation: relation}}
	}
	return txn, nil
}

// conditional commits a transaction of one operation that has been judged: to tell what is there takes no more
// than the conditions. If its conditions do not hold,
// it is a conflict, and the header ETag tells what is there.
func (g *Gateway) conditional(w *reply, txn *kv.Txn) (*kv.OpResult, error) {
	op := &txn.Then[0]
	ns, key := op.NS, op.Key // the store owns txn from here
	if len(txn.If) > 0 {
		txn.Else = []kv.Op{{Kind: kv.OpGet, NS: ns, Key: key}}
	}
	res, err := g.commitJudged(w, txn)
	if err != nil {
		return nil, err
	}
	if res.Held {
		return &res.Ops[0], nil
	}
	now := res.Ops[0].Entry
	if now == nil {
		return nil, codes.Errorf(codes.Conflict, "key %q in namespace %q is not as the request expects: there is none", key, ns)
	}
	w.setETag(int64(now.Mod))
	return nil, codes.Errorf(codes.Conflict, "key %q in namespace %q is not as the request expects: it was last changed by revision %d", key, ns, now.Mod)
}

// commitAndSend commits an operation on one key and answers with the entry that it leaves, or with whether it
// has deleted one.
func (g *Gateway) commitAndSend(w *reply, txn *kv.Txn) error {
	did, err := g.conditional(w, txn)
	switch op := &txn.Then[0]; {
	case err != nil:
		return err
	case !op.Kind.Sets():
		out := w.object()
		out.Bool(kvjson.Deleted, did.Count > 0)
		out.Number(kvjson.Revision, int64(w.write.Result.Revision))
		return w.sendObject(&out)
	case did.Entry == nil:
		return codes.Errorf(codes.Internal, "a write left no entry")
	default:
		return w.sendEntry(whole(did.Entry, op.Value))
	}
}

// storeDrop deletes the keys of a namespace, and with them the namespace, whose name
// must be given twice.
func (g *Gateway) storeDrop(w *reply, r *http.Request) error {
	p := parametersOf(r)
	op := kv.Op{Kind: kv.OpDeletePrefix, NS: p.needed("ns"), Confirm: p.text("confirm")}
	if err := p.end(); err != nil {
		return err
	}
	res, err := g.commit(w, r, w.single(op))
	if err != nil {
		return err
	}
	out := w.object()
	out.Number(kvjson.Deleted, res.Ops[0].Count)
	out.Bool(kvjson.More, res.Ops[0].More)
	return w.sendObject(&out)
}

// storeBatch writes and deletes keys of one namespace together.
func (g *Gateway) storeBatch(w *reply, r *http.Request) error {
	p := parametersOf(r)
	ns := p.needed("ns")
	if err := p.end(); err != nil {
		return err
	}
	m, err := w.readObject(r, kvjson.HTTP)
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
	res, err := g.commit(w, r, txn)
	if err != nil {
		return err
	}
	out := w.object()
	out.Number(kvjson.Revision, int64(res.Revision))
	out.Number(kvjson.Count, int64(count))
	return w.sendObject(&out)
}

// storeRestore writes a key again as it was at a revision.
func (g *Gateway) storeRestore(w *reply, r *http.Request) error {
	txn, err := w.writeOf(r, kv.OpPut)
	if err != nil {
		return err
	}
	m, err := w.readObject(r, kvjson.HTTP)
	if err != nil {
		return err
	}
	put := &txn.Then[0]
	rev := kv.Revision(m.Count(&m.Top, kvjson.Revision))
	if rev == 0 {
		m.Fail(codes.Errorf(codes.BadRequest, "member \"revision\" is missing: give one at which the key had the value"))
	}
	m.Ends(&m.Top, put)
	m.Token(txn, put.NS)
	if err := m.End(); err != nil {
		return err
	}
	if err := g.judgeTxn(w, r, txn, op.Past(nil, put.NS, put.Key)...); err != nil {
		return err
	}
	past, err := g.stores.State.GetAt(r.Context(), put.NS, put.Key, rev)
	switch {
	case err != nil:
		return err
	case past == nil:
		return codes.Errorf(codes.NotFound, "key %q did not exist at revision %d: there is nothing to restore", put.Key, rev)
	}
	put.Value = past.Value
	return g.commitAndSend(w, txn)
}
