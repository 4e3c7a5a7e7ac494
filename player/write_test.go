package player

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

func TestH1ANewOwnerIsEmptyAndCostsNoQuery(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.settle()
	fields, ok := k.warm(player, "a", "b")
	require.True(t, ok)
	require.Empty(t, fields)
	require.Empty(t, k.all(player))
	require.Zero(t, sql.queries())
}

func TestH2AndH3UpdatedFieldsAreReadAndNoOthers(t *testing.T) {
	k := start(t)
	out := k.update(player, map[string]string{"a": "1", "b": "two"})
	require.Empty(t, out.Prev)
	require.Equal(t, map[string]string{"a": "1", "b": "two"}, k.get(player, "a", "b", "c"))
	require.Equal(t, map[string]string{"a": "1", "b": "two"}, k.all(player))
	require.Empty(t, k.get(player))
}

func TestH4AndH5NoNameAndNoValueMeansAnythingElse(t *testing.T) {
	k := start(t)
	fields := map[string]string{"model": ":delFlag", "delay": "1", "cachedAllKey": "1", "missNum": "2", "x:delFlag": "", ":y": "z", "a&b%'{}": "é"}
	k.update(player, fields)
	require.Equal(t, fields, k.all(player))
	for name, value := range fields {
		require.Equal(t, map[string]string{name: value}, k.get(player, name))
	}
}

func TestH8AndH11IncrementsCountFromZeroUpAndDown(t *testing.T) {
	k := start(t)
	require.Equal(t, "5", k.incr(player, "n", 5))
	require.Equal(t, "10", k.incr(player, "n", 5))
	require.Equal(t, map[string]string{"n": "10"}, k.get(player, "n"))
	k.update(player, map[string]string{"n": "5"})
	require.Equal(t, "2", k.incr(player, "n", -3))
}

func TestH9OneTextRefusesAllIncrements(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"s": "abc", "ok": "1", "z": "007"})
	for _, other := range []string{"s", "z"} {
		_, err := k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "ok", By: 1}, {Name: other, By: 1}}})
		require.ErrorIs(t, err, codes.WrongType)
		require.ErrorContains(t, err, other)
	}
	require.Equal(t, map[string]string{"s": "abc", "ok": "1", "z": "007"}, k.all(player))
}

func TestH10AnIncrementBeyond64BitsIsRefused(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"n": strconv.Itoa(math.MaxInt64), "m": strconv.Itoa(math.MinInt64)})
	for _, d := range []field.Delta{{Name: "n", By: 1}, {Name: "m", By: -1}} {
		_, err := k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "other", By: 1}, d}})
		require.ErrorIs(t, err, codes.Overflow)
		require.ErrorContains(t, err, `"`+d.Name+`"`)
	}
	require.Equal(t, map[string]string{"n": strconv.Itoa(math.MaxInt64), "m": strconv.Itoa(math.MinInt64)}, k.all(player))
}

func TestH12FiftyClientsCountTogether(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				k.incr(player, "n", 1)
			}
		})
	}
	all.Wait()
	require.Equal(t, map[string]string{"n": "10000"}, k.get(player, "n"))
	k.land()
	require.Equal(t, "10000", string(sql.row(player, "n").Value))
}

func TestH13AndH14RemovedFieldsAreAbsent(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"a": "1", "b": "2"})
	require.Len(t, k.remove(player, "a", "nope").Fields, 1)
	require.Empty(t, k.get(player, "a"))
	require.Equal(t, map[string]string{"b": "2"}, k.all(player))
	rev := k.engine.Revision()
	require.Empty(t, k.remove(player, "a").Fields)
	require.Equal(t, rev, k.engine.Revision(), "nothing changed")
}

func TestH15AndH16RemovedFieldsBeginAnew(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1", "n": "10"})
	k.remove(player, "a", "n")
	k.update(player, map[string]string{"a": "new"})
	require.Equal(t, map[string]string{"a": "new"}, k.get(player, "a", "n"))
	require.Equal(t, "3", k.incr(player, "n", 3))
	k.land()
	row := sql.row(player, "a")
	require.False(t, row.Removed)
	require.Zero(t, row.RemovedAt)
}

