package kvtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// evaluation is one transaction on its way: what it has changed so far lies over
// the state, which it does not touch.
type evaluation struct {
	state    *state
	revision kv.Revision
	now      time.Time
	touched  map[name]*touch

	effect
}

// touch is a key that the transaction has changed. Absent is nil.
type touch struct {
	before, after *kv.Entry
	kind          kv.EventKind
}

func newEvaluation(s *state, revision kv.Revision, now time.Time) *evaluation {
	return &evaluation{state: s, revision: revision, now: now, touched: map[name]*touch{}}
}

func (e *evaluation) get(n name) *kv.Entry {
	if t := e.touched[n]; t != nil {
		return t.after
	}
	return e.state.spaces[n.ns].current(n.key)
}

func (e *evaluation) set(n name, entry *kv.Entry, kind kv.EventKind) {
	t := e.touched[n]
	if t == nil {
		t = &touch{before: e.get(n)}
		e.touched[n] = t
	}
	t.after, t.kind = entry, kind
}

func (e *evaluation) expire(n name) { e.set(n, nil, kv.Expire) }

func (e *evaluation) evaluate(txn *kv.Txn) (*kv.Result, error) {
	for _, f := range txn.Fences {
		lock := e.get(name{f.NS, f.Key})
		if lock == nil || lock.Create != f.Token {
			return nil, codes.Errorf(codes.FenceLost, "the lock %q of namespace %q is not held with token %d", f.Key, f.NS, f.Token)
		}
	}
	held := true
	for i := range txn.If {
		held = held && e.holds(&txn.If[i])
	}
	ops := txn.Then
	if !held {
		ops = txn.Else
	}
	result := &kv.Result{Revision: e.state.revision, Held: held, Ops: make([]kv.OpResult, len(ops))}
	for i := range ops {
		done, err := e.do(&ops[i])
		if err != nil {
			if len(ops) > 1 {
				err = codes.Errorf(codes.Of(err), "operation %d: %w", i, err)
			}
			return nil, err
		}
		result.Ops[i] = done
	}
	if e.finish() {
		result.Revision = e.revision
	}
	return result, nil
}

func (e *evaluation) holds(c *kv.Compare) bool {
	entry := e.get(name{c.NS, c.Key})
	if c.Target == kv.CompareValue {
		if entry == nil || (c.Value.Type != 0 && c.Value.Type != entry.Value.Type) {
			return c.Relation == kv.NotEqual
		}
		return valueHolds(entry.Value, c.Relation, c.Value)
	}
	var number int64
	if entry != nil {
		number = [...]int64{kv.CompareVersion: entry.Version, kv.CompareCreate: int64(entry.Create), kv.CompareMod: int64(entry.Mod)}[c.Target]
	}
	switch c.Relation {
	case kv.Equal:
		return number == c.Number
	case kv.NotEqual:
		return number != c.Number
	case kv.Less:
		return number < c.Number
	}
	return number > c.Number
}

func valueHolds(have kv.Value, relation kv.Relation, want kv.Value) bool {
	equal := bytes.Equal(have.Data, want.Data)
	switch relation {
	case kv.Equal:
		return equal
	case kv.NotEqual:
		return !equal
	}
	less, greater := bytes.Compare(have.Data, want.Data) < 0, bytes.Compare(have.Data, want.Data) > 0
	switch want.Type {
	case kv.Int:
		a, _ := have.Int()
		b, _ := want.Int()
		less, greater = a < b, a > b
	case kv.Double:
		a, _ := have.Double()
		b, _ := want.Double()
		less, greater = a < b, a > b
	}
	if relation == kv.Less {
		return less
	}
	return greater
}

