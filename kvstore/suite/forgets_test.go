package suite

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"confcenter/codes"
	"confcenter/kv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var forgetChecks = []check{
	{name: "ForgottenIsAsIfItHadNeverBeen", run: forgottenIsGone},
	{name: "ForgettingLeavesWhatIsNeeded", run: forgettingLeaves},
	{name: "ForgettingComesAfterWhatWasCommitted", run: forgettingComesAfter},
	{name: "ForgottenAndDeletedStaysDeleted", run: forgottenAndDeleted},
	{name: "ForgettingAgreesWithAMap", run: forgettingAgrees},
	{name: "ReservedNamespacesHaveNoHistory", run: reservedHaveNoHistory},
}

func held(e *kv.Entry) kv.Held { return kv.Held{NS: e.NS, Key: e.Key, Mod: e.Mod} }

// forgets has the engine forget entries, and returns how many it has forgotten.
func (s *subject) forgets(list ...kv.Held) int {
	s.Helper()
	type told struct {
		n   int
		err error
	}
	answer := make(chan told, 1)
	require.NoError(s, s.Engine.Forget(list, func(n int, err error) { answer <- told{n, err} }))
	got := soon(s, answer, "what was forgotten")
	require.NoError(s, got.err)
	return got.n
}

// field writes a value that may be forgotten.
func (s *subject) field(key, text string) *kv.Entry {
	s.Helper()
	return s.must(system(putOp(reserved, key, text))).Ops[0].Entry
}

func forgottenIsGone(s *subject) {
	empty := s.Engine.Stats()
	var list []kv.Held
	for i := range 1000 {
		list = append(list, held(s.field(fmt.Sprint("key", i), "value")))
	}
	stays := s.field("stays", "value")
	before, feed := s.Engine.Revision(), s.follow()
	require.Equal(s, 1000, s.forgets(list...))
	require.Zero(s, s.forgets(list...), "they are gone already")
	require.Nil(s, s.get(reserved, "key7"))
	require.Equal(s, stays, s.get(reserved, "stays"))
	view := s.Engine.View()
	page, err := view.List(kv.List{NS: reserved})
	require.NoError(s, err)
	require.Equal(s, []*kv.Entry{stays}, page.Entries)
	view.Close()
	require.Equal(s, []kv.Namespace{{Name: reserved, Keys: 1, Bytes: int64(stays.Size())}}, s.namespaces())
	require.EqualValues(s, 1, s.Engine.Stats().Keys)
	require.EqualValues(s, stays.Size(), s.Engine.Stats().Bytes)

	require.Equal(s, 1, s.forgets(held(stays)))
	require.Empty(s, s.namespaces())
	stats := s.Engine.Stats()
	require.Equal(s, empty.Memory, stats.Memory)
	require.Zero(s, stats.Namespaces)
	require.Equal(s, before, s.Engine.Revision(), "it is no change")
	require.Empty(s, feed.changesAfter(0))
	changes, err := s.Engine.Changes(s.Context(), 0, 1<<30)
	require.NoError(s, err)
	require.Len(s, withEvents(changes, 0), 1001, "what happened is still told")

	r := s.must(system(kv.Op{Kind: kv.OpIncr, NS: reserved, Key: "key7", Delta: 1, WantPrev: true}))
	require.Nil(s, r.Ops[0].Prev)
	require.Equal(s, r.Revision, r.Ops[0].Entry.Create, "a new key")
	require.EqualValues(s, 1, r.Ops[0].Entry.Version)
	s.restart()
	require.Equal(s, "1 - -", s.texts(reserved, "key7", "key8", "stays"))
	require.EqualValues(s, 1, s.Engine.Stats().Keys)
}

func (s *subject) namespaces() []kv.Namespace {
	list, _ := s.Engine.Namespaces("", 0)
	return slices.DeleteFunc(list, func(n kv.Namespace) bool { return n.Name == "kvtest" })
}

