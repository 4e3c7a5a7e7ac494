package suite

import (
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"pgregory.net/rapid"
)

// The suite's view of an operation: how it is drawn, and what it means to the model.

func (r *comparison) op() kv.Op {
	n := r.name()
	op := kv.Op{NS: n.ns, Key: n.key, WantPrev: rapid.Bool().Draw(r.t, "prev")}
	op.Kind = rapid.SampledFrom(append([]kv.OpKind{kv.OpPut, kv.OpPut, kv.OpIncr}, kv.OpKinds()...)).Draw(r.t, "kind")
	switch op.Kind {
	case kv.OpPut:
		op.Value, op.TTL, op.Lease = r.value(), r.ttl(), r.lease()
		op.Lock = op.Lease != 0 && rapid.Bool().Draw(r.t, "lock")
	case kv.OpIncr:
		op.Delta, op.Initial = rapid.Int64Range(-2, 2).Draw(r.t, "delta"), rapid.Int64Range(0, 5).Draw(r.t, "initial")
		op.TTL = r.ttl()
	case kv.OpDeletePrefix:
		op.Key, op.Limit, op.Confirm = op.Key[:rapid.IntRange(0, 1).Draw(r.t, "length")], rapid.IntRange(0, 2).Draw(r.t, "limit"), op.NS
	case kv.OpGrant:
		op = kv.Op{Kind: kv.OpGrant, TTL: kv.MaxLease}
	case kv.OpRevoke:
		op = kv.Op{Kind: kv.OpRevoke, Lease: r.lease()}
	}
	return op
}

func (a *attempt) op(op kv.Op) (kv.OpResult, error) {
	n := name{op.NS, op.Key}
	var r kv.OpResult
	if op.WantPrev && (op.Kind.Sets() || op.Kind == kv.OpDelete) {
		r.Prev = a.before[n]
	}
	old := a.now[n]
	lock := old != nil && old.Lock()
	if lock && op.Kind.Sets() && op.Lease != old.Lease && !slices.Contains(a.fences, kv.Fence{NS: n.ns, Key: n.key, Token: old.Create}) {
		return r, codes.Locked
	}
	switch op.Kind {
	case kv.OpGet:
		r.Entry = a.now[n]
	case kv.OpPut:
		if _, exists := a.leases[op.Lease]; op.Lease != 0 && !exists {
			return r, codes.LeaseGone
		}
		lease := op.Lease
		if lock && lease == 0 {
			lease = old.Lease
		}
		r.Entry = a.write(n, op.Value, op.TTL, lease)
		r.Entry.SetLock(lock || op.Lock)
	case kv.OpIncr:
		return a.incr(op, r)
	case kv.OpDelete:
		r.Count = a.remove(func(m name, _ *kv.Entry) bool { return m == n })
	case kv.OpDeletePrefix:
		var keys []string
		for m := range a.now {
			if m.ns == op.NS && strings.HasPrefix(m.key, op.Key) {
				keys = append(keys, m.key)
			}
		}
		slices.Sort(keys)
		if op.Limit > 0 && len(keys) > op.Limit {
			keys, r.More = keys[:op.Limit], true
		}
		r.Count = a.remove(func(m name, _ *kv.Entry) bool { return m.ns == op.NS && slices.Contains(keys, m.key) })
	case kv.OpGrant:
		r.Lease = kv.Lease{ID: kv.LeaseID(a.revision), TTL: op.TTL, Left: op.TTL}
		a.leases[r.Lease.ID] = op.TTL
	case kv.OpRevoke:
		if _, exists := a.leases[op.Lease]; !exists {
			return r, codes.LeaseGone
		}
		delete(a.leases, op.Lease)
		r.Count = a.remove(func(_ name, e *kv.Entry) bool { return e.Lease == op.Lease })
	}
	return r, nil
}

func (a *attempt) remove(which func(name, *kv.Entry) bool) int64 {
	before := len(a.now)
	maps.DeleteFunc(a.now, which)
	return int64(before - len(a.now))
}

func (a *attempt) write(n name, v kv.Value, ttl time.Duration, lease kv.LeaseID) *kv.Entry {
	e := &kv.Entry{NS: n.ns, Key: n.key, Value: v, Create: a.revision, Mod: a.revision, Version: 1, Updated: a.time, Lease: lease}
	if ttl > 0 {
		e.Expires = a.time + ttl.Milliseconds()
		e.Ends = e.Expires // as long as the time of day is not set
	}
	if old := a.now[n]; old != nil {
		e.Create, e.Version = old.Create, old.Version
		if old == a.before[n] { // not yet changed by this transaction
			e.Version++
		}
	}
	a.now[n] = e
	return e
}

func (a *attempt) incr(op kv.Op, r kv.OpResult) (kv.OpResult, error) {
	n := name{op.NS, op.Key}
	old := a.now[n]
	sum := big.NewInt(op.Initial)
	var lease kv.LeaseID
	if old != nil {
		if old.Value.Type != kv.Int {
			return r, codes.WrongType
		}
		sum, lease = wide(old.Value), old.Lease
	}
	sum.Add(sum, big.NewInt(op.Delta))
	if !sum.IsInt64() {
		return r, codes.Overflow
	}
	e := a.write(n, kv.IntValue(sum.Int64()), op.TTL, lease)
	if old != nil && op.TTL == 0 {
		e.Expires, e.Ends = old.Expires, old.Ends
	}
	e.SetLock(old != nil && old.Lock())
	r.Entry = e
	return r, nil
}
