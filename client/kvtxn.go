package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/protocol"
)

// Txn applies a transaction, which may span namespaces: all of it or nothing, and
// no one sees anything in between. If its conditions do not hold, that is not an
// error; see Result.Held. txn is not changed and may be used again: unless it has a
// token, each call gets its own, in the first namespace that txn names.
//
// For a transaction within one namespace KV.Txn is shorter.
func (c *Client) Txn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	return c.anywhere(ctx, txn, false)
}

// RevealTxn is Txn with sealed values in what the transaction has read, as far as the program may know
// them; see [KV.Revealing].
func (c *Client) RevealTxn(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	return c.anywhere(ctx, txn, true)
}

func (c *Client) anywhere(ctx context.Context, txn *kv.Txn, reveal bool) (*kv.Result, error) {
	t := *txn
	t.TokenNS = cmp.Or(t.TokenNS, home(&t))
	write := writes(&t)
	if t.Token == "" && write && t.TokenNS != "" {
		t.Token = c.tokens.next()
	}
	return c.txn(ctx, &t, reveal, resendable(!write || t.Token != ""))
}

func (c *Client) txn(ctx context.Context, t *kv.Txn, reveal bool, how manner) (*kv.Result, error) {
	err := t.Check()
	var res *kv.Result
	if err == nil {
		res, err = c.commit(ctx, protocol.KVTxn, protocol.AppendKVWrite(begin(protocol.KVTxn), protocol.KVTxn, t, true, reveal), t, how)
	}
	return res, during(err, "transaction")
}

func home(t *kv.Txn) string {
	for _, op := range slices.Concat(t.Then, t.Else) {
		if op.NS != "" {
			return op.NS
		}
	}
	for i := range t.If {
		return t.If[i].NS
	}
	return ""
}

func writes(t *kv.Txn) bool {
	can := func(op kv.Op) bool { return op.Writes() }
	return slices.ContainsFunc(t.Then, can) || slices.ContainsFunc(t.Else, can)
}

// Batch applies operations together or not at all, at one revision; a key that is
// written twice gets the last value. Operations without a namespace are the KV's.
// Result.Ops has one result for each.
func (s *KV) Batch(ctx context.Context, ops ...kv.Op) (*kv.Result, error) {
	t := s.Txn()
	t.txn.Then = slices.Clone(ops)
	return t.Commit(ctx)
}

// Txn is a transaction of one namespace under construction, by one goroutine:
//
//	res, err := s.Txn().
//		IfValue("seat/7", kv.StringValue("free")).
//		PutString("seat/7", "ann").Incr("sold", 1).
//		Else().Get("seat/7").
//		Commit(ctx)
//
// Conditions come first; operations belong to the branch in which they stand. Commit
// reports mistakes made on the way.
type Txn struct {
	s      *KV
	txn    kv.Txn
	inElse bool
	err    error
}

// Txn begins a transaction.
func (s *KV) Txn() *Txn { return &Txn{s: s} }

// IfAbsent requires that the key does not exist.
func (t *Txn) IfAbsent(key string) *Txn { return t.If(kv.Absent("", key)) }

// IfExists requires that the key exists.
func (t *Txn) IfExists(key string) *Txn {
	return t.If(kv.Compare{Key: key, Target: kv.CompareVersion, Relation: kv.Greater})
}

// IfValue requires that the key has exactly that value, in type and text.
func (t *Txn) IfValue(key string, v kv.Value) *Txn {
	return t.If(kv.Compare{Key: key, Target: kv.CompareValue, Relation: kv.Equal, Value: v})
}

// IfMod requires that the key was last changed by revision mod; 0 means that the key
// is absent.
func (t *Txn) IfMod(key string, mod kv.Revision) *Txn {
	return t.If(kv.Compare{Key: key, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(mod)})
}

// If adds any condition. Without a namespace it applies to the KV's.
func (t *Txn) If(c kv.Compare) *Txn {
	c.NS = cmp.Or(c.NS, t.s.ns)
	t.txn.If = append(t.txn.If, c)
	return t
}

// Else begins the operations that are applied if the conditions do not hold.
func (t *Txn) Else() *Txn {
	t.inElse = true
	return t
}

// Do adds any operation. Without a namespace it applies to the KV's.
func (t *Txn) Do(op kv.Op) *Txn {
	if t.inElse {
		t.txn.Else = append(t.txn.Else, op)
	} else {
		t.txn.Then = append(t.txn.Then, op)
	}
	return t
}

// add is Do with options, which must be about the operation alone.
func (t *Txn) add(op kv.Op, opts []Option) *Txn {
	w := written(opts)
	op, err := w.operation(op)
	if err == nil && (w.hasToken || len(w.fences) > 0 || len(w.ifs) > 0) {
		err = codes.Errorf(codes.BadRequest, "conditions, fences and tokens belong to the whole transaction: use its methods, and Commit's options")
	}
	if t.err == nil && err != nil {
		t.err = fmt.Errorf("%s %s: %w", op.Kind, op.Key, err)
	}
	return t.Do(op)
}

// Commit applies the transaction; see Client.Txn. It accepts the options WithFence
// and WithToken.
func (t *Txn) Commit(ctx context.Context, opts ...Option) (*kv.Result, error) {
	w := written(opts)
	err := t.err
	switch {
	case err != nil:
	case w.err != nil:
		err = w.err
	case w.single || len(w.ifs) > 0 || w.versions != nil:
		err = codes.Errorf(codes.BadRequest, "options of one operation belong to it, not to Commit")
	}
	if err != nil {
		return nil, fmt.Errorf("transaction: %w", err)
	}
	txn, how := t.txn, again
	txn.Then, txn.Else, txn.Fences = t.s.filled(txn.Then), t.s.filled(txn.Else), w.fences
	if writes(&txn) {
		txn.Token, txn.TokenNS = w.tokenOr(t.s.c.tokens), t.s.ns
		how = resendable(txn.Token != "")
	}
	return t.s.c.txn(ctx, &txn, t.s.reveal, how)
}

// filled returns a copy of ops in which operations without a namespace have the KV's.
func (s *KV) filled(ops []kv.Op) []kv.Op {
	ops = slices.Clone(ops)
	for i := range ops {
		if ops[i].NS == "" && ops[i].Kind != kv.OpGrant && ops[i].Kind != kv.OpRevoke {
			ops[i].NS = s.ns
		}
	}
	return ops
}
