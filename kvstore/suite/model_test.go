package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var modelChecks = []check{
	{name: "AgreesWithAPlainMap", run: agreesWithMap},
}

// agreesWithMap applies random transactions, clock steps, restarts and kills, and compares the
// engine with a plain map that did the same.
func agreesWithMap(s *subject) {
	rapid.Check(s.TB, func(t *rapid.T) {
		r := &comparison{subject: subject{TB: propertyTB{s.TB, t}, open: s.open, patience: s.patience}, t: t, model: newModel()}
		r.begin(options{})
		defer func() { _ = r.Engine.Close() }()
		r.feed = r.follow()
		t.Repeat(map[string]func(*rapid.T){
			"txn":     func(*rapid.T) { r.txn() },
			"txn2":    func(*rapid.T) { r.txn() },
			"txn3":    func(*rapid.T) { r.txn() },
			"again":   func(*rapid.T) { r.again() },
			"past":    func(*rapid.T) { r.past() },
			"time":    func(*rapid.T) { r.time() },
			"restart": func(*rapid.T) { r.reopen(r.restart) },
			"kill":    func(*rapid.T) { r.reopen(r.kill) },
			"":        func(*rapid.T) { r.compare() },
		})
		r.compareEvents(r.changesAfter(0), r.model.events)
		r.unhook()
	})
}

// propertyTB fails the property, so that rapid can look for a smaller failure,
// and leaves the rest to the test around it.
type propertyTB struct {
	testing.TB
	t *rapid.T
}

func (p propertyTB) Helper()                           { p.t.Helper() }
func (p propertyTB) Errorf(format string, args ...any) { p.t.Errorf(format, args...) }
func (p propertyTB) Error(args ...any)                 { p.t.Error(args...) }
func (p propertyTB) Fatalf(format string, args ...any) { p.t.Fatalf(format, args...) }
func (p propertyTB) Fatal(args ...any)                 { p.t.Fatal(args...) }
func (p propertyTB) FailNow()                          { p.t.FailNow() }
func (p propertyTB) Fail()                             { p.t.Fail() }
func (p propertyTB) Failed() bool                      { return p.t.Failed() }
func (p propertyTB) Logf(format string, args ...any)   { p.t.Logf(format, args...) }
func (p propertyTB) Log(args ...any)                   { p.t.Log(args...) }

// comparison is one run: an engine, its model, and requests remembered for repetition.
type comparison struct {
	subject
	t     *rapid.T
	model *model
	feed  *recorder
	fed   int        // what of the model's events was before feed
	last  *kv.Txn    // with a token
	first *kv.Result // of it
}

var modelNames = []name{{"a", "x"}, {"a", "x/1"}, {"a", "y"}, {"a/b", "x"}, {"b", "x"}}

func (r *comparison) name() name { return rapid.SampledFrom(modelNames).Draw(r.t, "name") }

func (r *comparison) value() kv.Value {
	return rapid.SampledFrom([]kv.Value{kv.IntValue(1), kv.IntValue(7), kv.IntValue(1<<63 - 1), kv.StringValue("text"), kv.StringValue(""), value(kv.Double, "1.50")}).Draw(r.t, "value")
}

func (r *comparison) lease() kv.LeaseID {
	known := append([]kv.LeaseID{0, 0, 0, 999_999}, slices.Sorted(maps.Keys(r.model.leases))...)
	return rapid.SampledFrom(known).Draw(r.t, "lease")
}

func (r *comparison) ttl() time.Duration {
	return rapid.SampledFrom([]time.Duration{0, 0, time.Second, minute}).Draw(r.t, "ttl")
}

func (r *comparison) compareOf() kv.Compare {
	n := r.name()
	c := kv.Compare{NS: n.ns, Key: n.key, Target: kv.Target(rapid.IntRange(1, 4).Draw(r.t, "target")), Relation: kv.Relation(rapid.IntRange(1, 4).Draw(r.t, "relation"))}
	if c.Target == kv.CompareValue {
		c.Value = r.value()
		return c
	}
	c.Number = rapid.Int64Range(0, 3).Draw(r.t, "number")
	if c.Target != kv.CompareVersion {
		c.Number = int64(r.model.revision) - c.Number
	}
	return c
}

func (r *comparison) draw() *kv.Txn {
	txn := &kv.Txn{}
	for range rapid.IntRange(0, 2).Draw(r.t, "compares") {
		txn.If = append(txn.If, r.compareOf())
	}
	for _, ops := range []*[]kv.Op{&txn.Then, &txn.Else} {
		grants := 0
		for range rapid.IntRange(0, 4).Draw(r.t, "ops") {
			op := r.op()
			if op.Kind == kv.OpGrant {
				grants++
			}
			if grants < 2 || op.Kind != kv.OpGrant {
				*ops = append(*ops, op)
			}
		}
	}
	if rapid.IntRange(0, 4).Draw(r.t, "fence") == 0 {
		n := r.name()
		token := r.model.revision
		if e := r.model.entries[n]; e != nil && rapid.Bool().Draw(r.t, "holds") {
			token = e.Create
		}
		txn.Fences = []kv.Fence{{NS: n.ns, Key: n.key, Token: token}}
	}
	if rapid.IntRange(0, 3).Draw(r.t, "token") == 0 {
		r.model.tokens++
		txn.Token, txn.TokenNS = fmt.Sprint("token", r.model.tokens), "a"
	}
	return txn
}

