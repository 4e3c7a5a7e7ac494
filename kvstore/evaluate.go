package kvstore

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// apply evaluates a transaction and, if it succeeds, adds it to the group. A nil error
// means that the result holds once the group is durable.
func (g *group) apply(q *queued) (*kv.Result, error) {
	txn := q.txn
	var aged *Token
	if txn.Token != "" {
		known := g.tokens.find(txn.TokenNS, txn.Token)
		if known != nil && known.own >= g.oldest {
			return g.tokens.replay(known, txn, q.digest)
		}
		aged = known
	}
	g.start(kv.Delete)
	g.noting = g.cfg.Trail != nil && txn.System && len(txn.Note) > 0 && len(txn.Then) == 0
	result, err := g.evaluate(q)
	var token *Token
	if err == nil {
		token, err = g.complete(q, result)
	}
	if err != nil {
		g.undo()
		return nil, err
	}
	result.Revision = g.rev
	if g.finish(token) {
		result.Revision = g.rev
		g.lineWriter.note(g.cfg, txn, result, g.rev, g.millis)
	}
	if token != nil {
		token.Result = appendResult(nil, txn, result, token.Revision)
		g.tokens.give(token, aged)
	}
	return result, nil
}

// complete is the last step that can refuse a transaction. It makes its token.
func (g *group) complete(q *queued, result *kv.Result) (*Token, error) {
	txn := q.txn
	wrote, grew := g.noting || g.granted != nil || len(g.ending)+len(g.touched)+len(g.archive) > 0, g.noting || grows(txn, result)
	if !wrote && txn.Token == "" {
		return nil, nil
	}
	if err := g.allowed(room(txn, grew)); err != nil {
		return nil, err
	}
	if grew && !txn.System {
		if err := g.withinQuotas(g.touched); err != nil {
			return nil, err
		}
	}
	if txn.Token == "" {
		return nil, nil
	}
	who := txn.Actor.Who()
	if size, most := int64(resultSize(txn, result)), g.tokens.mostResult(who); size > most {
		return nil, codes.Errorf(codes.TooLarge, "the result to remember for the token has %d bytes of values, the limit is %d; ask for less, or without a token", size, most)
	}
	return &Token{NS: txn.TokenNS, Name: txn.Token, Who: who, Digest: q.digest, Revision: g.rev + 1, Time: g.millis, own: g.steady}, nil
}

// branch returns the operations that a result belongs to.
func branch(txn *kv.Txn, held bool) []kv.Op {
	if held {
		return txn.Then
	}
	return txn.Else
}

// room is how much of a full disk a transaction may use, and whether it may use more memory than others.
// grew: it needs space.
func room(txn *kv.Txn, grew bool) (uses Room, more bool) {
	relieves := txn.Relieves()
	switch {
	case txn.System && txn.Lessens:
		return LastByte, true
	case relieves, !grew:
		return Reserve, relieves
	}
	return Ordinary, false
}

// grows reports whether the transaction needs space; one that only deletes may use the
// reserve.
func grows(txn *kv.Txn, result *kv.Result) bool {
	ops := branch(txn, result.Held)
	for i := range ops {
		if ops[i].Kind.Has(kv.MemberEnds | kv.MemberTTL) {
			return true
		}
	}
	return false
}

func (g *group) evaluate(q *queued) (*kv.Result, error) {
	txn := q.txn
	for i := range txn.Fences {
		f := &txn.Fences[i]
		if lock := g.get(f.NS, f.Key); lock == nil || lock.Create != f.Token {
			return nil, kv.NotHeld(*f)
		}
	}
	held := true
	for i := range txn.If {
		c := &txn.If[i]
		if held = holds(c, g.get(c.NS, c.Key)); !held {
			break
		}
	}
	if !held && txn.Must {
		return nil, codes.Errorf(codes.Conflict, "what the transaction requires does not hold")
	}
	ops := branch(txn, held)
	result := q.newResult(len(ops))
	result.Held = held
	for i := range ops {
		if err := g.do(&ops[i], &result.Ops[i], txn); err != nil {
			if len(ops) > 1 {
				err = codes.Errorf(codes.Of(err), "operation %d: %w", i, err)
			}
			return nil, err
		}
	}
	return result, nil
}

func holds(c *kv.Compare, e *kv.Entry) bool {
	if c.Target == kv.CompareValue {
		return valueHolds(c, e)
	}
	var have int64
	if e != nil {
		switch c.Target {
		case kv.CompareVersion:
			have = e.Version
		case kv.CompareCreate:
			have = int64(e.Create)
		case kv.CompareMod:
			have = int64(e.Mod)
		}
	}
	return satisfied(c.Relation, cmp.Compare(have, c.Number))
}

// satisfied reports whether a relation holds between two values with that ordering.
func satisfied(relation kv.Relation, order int) bool {
	switch relation {
	case kv.Equal:
		return order == 0
	case kv.NotEqual:
		return order != 0
	case kv.Less:
		return order < 0
	}
	return order > 0
}

