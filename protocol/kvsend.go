package protocol

import (
	"confcenter/kv"
	"confcenter/kv/kvjson"
)

// KVWriteCommand is the shortest command that can express txn: one of those that are a
// single transaction, or else KVTXN.
func KVWriteCommand(txn *kv.Txn) Command {
	if len(txn.Then) != 1 {
		return KVTxn
	}
	op := &txn.Then[0]
	if op.Kind.Has(kv.MemberKey|kv.MemberPrefix) && txn.Token != "" && txn.TokenNS != op.NS {
		return KVTxn
	}
	if len(txn.If) > 0 || len(txn.Else) > 0 {
		return guardedCommand(txn)
	}
	if cmd := ofOp[op.Kind]; cmd != 0 {
		return cmd
	}
	return KVTxn
}

// guardedCommand recognizes the transactions that KVWrite makes from if_mod and expect.
func guardedCommand(txn *kv.Txn) Command {
	if len(txn.If) != 1 || len(txn.Else) != 1 {
		return KVTxn
	}
	op, c, found := &txn.Then[0], &txn.If[0], &txn.Else[0]
	switch {
	case found.Kind != kv.OpGet || found.NS != op.NS || found.Key != op.Key, c.NS != op.NS || c.Key != op.Key, c.Relation != kv.Equal:
	case op.Kind == kv.OpPut && c.Target == kv.CompareMod && c.Number >= 0:
		return KVPut
	case op.Kind == kv.OpDelete && c.Target == kv.CompareMod && c.Number >= 0:
		return KVDel
	case op.Kind == kv.OpPut && (c.Target == kv.CompareValue || c.Target == kv.CompareVersion && c.Number == 0):
		return KVCas
	}
	return KVTxn
}

// GuardedTxn is a transaction that applies op if c holds for its key, and otherwise reads
// the key, as KVCAS does, and KVPUT and KVDEL with if_mod.
func GuardedTxn(c kv.Compare, op kv.Op) *kv.Txn {
	c.NS, c.Key = op.NS, op.Key
	return &kv.Txn{If: []kv.Compare{c}, Then: []kv.Op{op}, Else: []kv.Op{{Kind: kv.OpGet, NS: op.NS, Key: op.Key}}}
}

// AppendKVWrite appends the request for txn. cmd is KVWriteCommand's, or KVTXN, which can
// express everything. txn must have passed its Check, because a json value that is not
// JSON would break the body. With raw, values of type bytes follow the JSON here and in
// the reply; with reveal the reply has sealed values revealed.
func AppendKVWrite(dst []byte, cmd Command, txn *kv.Txn, raw, reveal bool) []byte {
	w := kvjson.Writer{Buf: append(dst, '{'), Octets: raw}
	ns := baseNS(txn)
	w.TextGiven(kvjson.NS, ns)
	if cmd == KVTxn {
		w.Txn(txn, ns)
		w.Flag(kvjson.Raw, raw)
	} else {
		op := &txn.Then[0]
		if len(txn.If) == 1 {
			if c := &txn.If[0]; cmd == KVCas {
				w.Expect(c)
			} else {
				w.Number(kvjson.IfMod, c.Number)
			}
		}
		w.Op(op)
		w.Flag(kvjson.Raw, raw && !op.Kind.Has(kv.MemberValue))
	}
	w.Flag(kvjson.Reveal, reveal)
	w.Conditions(txn, ns)
	return w.End()
}

// baseNS is the request's namespace, for parts that name none.
func baseNS(txn *kv.Txn) string {
	switch {
	case txn.Token != "":
		return txn.TokenNS
	case len(txn.Then) > 0:
		return txn.Then[0].NS
	case len(txn.If) > 0:
		return txn.If[0].NS
	}
	return ""
}

// AppendKVRestore appends KVRESTORE's request: txn is a transaction with one put, whose
// value is not sent but taken from the key's version at rev.
func AppendKVRestore(dst []byte, txn *kv.Txn, rev kv.Revision, raw, reveal bool) []byte {
	op := &txn.Then[0]
	w := kvjson.Writer{Buf: append(dst, '{'), Octets: raw}
	w.Text(kvjson.NS, op.NS)
	w.Text(kvjson.Key, op.Key)
	w.Number(kvjson.Rev, int64(rev))
	if len(txn.If) == 1 {
		w.Number(kvjson.IfMod, txn.If[0].Number)
	}
	w.Ends(op)
	w.Flag(kvjson.Prev, op.WantPrev)
	w.Flag(kvjson.Raw, raw)
	w.Flag(kvjson.Reveal, reveal)
	w.Conditions(txn, op.NS)
	return w.End()
}