func TestH33RegionsAreSeparate(t *testing.T) {
	k := start(t)
	other, third := player, player
	other.Region, third.App = "2", "2"
	k.update(player, map[string]string{"a": "1"})
	k.update(other, map[string]string{"a": "2"})
	require.Equal(t, map[string]string{"a": "1"}, k.all(player))
	require.Equal(t, map[string]string{"a": "2"}, k.all(other))
	require.Empty(t, k.all(third))
	require.Equal(t, []field.Owner{{App: "1", Region: "1"}, {App: "1", Region: "2"}}, k.Regions())
}

func TestH36AValueOfAMegabyteIsTakenWholeAndNoLonger(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	long := strings.Repeat("x", kv.MaxValue)
	k.update(player, map[string]string{"a": long})
	_, err := k.try(&field.Write{Owner: player, Kind: field.Update, Fields: []field.Field{{Name: "b", Value: []byte(long + "x")}}})
	require.ErrorIs(t, err, codes.TooLarge)
	require.ErrorContains(t, err, `"b"`)
	k.land()
	require.Equal(t, long, string(sql.row(player, "a").Value))
}

func TestWritesThatCannotBeOneTransactionAreRefusedByName(t *testing.T) {
	k := start(t)
	for want, w := range map[string]*field.Write{
		"update of no fields":          {Kind: field.Update},
		"increment of no fields":       {Kind: field.Incr},
		"the limit of one write is 20": {Kind: field.Update, Fields: puts(numbers(field.MaxFields + 1))},
		"8388608":                      {Kind: field.Update, Fields: puts(map[string]string{"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("x", 1<<20), "c": strings.Repeat("x", 1<<20), "d": strings.Repeat("x", 1<<20), "e": strings.Repeat("x", 1<<20), "f": strings.Repeat("x", 1<<20), "g": strings.Repeat("x", 1<<20), "h": strings.Repeat("x", 1<<20)})},
		"no such write":                {},
		"token":                        {Kind: field.Remove, Names: []string{"a"}, Token: "\x01"},
		"key is empty":                 {Kind: field.Remove, Names: []string{""}},
	} {
		w.Owner = player
		_, err := k.try(w)
		require.ErrorContains(t, err, want)
	}
	_, err := k.try(&field.Write{Kind: field.Update, Fields: puts(map[string]string{"a": "1"})})
	require.ErrorContains(t, err, "appId is empty")
	require.Zero(t, k.engine.Revision(), "not even a base")
}

// An owner may be larger than any transaction; all of it is read as it was at one moment.
func TestAnOwnerLargerThanATransactionIsReadAsOfOneMoment(t *testing.T) {
	k := start(t)
	all := numbers(3 * field.MaxFields)
	list := puts(all)
	for len(list) > 0 {
		n := min(field.MaxFields, len(list))
		k.do(&field.Write{Owner: player, Kind: field.Update, Fields: list[:n]})
		list = list[n:]
	}
	page, err := k.GetAll(t.Context(), player, field.Ask{Limit: 100})
	require.NoError(t, err)
	require.True(t, page.More)
	got := texts(page.Fields)
	k.remove(player, "f000", "f150")
	k.update(player, map[string]string{"f101": "changed", "z": "new"})
	for page.More {
		page, err = k.GetAll(t.Context(), player, field.Ask{After: page.Fields[len(page.Fields)-1].Name, Revision: page.Revision})
		require.NoError(t, err)
		for name, text := range texts(page.Fields) {
			got[name] = text
		}
	}
	require.Equal(t, all, got)
	_, err = k.GetAll(t.Context(), player, field.Ask{Revision: page.Revision})
	require.ErrorIs(t, err, codes.Compacted, "nobody has to keep the last state")
}

func TestVersionsRiseAndMakeWritesConditional(t *testing.T) {
	k := start(t)
	first := k.update(player, map[string]string{"a": "1"}).Fields[0]
	require.Equal(t, first.Version, k.field(player, "a").Version)
	require.Greater(t, first.Version, k.clock.Now().UnixMicro())

	w := func(expect map[string]int64) *field.Write {
		return &field.Write{Owner: player, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte("2")}}, Expect: expect}
	}
	second := k.do(w(map[string]int64{"a": first.Version, "other": 0})).Fields[0]
	require.Greater(t, second.Version, first.Version)
	var mismatch *field.Mismatch
	_, err := k.try(w(map[string]int64{"a": first.Version, "other": 7}))
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorAs(t, err, &mismatch)
	require.Len(t, mismatch.Fields, 2)
	require.Equal(t, second.Version, mismatch.Fields[0].Version)
	require.Equal(t, field.Field{Name: "other"}, mismatch.Fields[1])

	k.remove(player, "a")
	_, err = k.try(w(map[string]int64{"a": second.Version}))
	require.ErrorIs(t, err, codes.Conflict)
	k.do(w(map[string]int64{"a": 0}))
	_, err = k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "a", By: 1}}, Expect: map[string]int64{"a": 0}})
	require.ErrorIs(t, err, codes.Conflict)
	require.Equal(t, map[string]string{"a": "2"}, k.all(player))
}

