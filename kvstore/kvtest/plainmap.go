package kvtest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"confcenter/codes"
	"confcenter/kv"
)

// model is what a store means, told as briefly as possible: a plain map that each
// transaction copies, works on, and puts back if it did not fail. It shares
// nothing with the engines, so that a misunderstanding would have to be made twice.
type model struct {
	entries  map[name]*kv.Entry
	leases   map[kv.LeaseID]time.Duration
	revision kv.Revision
	tokens   int
	past     []snapshot
	events   [][]string // of every change, as eventTexts
}

type name struct{ ns, key string }

func compareNames(a, b name) int {
	return cmp.Or(strings.Compare(a.ns, b.ns), strings.Compare(a.key, b.key))
}

type snapshot struct {
	revision kv.Revision
	entries  map[name]*kv.Entry
}

func newModel() *model {
	return &model{entries: map[name]*kv.Entry{}, leases: map[kv.LeaseID]time.Duration{}}
}

func (m *model) remember(revision kv.Revision) {
	m.past = append(m.past, snapshot{revision, maps.Clone(m.entries)})
}

func (m *model) keys(ns, prefix string) []string {
	list := []string{}
	for n := range m.entries {
		if n.ns == ns && strings.HasPrefix(n.key, prefix) {
			list = append(list, n.key)
		}
	}
	slices.Sort(list)
	return list
}

func (m *model) expire(now int64) (ended []name) {
	for n, e := range m.entries {
		if e.Expires != 0 && e.Expires <= now {
			ended = append(ended, n)
			delete(m.entries, n)
			m.events = append(m.events, []string{fmt.Sprintf("expire %s %s", n.ns, n.key)})
		}
	}
	return ended
}

// attempt is one transaction at work on a copy.
type attempt struct {
	before, now map[name]*kv.Entry
	leases      map[kv.LeaseID]time.Duration
	revision    kv.Revision
	time        int64
}

func (m *model) do(txn *kv.Txn, revision kv.Revision, now int64) (*kv.Result, bool, error) {
	for _, f := range txn.Fences {
		if e := m.entries[name{f.NS, f.Key}]; e == nil || e.Create != f.Token {
			return nil, false, codes.FenceLost
		}
	}
	result, ops := &kv.Result{Held: true}, txn.Then
	for _, c := range txn.If {
		if !m.holds(c) {
			result.Held, ops = false, txn.Else
		}
	}
	a := &attempt{m.entries, maps.Clone(m.entries), maps.Clone(m.leases), revision, now}
	result.Ops = make([]kv.OpResult, 0, len(ops))
	for _, op := range ops {
		done, err := a.op(op)
		if err != nil {
			return nil, false, err
		}
		result.Ops = append(result.Ops, done)
	}
	events := a.events()
	changed := len(events) > 0 || !maps.Equal(m.leases, a.leases)
	for _, op := range ops { // a lease that is revoked again where it was granted
		changed = changed || op.Kind == kv.OpGrant
	}
	m.entries, m.leases = a.now, a.leases
	if len(events) > 0 {
		m.events = append(m.events, events)
	}
	return result, changed, nil
}

func (a *attempt) events() []string {
	all := maps.Clone(a.before)
	maps.Copy(all, a.now)
	var texts []string
	for _, n := range slices.SortedFunc(maps.Keys(all), compareNames) {
		switch now := a.now[n]; {
		case now == nil:
			texts = append(texts, fmt.Sprintf("delete %s %s", n.ns, n.key))
		case now != a.before[n]:
			texts = append(texts, fmt.Sprintf("put %s %s %s", n.ns, n.key, now.Value.Data))
		}
	}
	return texts
}

func (m *model) holds(c kv.Compare) bool {
	e := m.entries[name{c.NS, c.Key}]
	if c.Target == kv.CompareValue && (e == nil || e.Value.Type != c.Value.Type) {
		return c.Relation == kv.NotEqual
	}
	if e == nil {
		e = &kv.Entry{}
	}
	var order int // of what there is and what is given; nothing here is nan
	switch {
	case c.Target == kv.CompareVersion:
		order = big.NewInt(e.Version).Cmp(big.NewInt(c.Number))
	case c.Target == kv.CompareCreate:
		order = big.NewInt(int64(e.Create)).Cmp(big.NewInt(c.Number))
	case c.Target == kv.CompareMod:
		order = big.NewInt(int64(e.Mod)).Cmp(big.NewInt(c.Number))
	case c.Value.Type == kv.Int:
		order = wide(e.Value).Cmp(wide(c.Value))
	default:
		order = bytes.Compare(e.Value.Data, c.Value.Data)
	}
	return map[kv.Relation]bool{kv.Equal: order == 0, kv.NotEqual: order != 0, kv.Less: order < 0, kv.Greater: order > 0}[c.Relation]
}

func wide(v kv.Value) *big.Int {
	n, _ := new(big.Int).SetString(string(v.Data), 10)
	return n
}

func (a *attempt) op(op kv.Op) (kv.OpResult, error) {
	n := name{op.NS, op.Key}
	var r kv.OpResult
	if op.WantPrev && (op.Kind.Sets() || op.Kind == kv.OpDelete) {
		r.Prev = a.before[n]
	}
	switch op.Kind {
	case kv.OpGet:
		r.Entry = a.now[n]
	case kv.OpPut:
		if _, exists := a.leases[op.Lease]; op.Lease != 0 && !exists {
			return r, codes.LeaseGone
		}
		r.Entry = a.write(n, op.Value, op.TTL, op.Lease)
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
		e.Expires = old.Expires
	}
	r.Entry = e
	return r, nil
}