func forgettingLeaves(s *subject) {
	old := s.field("changed", "1")
	now := s.field("changed", "2")
	older := held(now)
	older.Mod = old.Mod
	id := s.grant(minute)
	r := s.must(system(
		kv.Op{Kind: kv.OpPut, NS: reserved, Key: "expires", Value: kv.IntValue(1), TTL: minute},
		kv.Op{Kind: kv.OpPut, NS: reserved, Key: "leased", Value: kv.IntValue(1), Lease: id},
	))
	require.Zero(s, s.forgets(older, held(r.Ops[0].Entry), held(r.Ops[1].Entry), kv.Held{NS: reserved, Key: "absent", Mod: old.Mod}, kv.Held{NS: "@storage/none", Key: "k"}))
	require.Zero(s, s.forgets())
	require.Equal(s, "2 1 1", s.texts(reserved, "changed", "expires", "leased"))

	view := s.Engine.View()
	require.Zero(s, s.forgets(held(now)), "the view needs it")
	later := s.field("later", "x")
	require.Equal(s, 1, s.forgets(held(later)), "the view does not know it")
	got, err := view.Get(reserved, "changed")
	require.NoError(s, err)
	require.Equal(s, now, got)
	view.Close()
	require.Equal(s, 1, s.forgets(held(now)))

	ordinary := s.put("ns", "key", "1")
	err = s.Engine.Forget([]kv.Held{held(ordinary)}, nil)
	require.Equal(s, codes.BadRequest, codes.Of(err), "%v", err)
	require.Equal(s, "1", s.text("ns", "key"))
}

// An increment that was committed before its key is forgotten must not begin anew.
func forgettingComesAfter(s *subject) {
	for i := range 50 {
		key := fmt.Sprint("n", i)
		e := s.must(system(kv.Op{Kind: kv.OpPut, NS: reserved, Key: key, Value: kv.IntValue(41)})).Ops[0].Entry
		counted := s.start(system(incrOp(reserved, key, 1)))
		require.Zero(s, s.forgets(held(e)))
		require.NoError(s, soon(s, counted, "an increment").err)
		require.Equal(s, "42", s.text(reserved, key))
	}
}

// What is deleted after it was forgotten, and written again, must not come back with the
// rows that the disk has of it.
func forgottenAndDeleted(s *subject) {
	s.field("key", "1")
	s.restart()
	require.Equal(s, 1, s.forgets(held(s.get(reserved, "key"))))
	s.field("key", "2")
	s.must(system(deleteOp(reserved, "key")))
	s.kill()
	require.Equal(s, "-", s.text(reserved, "key"))
	s.restart()
	require.Equal(s, "-", s.text(reserved, "key"))
}

func reservedHaveNoHistory(s *subject) {
	made := s.field("key", "1")
	now := s.field("key", "2")
	for _, rev := range []kv.Revision{made.Mod, now.Mod} {
		_, err := s.Engine.GetAt(s.Context(), reserved, "key", rev)
		require.Equal(s, codes.Compacted, codes.Of(err), "%v", err)
		require.ErrorContains(s, err, reserved)
	}
	_, err := s.Engine.History(s.Context(), reserved, "key", 0, 0)
	require.Equal(s, codes.Compacted, codes.Of(err), "%v", err)
	require.ErrorContains(s, err, reserved)
	changes, err := s.Engine.Changes(s.Context(), made.Mod-1, 1<<30)
	require.NoError(s, err)
	require.Len(s, withEvents(changes, 0), 2)
}

// forgetful is one run of random writes, forgetting, Views, restarts and kills, beside a map
// that does the same. What is forgotten is absent until it is written again, or until a kill
// brings it back as it was; nothing else changes.
type forgetful struct {
	subject
	t     *rapid.T
	now   map[string]*kv.Entry
	maybe map[string]*kv.Entry // what a kill may bring back
	view  kv.View              // nil: none
	seen  map[string]*kv.Entry // by it
	last  kv.Revision
}