func (e *evaluation) do(op *kv.Op) (kv.OpResult, error) {
	n := name{op.NS, op.Key}
	switch op.Kind {
	case kv.OpGet:
		return kv.OpResult{Entry: e.get(n)}, nil
	case kv.OpPut:
		return e.write(op, op.Value)
	case kv.OpIncr:
		return e.incr(op)
	case kv.OpDelete:
		r := kv.OpResult{Prev: e.prev(op)}
		if e.get(n) != nil {
			r.Count = 1
			e.set(n, nil, kv.Delete)
		}
		return r, nil
	case kv.OpDeletePrefix:
		return e.deletePrefix(op), nil
	case kv.OpGrant:
		l := kv.Lease{ID: kv.LeaseID(e.revision), TTL: op.TTL, Left: op.TTL}
		e.effect.granted = &l
		return kv.OpResult{Lease: l}, nil
	}
	return e.revoke(op)
}

// prev is the entry before the transaction, if it is wanted.
func (e *evaluation) prev(op *kv.Op) *kv.Entry {
	if !op.WantPrev {
		return nil
	}
	return e.state.spaces[op.NS].current(op.Key)
}

func (e *evaluation) hasLease(id kv.LeaseID) bool {
	return e.state.leases[id] != nil && !slices.Contains(e.effect.ended, id)
}

func (e *evaluation) write(op *kv.Op, value kv.Value) (kv.OpResult, error) {
	n := name{op.NS, op.Key}
	if op.Lease != 0 && !e.hasLease(op.Lease) {
		return kv.OpResult{}, errLeaseGone(op.Lease)
	}
	entry := &kv.Entry{
		NS: op.NS, Key: op.Key, Value: value,
		Create: e.revision, Mod: e.revision, Version: 1, Updated: e.now.UnixMilli(), Expires: op.Expires, Lease: op.Lease,
	}
	if op.TTL > 0 {
		entry.Expires = entry.Updated + int64((op.TTL+time.Millisecond-1)/time.Millisecond)
	}
	old := e.get(n)
	if old != nil {
		entry.Create, entry.Version = old.Create, old.Version
		if old.Mod != e.revision {
			entry.Version++
		}
	}
	if op.Kind == kv.OpIncr && old != nil {
		if entry.Expires == 0 {
			entry.Expires = old.Expires
		}
		if entry.Lease == 0 {
			entry.Lease = old.Lease
		}
	}
	r := kv.OpResult{Entry: entry, Prev: e.prev(op)}
	e.set(n, entry, kv.Put)
	return r, nil
}

func (e *evaluation) incr(op *kv.Op) (kv.OpResult, error) {
	base := op.Initial
	if old := e.get(name{op.NS, op.Key}); old != nil {
		var err error
		if base, err = old.Value.Int(); err != nil {
			return kv.OpResult{}, err
		}
	}
	if (op.Delta > 0 && base > math.MaxInt64-op.Delta) || (op.Delta < 0 && base < math.MinInt64-op.Delta) {
		return kv.OpResult{}, codes.Errorf(codes.Overflow, "%d and %d do not add up in 64 bits", base, op.Delta)
	}
	sum := base + op.Delta
	if (op.Min != nil && sum < *op.Min) || (op.Max != nil && sum > *op.Max) {
		return kv.OpResult{}, codes.Errorf(codes.OutOfBounds, "%d is outside the bounds", sum)
	}
	return e.write(op, kv.IntValue(sum))
}