// txn applies a transaction to engine and model. The engine chooses the revision, above all
// earlier ones.
func (r *comparison) txn() {
	txn := r.draw()
	got, err := r.commit(clone(txn))
	revision := r.model.revision + 1
	if err == nil {
		revision = got.Revision
	}
	want, changed, wantErr := r.model.do(txn, revision, r.now())
	require.Equal(r, codes.Of(wantErr), codes.Of(err), "%+v: %v", txn, err)
	if err != nil {
		return
	}
	require.Equal(r, want.Held, got.Held)
	if changed {
		require.Equal(r, opTexts(want.Ops), opTexts(got.Ops), "%+v", txn)
	} else {
		require.Equal(r, opTexts(timeless(want.Ops)), opTexts(timeless(got.Ops)), "%+v", txn)
	}
	switch {
	case changed:
		require.Greater(r, got.Revision, r.model.revision, "a revision of its own")
	case txn.Token == "":
		require.Equal(r, r.model.revision, got.Revision, "nothing was changed")
	default:
		require.GreaterOrEqual(r, got.Revision, r.model.revision)
	}
	r.model.revision = r.Engine.Revision()
	require.GreaterOrEqual(r, r.model.revision, got.Revision)
	r.model.remember(got.Revision)
	if txn.Token != "" {
		r.last, r.first = txn, got
	}
}

func opTexts(ops []kv.OpResult) []string {
	texts := make([]string, len(ops))
	for i, op := range ops {
		texts[i] = fmt.Sprintf("%s; before %s; count %d %t; lease %+v", entryText(op.Entry), entryText(op.Prev), op.Count, op.More, op.Lease)
	}
	return texts
}

// timeless omits the revision of a result that changed nothing.
func timeless(ops []kv.OpResult) []kv.OpResult {
	list := slices.Clone(ops)
	for i := range list {
		if list[i].Entry != nil {
			e := *list[i].Entry
			e.Create, e.Mod = 0, 0
			list[i].Entry = &e
		}
	}
	return list
}

func clone(txn *kv.Txn) *kv.Txn {
	again := *txn
	return &again
}

// again repeats a transaction that had a token.
func (r *comparison) again() {
	if r.last == nil {
		return
	}
	got := r.must(clone(r.last))
	requireReplay(&r.subject, r.first, got)
}

// past reads the state at the revision of some earlier answer.
func (r *comparison) past() {
	if len(r.model.past) == 0 {
		return
	}
	at := rapid.SampledFrom(r.model.past).Draw(r.t, "at")
	for _, n := range modelNames {
		got, err := r.Engine.GetAt(r.Context(), n.ns, n.key, at.revision)
		require.NoError(r, err)
		require.Equal(r, entryText(at.entries[n]), entryText(got), "%v at revision %d", n, at.revision)
	}
}

// time passes, and some keys with it.
func (r *comparison) time() {
	r.Clock.Advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 10 * time.Second, minute}).Draw(r.t, "pass"))
	ended := r.model.expire(r.now())
	r.until("keys whose time is over expire", func() bool {
		for _, n := range ended {
			if r.get(n.ns, n.key) != nil {
				return false
			}
		}
		return true
	}, r.barrier)
	r.barrier()
	r.model.revision = r.Engine.Revision()
}

func (r *comparison) reopen(again func()) {
	r.compareEvents(r.feed.changesAfter(0), r.model.events[r.fed:])
	again()
	require.GreaterOrEqual(r, r.Engine.Revision(), r.model.revision)
	r.model.revision = r.Engine.Revision()
	r.feed, r.fed = r.follow(), len(r.model.events)
}

func (r *comparison) compareEvents(got []kv.Change, want [][]string) {
	var texts [][]string
	for _, c := range got {
		texts = append(texts, eventTexts(c.Events))
	}
	// Which keys expire together is the engine's business.
	require.Equal(r, single(want), single(texts))
}

func single(groups [][]string) []string {
	list := []string{}
	for _, g := range groups {
		if strings.HasPrefix(g[0], "expire") {
			list = append(list, g...)
			continue
		}
		list = append(list, strings.Join(g, ", "))
	}
	for i := 0; i < len(list); i++ {
		end := i
		for end < len(list) && strings.HasPrefix(list[end], "expire") {
			end++
		}
		slices.Sort(list[i:end])
		i = max(i, end-1)
	}
	return list
}

// compare compares the whole current state.
func (r *comparison) compare() {
	require.Equal(r, r.model.revision, r.Engine.Revision())
	for _, n := range modelNames {
		require.Equal(r, entryText(r.model.entries[n]), entryText(r.get(n.ns, n.key)), "%v", n)
	}
	v := r.Engine.View()
	defer v.Close()
	keys, bytes := map[string]int64{}, map[string]int64{}
	for n, e := range r.model.entries {
		keys[n.ns]++
		bytes[n.ns] += int64(e.Size())
	}
	spaces, _ := r.Engine.Namespaces("", 0)
	require.Len(r, spaces, len(keys))
	for _, ns := range spaces {
		require.Equal(r, kv.Namespace{Name: ns.Name, Keys: keys[ns.Name], Bytes: bytes[ns.Name]}, ns)
		require.Equal(r, r.model.keys(ns.Name, "x"), append([]string{}, list(&r.subject, v, kv.List{NS: ns.Name, Prefix: "x", Limit: 1})...))
	}
	require.Equal(r, int64(len(r.model.leases)), r.Engine.Stats().Leases)
}