func forgettingAgrees(s *subject) {
	rapid.Check(s.TB, func(t *rapid.T) {
		f := &forgetful{subject: subject{TB: propertyTB{s.TB, t}, open: s.open, patience: s.patience}, t: t, now: map[string]*kv.Entry{}, maybe: map[string]*kv.Entry{}}
		f.begin(options{})
		defer func() { _ = f.Engine.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"write":   func(*rapid.T) { f.write() },
			"write2":  func(*rapid.T) { f.write() },
			"forget":  func(*rapid.T) { f.some() },
			"forget2": func(*rapid.T) { f.some() },
			"view":    func(*rapid.T) { f.look() },
			"tables":  func(*rapid.T) { f.pass(2 * time.Second) },
			"restart": func(*rapid.T) { f.again(f.restart, false) },
			"kill":    func(*rapid.T) { f.again(f.kill, true) },
			"":        func(*rapid.T) { f.compare() },
		})
	})
}

func (f *forgetful) key() string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(f.t, "key")
}

func (f *forgetful) write() {
	var ops []kv.Op
	for range rapid.IntRange(1, 3).Draw(f.t, "ops") {
		op := kv.Op{NS: reserved, Key: f.key(), Delta: 1, Value: kv.IntValue(7)}
		op.Kind = rapid.SampledFrom([]kv.OpKind{kv.OpPut, kv.OpIncr, kv.OpDelete}).Draw(f.t, "kind")
		ops = append(ops, op)
	}
	want := map[string]int64{}
	for key, e := range f.now {
		want[key], _ = e.Value.Int()
	}
	for _, op := range ops {
		switch op.Kind {
		case kv.OpDelete:
			delete(want, op.Key)
		case kv.OpIncr:
			want[op.Key]++
		default:
			want[op.Key] = 7
		}
	}
	r := f.must(system(ops...))
	for _, op := range ops {
		if _, is := want[op.Key]; is || f.now[op.Key] != nil {
			delete(f.maybe, op.Key) // else nothing was changed: to delete what is forgotten does nothing
		}
		delete(f.now, op.Key)
		if n, is := want[op.Key]; is {
			e := f.get(reserved, op.Key)
			require.NotNil(f, e)
			require.Equal(f, kv.IntValue(n), e.Value)
			require.Equal(f, r.Revision, e.Mod)
			f.now[op.Key] = e
		}
	}
}

func (f *forgetful) some() {
	var list []kv.Held
	want := 0
	for _, key := range slices.Compact(slices.Sorted(slices.Values([]string{f.key(), f.key()}))) {
		e := f.now[key]
		if e == nil {
			continue
		}
		h := held(e)
		switch wrong := rapid.IntRange(0, 3).Draw(f.t, "wrong") == 0; {
		case wrong:
			h.Mod--
		case f.view != nil && (f.seen[key] != nil || f.view.Revision() >= e.Mod):
		default:
			want++
			f.maybe[key] = e
			delete(f.now, key)
		}
		list = append(list, h)
	}
	require.Equal(f, want, f.forgets(list...))
}

func (f *forgetful) look() {
	if f.view != nil {
		f.view.Close()
		f.view = nil
		return
	}
	f.view, f.seen = f.Engine.View(), maps.Clone(f.now)
}

func (f *forgetful) again(how func(), back bool) {
	if f.view != nil {
		f.look()
	}
	how()
	for key, e := range f.maybe {
		if got := f.get(reserved, key); back && got != nil {
			require.Equal(f, entryText(e), entryText(got), "as it was")
			f.now[key] = got
		}
	}
	clear(f.maybe)
}

func (f *forgetful) compare() {
	require.GreaterOrEqual(f, f.Engine.Revision(), f.last)
	f.last = f.Engine.Revision()
	for _, key := range []string{"a", "b", "c", "d"} {
		require.Equal(f, entryText(f.now[key]), entryText(f.get(reserved, key)), key)
		if f.view != nil {
			got, err := f.view.Get(reserved, key)
			require.NoError(f, err)
			require.Equal(f, entryText(f.seen[key]), entryText(got), "%s in the view", key)
		}
	}
}