func TestWritesTellWhatWasThereBefore(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"a": "1"})
	out := k.do(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"a": "2", "b": "3"}), WantPrev: true})
	require.Equal(t, map[string]string{"a": "1"}, texts(out.Prev))
	out = k.do(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "a", By: 5}, {Name: "c", By: 1}}, WantPrev: true})
	require.Equal(t, map[string]string{"a": "2"}, texts(out.Prev))
	require.Equal(t, map[string]string{"a": "7", "c": "1"}, texts(out.Fields))
	out = k.do(&field.Write{Owner: player, Kind: field.Remove, Names: []string{"a", "nope"}, WantPrev: true})
	require.Equal(t, map[string]string{"a": "7"}, texts(out.Prev))
	out = k.do(&field.Write{Owner: player, Kind: field.Update, Fields: puts(map[string]string{"a": "9"}), WantPrev: true})
	require.Empty(t, out.Prev, "it was removed")
}

func TestRemovedFieldsAreRestored(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"a": "41", "b": "text"})
	k.remove(player, "a", "b")
	_, err := k.try(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"a", "nope"}})
	require.ErrorIs(t, err, codes.NotFound)
	require.ErrorContains(t, err, `"nope"`)
	out := k.do(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"b", "a"}})
	require.Equal(t, map[string]string{"a": "41", "b": "text"}, texts(out.Fields))
	require.Equal(t, "42", k.incr(player, "a", 1))
	require.Empty(t, k.do(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"a"}}).Fields, "it is there already")
}

func TestTokensMakeEveryWriteRepeatable(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"a": "1", "b": "x", "c": "y"})
	for _, w := range []field.Write{
		{Kind: field.Update, Fields: puts(map[string]string{"a": "5"}), WantPrev: true},
		{Kind: field.Incr, Deltas: []field.Delta{{Name: "a", By: 1}, {Name: "n", By: 2}}, WantPrev: true},
		{Kind: field.Remove, Names: []string{"b", "c", "nope"}, WantPrev: true},
		{Kind: field.Restore, Names: []string{"c", "b"}, WantPrev: true},
		{Kind: field.Update, Fields: puts(map[string]string{"new": "5"}), Expect: map[string]int64{"new": 0}},
	} {
		w.Owner, w.Token = player, "t"+w.Kind.String()+strconv.Itoa(len(w.Expect))
		one, two := w, w
		first := k.do(&one)
		state := k.all(player)
		second := k.do(&two)
		require.True(t, second.Replayed)
		second.Replayed = false
		require.Equal(t, first, second, w.Kind)
		require.Equal(t, state, k.all(player))
		other := w
		other.WantPrev = !w.WantPrev
		_, err := k.try(&other)
		require.ErrorIs(t, err, codes.TokenReused, w.Kind)
	}
	// What was refused leaves no token.
	w := field.Write{Owner: player, Kind: field.Restore, Names: []string{"later"}, Token: "r"}
	_, err := k.try(&w)
	require.ErrorIs(t, err, codes.NotFound)
	k.update(player, map[string]string{"later": "1"})
	k.remove(player, "later")
	w = field.Write{Owner: player, Kind: field.Restore, Names: []string{"later"}, Token: "r"}
	require.Equal(t, map[string]string{"later": "1"}, texts(k.do(&w).Fields))
}

