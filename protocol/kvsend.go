package protocol

import (
	"time"

	"confcenter/kv"
)

// KVWriteCommand is the shortest command that says all of txn: one of those that
// are a single transaction, or else KVTXN.
func KVWriteCommand(txn *kv.Txn) Command {
	if len(txn.Then) != 1 {
		return KVTxn
	}
	op := &txn.Then[0]
	named := op.Kind != kv.OpGrant && op.Kind != kv.OpRevoke
	if named && txn.Token != "" && txn.TokenNS != op.NS {
		return KVTxn
	}
	if len(txn.If) > 0 || len(txn.Else) > 0 {
		return guardedCommand(txn)
	}
	switch op.Kind {
	case kv.OpPut:
		return KVPut
	case kv.OpDelete:
		return KVDel
	case kv.OpDeletePrefix:
		return KVDelPrefix
	case kv.OpIncr:
		return KVIncr
	case kv.OpGrant:
		return KVLease
	case kv.OpRevoke:
		return KVRevoke
	}
	return KVTxn
}

// guardedCommand finds the transactions that KVWrite makes of if_mod and expect.
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

// GuardedTxn is a transaction that applies op if c holds for its key, and else reads
// the key: what KVPUT and KVDEL with if_mod and KVCAS are.
func GuardedTxn(c kv.Compare, op kv.Op) *kv.Txn {
	c.NS, c.Key = op.NS, op.Key
	return &kv.Txn{If: []kv.Compare{c}, Then: []kv.Op{op}, Else: []kv.Op{{Kind: kv.OpGet, NS: op.NS, Key: op.Key}}}
}

// AppendKVWrite appends the request that has txn done. cmd is what KVWriteCommand
// says, or KVTXN, which can say everything. txn must have passed its Check: what is
// no JSON in a json value would be no JSON on the wire. With raw, values of type
// bytes follow the JSON, and those of the reply do.
func AppendKVWrite(dst []byte, cmd Command, txn *kv.Txn, raw bool) []byte {
	b := builder{dst: append(dst, '{'), raw: raw}
	ns := baseNS(txn)
	if ns != "" {
		b.text(fieldNS, ns)
	}
	if cmd == KVTxn {
		b.txn(txn, ns)
		b.flag(fieldRaw, raw)
	} else {
		op := &txn.Then[0]
		if len(txn.If) == 1 {
			b.guard(cmd, &txn.If[0])
		}
		b.op(op, ns)
		b.flag(fieldRaw, raw && op.Kind != kv.OpPut)
	}
	if txn.Token != "" {
		b.text(fieldToken, txn.Token)
	}
	b.fences(txn.Fences, ns)
	return b.end()
}

// baseNS is the namespace of what has none of its own in the request.
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

// guard appends KVCAS' expect or if_mod.
func (b *builder) guard(cmd Command, c *kv.Compare) {
	switch {
	case cmd != KVCas:
		b.number(fieldIfMod, c.Number)
	case c.Target == kv.CompareValue:
		b.open(fieldExpect, '{')
		b.value(c.Value)
		b.close('}')
	default:
		b.dst = append(appendField(b.dst, fieldExpect), "null"...)
	}
}

func (b *builder) fences(fences []kv.Fence, ns string) {
	if len(fences) == 0 {
		return
	}
	b.open(fieldIfFence, '[')
	for i := range fences {
		b.element()
		b.name(fences[i].NS, ns)
		b.text(fieldKey, fences[i].Key)
		b.number(fieldFence, int64(fences[i].Token))
		b.close('}')
	}
	b.close(']')
}

// name appends a namespace where it is not the request's.
func (b *builder) name(ns, base string) {
	if ns != base {
		b.text(fieldNS, ns)
	}
}

func (b *builder) txn(txn *kv.Txn, ns string) {
	if len(txn.If) > 0 {
		b.open(fieldIf, '[')
		for i := range txn.If {
			b.element()
			b.compare(&txn.If[i], ns)
			b.close('}')
		}
		b.close(']')
	}
	for i, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		if len(ops) == 0 {
			continue
		}
		b.open([2]field{fieldThen, fieldElse}[i], '[')
		for j := range ops {
			b.element()
			b.text(fieldOp, ops[j].Kind.String())
			if ops[j].Kind != kv.OpGrant && ops[j].Kind != kv.OpRevoke {
				b.name(ops[j].NS, ns)
			}
			b.op(&ops[j], ns)
			b.close('}')
		}
		b.close(']')
	}
}

func (b *builder) compare(c *kv.Compare, ns string) {
	b.name(c.NS, ns)
	b.text(fieldKey, c.Key)
	b.text(fieldTarget, targetNames[c.Target])
	b.text(fieldOp, relationNames[c.Relation])
	if c.Target == kv.CompareValue {
		b.value(c.Value)
	} else {
		b.number(fieldNumber, c.Number)
	}
}

// op appends an operation's members but its kind and namespace.
func (b *builder) op(op *kv.Op, ns string) {
	switch op.Kind {
	case kv.OpGrant:
		b.number(fieldTTL, wholeMillis(op.TTL))
		return
	case kv.OpRevoke:
		b.number(fieldLease, int64(op.Lease))
		return
	case kv.OpDeletePrefix:
		b.text(fieldPrefix, op.Key)
		b.given(fieldLimit, int64(op.Limit))
		return
	}
	b.text(fieldKey, op.Key)
	switch op.Kind {
	case kv.OpPut:
		b.value(op.Value)
	case kv.OpIncr:
		b.number(fieldBy, op.Delta)
		b.given(fieldInitial, op.Initial)
		b.bound(fieldMin, op.Min)
		b.bound(fieldMax, op.Max)
	default:
		b.flag(fieldPrev, op.WantPrev)
		return
	}
	b.given(fieldTTL, wholeMillis(op.TTL))
	b.given(fieldExpires, op.Expires)
	b.given(fieldLease, int64(op.Lease))
	b.flag(fieldPrev, op.WantPrev)
}

// wholeMillis rounds up, as stores do: a time to live never ends early.
func wholeMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func (b *builder) bound(f field, n *int64) {
	if n != nil {
		b.number(f, *n)
	}
}

// AppendKVRestore appends KVRESTORE's request: txn is a transaction with one put,
// whose value is not sent but taken from the key as it was at rev.
func AppendKVRestore(dst []byte, txn *kv.Txn, rev kv.Revision, raw bool) []byte {
	op := &txn.Then[0]
	b := builder{dst: append(dst, '{'), raw: raw}
	b.text(fieldNS, op.NS)
	b.text(fieldKey, op.Key)
	b.number(fieldRev, int64(rev))
	if len(txn.If) == 1 {
		b.number(fieldIfMod, txn.If[0].Number)
	}
	b.given(fieldTTL, wholeMillis(op.TTL))
	b.given(fieldExpires, op.Expires)
	b.given(fieldLease, int64(op.Lease))
	b.flag(fieldPrev, op.WantPrev)
	b.flag(fieldRaw, raw)
	if txn.Token != "" {
		b.text(fieldToken, txn.Token)
	}
	b.fences(txn.Fences, op.NS)
	return b.end()
}