func valueHolds(c *kv.Compare, e *kv.Entry) bool {
	if e == nil || (c.Value.Type != 0 && c.Value.Type != e.Value.Type) {
		return c.Relation == kv.NotEqual
	}
	if c.Relation == kv.Equal || c.Relation == kv.NotEqual {
		return bytes.Equal(e.Value.Data, c.Value.Data) == (c.Relation == kv.Equal)
	}
	var order int
	var err error
	switch c.Value.Type {
	case kv.Int:
		order, err = compareNumbers(e.Value, c.Value, kv.Value.Int)
	case kv.Double:
		order, err = compareNumbers(e.Value, c.Value, kv.Value.Double)
	default: // of type 0, too, are compared as text
		order = bytes.Compare(e.Value.Data, c.Value.Data)
	}
	return err == nil && order != 0 && satisfied(c.Relation, order)
}

func compareNumbers[T int64 | float64](a, b kv.Value, number func(kv.Value) (T, error)) (int, error) {
	x, errX := number(a)
	y, errY := number(b)
	if x != x || y != y { // NaN is neither less nor greater
		return 0, nil
	}
	return cmp.Compare(x, y), cmp.Or(errX, errY)
}

func (g *group) do(op *kv.Op, r *kv.OpResult, txn *kv.Txn) error {
	if txn.System && kv.Archived(op.NS) {
		g.shelve(op, r, g.rev+1, g.millis)
		return nil
	}
	switch op.Kind {
	case kv.OpGet:
		r.Entry = g.get(op.NS, op.Key)
		return nil
	case kv.OpPut:
		if op.Seal {
			return codes.Errorf(codes.NotImplemented, "the value of key %.64q is to be sealed, and has come to the store as it is; nothing was written", op.Key)
		}
		return g.write(op, op.Value, r, txn)
	case kv.OpIncr:
		return g.incr(op, r, txn)
	case kv.OpDelete:
		if op.WantPrev {
			r.Prev = g.before(op.NS, op.Key)
		}
		sp, s := g.counters.index.find(op.NS, op.Key)
		if s.now() != nil {
			g.set(g.touch(sp, s), nil)
			r.Count = 1
		}
		return nil
	case kv.OpDeletePrefix:
		return g.deletePrefix(op, r)
	case kv.OpGrant:
		return g.grant(op, r, txn)
	}
	return g.revoke(op, r, txn)
}

func (g *group) write(op *kv.Op, value kv.Value, r *kv.OpResult, txn *kv.Txn) error {
	next := g.rev + 1
	sp, s := g.find(op)
	old := s.now()
	if err := mayWrite(op, old, txn, g.rev); err != nil {
		return err
	}
	lock := op.Lock || old != nil && old.Lock() && !txn.System
	e := &kv.Entry{
		NS: op.NS, Key: op.Key, Value: value,
		Create: next, Mod: next, Version: 1, Updated: g.millis, Expires: op.Expires, Lease: op.Lease,
	}
	if value.Data == nil {
		e.Value.Data = []byte{} // as it is when it comes back from the disk
	}
	if op.TTL > 0 {
		ttl := int64((op.TTL + time.Millisecond - 1) / time.Millisecond)
		e.Expires, e.Ends = g.millis+ttl, g.steady+ttl
	}
	if old != nil {
		e.Create, e.Version = old.Create, old.Version
		if old.Mod != next {
			e.Version++
		}
		if op.Kind.Updates() && e.Expires == 0 {
			e.Expires, e.Ends = old.Expires, old.Ends
		}
		if (op.Kind.Updates() || lock) && e.Lease == 0 {
			e.Lease = old.Lease
		}
	}
	e.SetLock(lock)
	if op.Lease != 0 {
		if err := g.checkLease(op.Lease, old, txn); err != nil {
			return err
		}
	}
	if op.WantPrev {
		r.Prev = g.before(op.NS, op.Key)
	}
	g.put(sp, s, e)
	r.Entry = e
	return nil
}

// mayWrite needs for a write to a lock its lease or its fence.
func mayWrite(op *kv.Op, old *kv.Entry, txn *kv.Txn, now kv.Revision) error {
	if old == nil || !old.Lock() || txn.System || op.Lease == old.Lease ||
		slices.Contains(txn.Fences, kv.Fence{NS: old.NS, Key: old.Key, Token: old.Create}) {
		return nil
	}
	return &kv.Taken{NS: op.NS, Key: op.Key, Holder: old, Revision: now}
}

// shelve puts or deletes an archived key. What it was before is not known here.
func (t *scratch) shelve(op *kv.Op, r *kv.OpResult, rev kv.Revision, millis int64) {
	e := &kv.Entry{NS: op.NS, Key: op.Key, Mod: rev, Updated: millis}
	event := kv.Event{Kind: kv.Delete, Entry: e}
	if op.Kind == kv.OpPut {
		e.Value, e.Create, e.Version = op.Value, rev, 1
		event.Kind, r.Entry = kv.Put, e
	}
	t.archive = append(t.archive, event)
}