// The members of a JSON object have no order.
func TestARepetitionMayNameItsFieldsInAnotherOrder(t *testing.T) {
	k := start(t)
	for _, list := range [][]field.Field{{{Name: "x", Value: []byte("1")}, {Name: "y", Value: []byte("2")}}, {{Name: "y", Value: []byte("2")}, {Name: "x", Value: []byte("1")}}} {
		k.do(&field.Write{Owner: player, Kind: field.Update, Fields: list, Token: "u"})
	}
	for _, list := range [][]field.Delta{{{Name: "x", By: 1}, {Name: "y", By: 2}}, {{Name: "y", By: 2}, {Name: "x", By: 1}}} {
		k.do(&field.Write{Owner: player, Kind: field.Incr, Deltas: list, Token: "i"})
	}
	require.Equal(t, map[string]string{"x": "2", "y": "4"}, k.all(player))
	_, err := k.try(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "x", By: 2}, {Name: "y", By: 1}}, Token: "i"})
	require.ErrorIs(t, err, codes.TokenReused)
}

// What is told of a field would be either of two values.
func TestAFieldThatIsNamedTwiceIsRefused(t *testing.T) {
	k := start(t)
	for _, w := range []field.Write{
		{Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte("1")}, {Name: "b"}, {Name: "a", Value: []byte("2")}}},
		{Kind: field.Incr, Deltas: []field.Delta{{Name: "a", By: 1}, {Name: "b", By: 1}, {Name: "a", By: 1}}},
	} {
		w.Owner = player
		_, err := k.try(&w)
		require.ErrorIs(t, err, codes.BadRequest)
		require.ErrorContains(t, err, `field "a" twice`)
	}
	k.update(player, map[string]string{"a": "1"})
	require.Len(t, k.remove(player, "a", "a").Fields, 1)
	require.Len(t, k.do(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"a", "a"}}).Fields, 1)
}

// Writes to an owner take effect in the order of the calls, whether they can be one
// transaction at once or have to look first, and whatever is under way.
func TestWritesKeepTheirOrder(t *testing.T) {
	k := start(t)
	var all sync.WaitGroup
	for n := range 20 {
		o := player
		o.ID = strconv.Itoa(n % 4)
		name := "f" + strconv.Itoa(n)
		all.Go(func() {
			for range 20 {
				var done sync.WaitGroup
				do := func(w *field.Write) {
					w.Owner = o
					done.Add(1)
					k.Do(w, func(_ *field.Outcome, err error) {
						require.NoError(t, err)
						done.Done()
					})
				}
				do(&field.Write{Kind: field.Update, Fields: puts(map[string]string{name: "1"})})
				do(&field.Write{Kind: field.Remove, Names: []string{name}})
				do(&field.Write{Kind: field.Incr, Deltas: []field.Delta{{Name: name, By: 7}}})
				do(&field.Write{Kind: field.Remove, Names: []string{name}})
				do(&field.Write{Kind: field.Restore, Names: []string{name}})
				do(&field.Write{Kind: field.Incr, Deltas: []field.Delta{{Name: name, By: 1}}})
				done.Wait()
				require.Equal(t, map[string]string{name: "8"}, k.get(o, name))
			}
		})
	}
	all.Wait()
}