func (e *evaluation) deletePrefix(op *kv.Op) kv.OpResult {
	var names []name
	if sp := e.state.spaces[op.NS]; sp != nil {
		for _, key := range sp.keys {
			names = append(names, name{op.NS, key})
		}
	}
	for n := range e.touched {
		if n.ns == op.NS && e.state.spaces[op.NS].current(n.key) == nil {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, compareNames)
	names = slices.Compact(names)
	limit := op.Limit
	if limit == 0 {
		limit = kv.MaxDeletePrefix
	}
	limit = min(limit, kv.MaxDeletePrefix)
	var r kv.OpResult
	for _, n := range names {
		if !strings.HasPrefix(n.key, op.Key) || e.get(n) == nil {
			continue
		}
		if r.Count == int64(limit) {
			r.More = true
			break
		}
		r.Count++
		e.set(n, nil, kv.Delete)
	}
	return r
}

func (e *evaluation) revoke(op *kv.Op) (kv.OpResult, error) {
	if !e.hasLease(op.Lease) {
		return kv.OpResult{}, errLeaseGone(op.Lease)
	}
	var r kv.OpResult
	drop := func(n name) {
		if entry := e.get(n); entry != nil && entry.Lease == op.Lease {
			r.Count++
			e.set(n, nil, kv.Delete)
		}
	}
	for n := range e.state.leases[op.Lease].keys {
		drop(n)
	}
	for n := range e.touched {
		drop(n)
	}
	e.effect.ended = append(e.effect.ended, op.Lease)
	return r, nil
}

// finish makes the change of what was touched and says whether there is any.
func (e *evaluation) finish() bool {
	e.change = kv.Change{Revision: e.revision, Time: e.now.UnixMilli()}
	names := make([]name, 0, len(e.touched))
	for n := range e.touched {
		names = append(names, n)
	}
	slices.SortFunc(names, compareNames)
	for _, n := range names {
		t := e.touched[n]
		event := kv.Event{Kind: t.kind, Entry: t.after, Prev: t.before}
		if t.after == nil {
			if t.before == nil {
				continue
			}
			event.Entry = &kv.Entry{NS: n.ns, Key: n.key, Mod: e.revision, Updated: e.change.Time}
		}
		e.change.Events = append(e.change.Events, event)
	}
	return len(e.change.Events) > 0 || e.effect.granted != nil || len(e.effect.ended) > 0
}

// record remembers the transaction's token and says whether there is anything to
// be committed.
func (e *evaluation) record(txn *kv.Txn, result *kv.Result) bool {
	if txn.Token == "" {
		return result.Revision == e.revision
	}
	again := replayed(result, txn)
	e.effect.token = &token{ns: txn.TokenNS, name: txn.Token, digest: digest(txn), time: e.change.Time, result: again}
	return true
}

// replayed is the result as it will be given to those who ask again: without the
// values they send with the question.
func replayed(result *kv.Result, txn *kv.Txn) *kv.Result {
	again := &kv.Result{Revision: result.Revision, Held: result.Held, Ops: slices.Clone(result.Ops), Replayed: true}
	ops := txn.Then
	if !result.Held {
		ops = txn.Else
	}
	for i := range ops {
		if ops[i].Kind == kv.OpPut {
			entry := *again.Ops[i].Entry
			entry.Value = kv.Value{}
			again.Ops[i].Entry = &entry
		}
	}
	return again
}

// needsSpace says whether the transaction has to wait for space on the disk:
// what only reads or gives up may always go on.
func (e *evaluation) needsSpace(txn *kv.Txn) bool {
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		for i := range ops {
			switch ops[i].Kind {
			case kv.OpPut, kv.OpIncr, kv.OpGrant:
				return true
			}
		}
	}
	return false
}

// digest is a text that two transactions share only if they ask for the same.
func digest(txn *kv.Txn) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d", len(txn.Fences), len(txn.If), len(txn.Then), len(txn.Else))
	for _, f := range txn.Fences {
		fmt.Fprintf(&b, "|%q %q %d", f.NS, f.Key, f.Token)
	}
	for _, c := range txn.If {
		fmt.Fprintf(&b, "|%q %q %d %d %d %d %q", c.NS, c.Key, c.Target, c.Relation, c.Number, c.Value.Type, c.Value.Data)
	}
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		for _, o := range ops {
			fmt.Fprintf(&b, "|%d %q %q %d %q %d %d %d %d %d %s %s %d %t", o.Kind, o.NS, o.Key, o.Value.Type, o.Value.Data,
				o.TTL, o.Expires, o.Lease, o.Delta, o.Initial, number(o.Min), number(o.Max), o.Limit, o.WantPrev)
		}
	}
	return b.String()
}

func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
