package suite

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

// model defines what a store means, as briefly as possible: a plain map that each transaction
// copies, works on, and puts back unless it fails. It shares no code with the engines, so that a
// misunderstanding would have to occur twice.
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
	fences      []kv.Fence
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
	a := &attempt{m.entries, maps.Clone(m.entries), maps.Clone(m.leases), revision, now, txn.Fences}
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