// Fifty writers who all depend on what is there get on with it.
func TestContentionEnds(t *testing.T) {
	k := start(t)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			for range 10 {
				switch n % 3 {
				case 0:
					k.incr(player, "n", 1)
				case 1:
					k.remove(player, "n")
				default:
					_, err := k.try(&field.Write{Owner: player, Kind: field.Restore, Names: []string{"n"}})
					require.True(t, err == nil || codes.Of(err) == codes.NotFound, err)
				}
			}
		})
	}
	all.Wait()
	require.Eventually(t, func() bool { return k.lines.open.Load() == 0 }, patience, time.Millisecond)
	k.lines.mu.Lock()
	defer k.lines.mu.Unlock()
	require.Empty(t, k.lines.byOwner)
	require.Zero(t, k.lines.waiting)
	require.Zero(t, k.lines.bytes)
}

func TestNumbersAreThoseThatReadBackAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`-?[0-9]{0,21}`), rapid.Custom(func(t *rapid.T) string {
			return strconv.FormatInt(rapid.Int64().Draw(t, "n"), 10)
		})).Draw(t, "text")
		n, err := strconv.ParseInt(text, 10, 64)
		want := err == nil && strconv.FormatInt(n, 10) == text
		require.Equal(t, want, valueOf([]byte(text)).Type == kv.Int, text)
	})
}

func TestAnUpdateIsOnePut(t *testing.T) {
	k := start(t)
	k.update(player, map[string]string{"a": "1"})
	var changes []kv.Change
	stop := k.engine.Follow(func(b *kv.Batch) { changes = append(changes, b.Changes...) })
	out := k.update(player, map[string]string{"a": "2"})
	stop()
	require.Len(t, changes, 1)
	require.Len(t, changes[0].Events, 1)
	require.Equal(t, field.Field{Name: "a", Value: []byte("2"), Version: out.Fields[0].Version, Updated: k.clock.Now().UnixMilli()}, fieldOf(changes[0].Events[0].Entry, "a", k.Base()))
}

// Most of what is handed over together is one transaction each, which the store gets together.
// What depends on the fields, and what stands behind it, takes other ways.
func TestWritesHandedOverTogetherKeepTheirOrder(t *testing.T) {
	k := start(t)
	version := k.update(player, map[string]string{"a": "0"}).Fields[0].Version
	other := player
	other.ID = "101"
	var told atomic.Int64
	groups := make(chan []*Call, 10)
	by := &Caller{Done: func(list []*Call) {
		told.Add(int64(len(list)))
		groups <- list
	}}
	set := func(o field.Owner, value string, expect map[string]int64) *Call {
		return &Call{Write: field.Write{Owner: o, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte(value)}}, Expect: expect}}
	}
	calls := []*Call{
		set(other, "1", nil), set(player, "1", nil),
		set(player, "2", map[string]int64{"a": version}), // of before the one in front of it
		set(player, "3", nil), {Write: field.Write{Owner: player, Kind: field.Update}}, set(other, "2", nil),
	}
	for range 2 { // they can be used again
		before := told.Load()
		k.DoEach(by, calls)
		for told.Load() < before+int64(len(calls)) {
			<-groups
		}
		var mismatch *field.Mismatch
		require.ErrorAs(t, calls[2].Err, &mismatch)
		require.ErrorContains(t, calls[4].Err, "no fields")
		for _, i := range []int{0, 1, 3, 5} {
			require.NoError(t, calls[i].Err)
		}
		require.Less(t, calls[0].Outcome.Revision, calls[5].Outcome.Revision)
		require.Less(t, calls[1].Outcome.Revision, calls[3].Outcome.Revision)
		require.Equal(t, "3", string(k.field(player, "a").Value))
		require.Equal(t, "2", string(k.field(other, "a").Value))
		require.True(t, calls[2].Kept())
		require.False(t, calls[0].Kept())
	}
}