// checkLease reports whether a key, whose entry is old, may be attached to a lease.
func (g *group) checkLease(id kv.LeaseID, old *kv.Entry, txn *kv.Txn) error {
	l := g.counters.leases.usable(id, txn)
	if l == nil {
		return kv.NoLease(id)
	}
	if (old == nil || old.Lease != id) && len(l.keys.of) >= g.cfg.MaxLeaseKeys {
		return codes.Errorf(codes.Limit, "lease %d has %d keys, which is the limit", id, g.cfg.MaxLeaseKeys)
	}
	return nil
}

func (g *group) incr(op *kv.Op, r *kv.OpResult, txn *kv.Txn) error {
	base, old := op.Initial, g.get(op.NS, op.Key)
	if err := mayWrite(op, old, txn, g.rev); err != nil {
		return err
	}
	if old != nil && old.Value.Type != kv.Removed {
		n, err := old.Value.Int()
		if err != nil {
			return err
		}
		base = n
	}
	if (op.Delta > 0 && base > math.MaxInt64-op.Delta) || (op.Delta < 0 && base < math.MinInt64-op.Delta) {
		return codes.Errorf(codes.Overflow, "%d and %d do not add up in 64 bits", base, op.Delta)
	}
	sum := base + op.Delta
	if op.Min != nil && sum < *op.Min {
		return codes.Errorf(codes.OutOfBounds, "%d is below min %d", sum, *op.Min)
	}
	if op.Max != nil && sum > *op.Max {
		return codes.Errorf(codes.OutOfBounds, "%d is above max %d", sum, *op.Max)
	}
	return g.write(op, kv.IntValue(sum), r, txn)
}

func (g *group) deletePrefix(op *kv.Op, r *kv.OpResult) error {
	sp := g.counters.index.spaces.of[op.NS]
	if sp == nil {
		return nil
	}
	limit := int64(kv.MaxDeletePrefix)
	if op.Limit > 0 {
		limit = min(limit, int64(op.Limit))
	}
	// Deleting leaves the slots in place until the group is published, so the tree can be
	// walked meanwhile.
	sp.tree.Ascend(&slot{entry: &kv.Entry{Key: op.Key}}, func(s *slot) bool {
		switch {
		case !strings.HasPrefix(s.entry.Key, op.Key):
			return false
		case s.now() == nil:
			return true
		case r.Count == limit:
			r.More = true
			return false
		}
		g.set(g.touch(sp, s), nil)
		r.Count++
		return len(g.touched) <= maxChanges
	})
	return g.checkChanges()
}

func (g *group) checkChanges() error {
	if len(g.touched) > maxChanges {
		return codes.Errorf(codes.TooManyOps, "transaction changes more than %d keys", maxChanges)
	}
	return nil
}

func (g *group) grant(op *kv.Op, r *kv.OpResult, txn *kv.Txn) error {
	l := g.counters.leases
	if len(l.byID.of) >= g.cfg.MaxLeases {
		return codes.Errorf(codes.Limit, "there are %d leases, which is the limit", g.cfg.MaxLeases)
	}
	if err := g.mayGrant(l, txn); err != nil {
		return err
	}
	id, ttl := kv.LeaseID(g.rev+1), op.TTL.Round(time.Millisecond)
	g.granted = l.grant(LeaseChange{ID: id, TTL: ttl, Owner: txn.Actor.Proved(), Home: l.here})
	r.Lease = kv.Lease{ID: g.granted.id, TTL: ttl, Left: ttl}
	return nil
}

func (g *group) revoke(op *kv.Op, r *kv.OpResult, txn *kv.Txn) error {
	l := g.counters.leases.usable(op.Lease, txn)
	if l == nil || l == g.granted {
		return kv.NoLease(op.Lease)
	}
	if !txn.System && l.reserved() {
		return errReservedLease(op.Lease)
	}
	r.Count = g.end(l)
	return g.checkChanges()
}

// end deletes a lease with its keys and returns how many there were.
func (g *group) end(l *lease) int64 {
	l.ending = true
	g.ending = append(g.ending, l)
	n := int64(len(l.keys.of))
	for s, sp := range l.keys.of {
		g.set(g.touch(sp, s), nil)
	}
	return n
}

// expireKey is a transaction of the store's own that ends a key whose time is up.
func (g *group) expireKey(p *plan) error {
	g.start(kv.Expire)
	g.set(g.touch(p.space, p.slot), nil)
	return g.endExpiry()
}

// expireLease is the same for a lease and all its keys.
func (g *group) expireLease(l *lease) error {
	g.start(kv.Expire)
	g.end(l)
	return g.endExpiry()
}

func (g *group) endExpiry() error {
	if err := g.writable(Reserve); err != nil {
		g.undo()
		return err
	}
	g.expired += len(g.touched)
	g.finish(nil)
	return nil
}
