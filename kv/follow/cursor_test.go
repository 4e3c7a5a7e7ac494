package follow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
)

func putEvent(rev kv.Revision, key, value string) kv.Event {
	return kv.Event{Kind: kv.Put, Entry: &kv.Entry{NS: "n", Key: key, Mod: rev, Version: 1, Value: kv.StringValue(value)}}
}

func puts(rev kv.Revision, keys ...string) kv.Change {
	c := kv.Change{Revision: rev}
	for _, key := range keys {
		c.Events = append(c.Events, putEvent(rev, key, strings.Repeat("v", 30)))
	}
	return c
}

func chunk(after kv.Revision, changes ...kv.Change) Chunk {
	return Chunk{After: after, Last: changes[len(changes)-1].Revision, Changes: changes}
}

// two fits two events into a notice.
var two = Cut{Max: 2, Cost: func(*kv.Event) int { return 1 }}

// tell is what the cursor has at hand, a notice to a text: "2 a b" or "3+ a" where
// the revision goes on.
func tell(c *Cursor, cut Cut) (list []string) {
	for {
		n, ok := c.Next(cut)
		if !ok {
			return list
		}
		text := fmt.Sprint(n.Revision)
		if n.More {
			text += "+"
		}
		for _, e := range n.Events {
			text += " " + e.Entry.Key
		}
		list = append(list, text)
	}
}

func TestNoticesEndBehindWholeRevisionsIfTheyCan(t *testing.T) {
	all := chunk(0, puts(1, "a"), puts(2, "a"), puts(3, "b"), puts(4, "a", "b", "c", "d", "e"), puts(9, "f"))
	for _, test := range []struct {
		cut  Cut
		want []string
	}{
		{two, []string{"2 a a", "3 b", "4+ a b", "4+ c d", "9 e f"}},
		{Cut{}, []string{"9 a a b a b c d e f"}},
		{Cut{Alone: true}, []string{"1 a", "2 a", "3 b", "4 a b c d e", "9 f"}},
		{Cut{Max: 2, Cost: two.Cost, Alone: true}, []string{"1 a", "2 a", "3 b", "4+ a b", "4+ c d", "4 e", "9 f"}},
		{Cut{Max: 1, Cost: func(*kv.Event) int { return 5 }}, []string{"1 a", "2 a", "3 b", "4+ a", "4+ b", "4+ c", "4+ d", "4 e", "9 f"}},
	} {
		var c Cursor
		require.True(t, c.Offer(all))
		require.Equal(t, test.want, tell(&c, test.cut))
		require.Equal(t, Mark{Rev: 9}, c.At())
	}
}

// What was told before a cursor forgets is not told again, wherever that was.
func TestACursorGoesOnWhereItWas(t *testing.T) {
	all := chunk(0, puts(1, "a"), puts(3, "a", "b", "c", "d", "e"), puts(4, "b"))
	for stop := range 9 {
		c := Cursor{filter: kv.Filter{NS: "n"}}
		var got []string
		for range stop {
			require.True(t, c.Offer(all))
			if n, ok := c.Next(Cut{Max: 1, Cost: two.Cost}); ok {
				got = append(got, n.Events[0].Entry.Key)
			}
			c.Forget()
		}
		require.True(t, c.Offer(all))
		for _, text := range tell(&c, two) {
			got = append(got, strings.Fields(text)[1:]...)
		}
		require.Equal(t, "a a b c d e b", strings.Join(got, " "))
	}
}

// There are many cursors, and most have told everything.
func TestACursorThatHasToldEverythingHoldsNothing(t *testing.T) {
	c := Cursor{source: &Source{}}
	for rev := kv.Revision(1); rev < 100; rev++ {
		require.True(t, c.Offer(chunk(rev-1, puts(rev, "a"), puts(rev+1, "a"))))
		require.Len(t, tell(&c, Cut{}), 1)
		require.Nil(t, c.parts)
		require.Nil(t, c.scratch)
	}
}

func TestWhatDoesNotMatchMovesTheCursor(t *testing.T) {
	c := Cursor{filter: kv.Filter{NS: "other"}}
	require.True(t, c.Offer(chunk(0, puts(7, "a"))))
	require.Equal(t, Mark{Rev: 7}, c.At())
	require.False(t, c.Offer(chunk(8, puts(9, "a"))), "a gap")
	require.True(t, c.Offer(chunk(2, puts(5, "a"))), "nothing new")
	require.Equal(t, Mark{Rev: 7}, c.At())
	c.Skip(Mark{Rev: 3})
	require.Equal(t, Mark{Rev: 7}, c.At())
	c.Skip(Mark{Rev: 8})
	require.True(t, c.Offer(chunk(8, puts(9, "a"))))
}

func TestWhatIsLeftOutIsNotCountedAsTold(t *testing.T) {
	old := func(changes ...kv.Change) Chunk {
		return Chunk{Changes: changes, Last: changes[len(changes)-1].Revision, old: true}
	}
	one := Cut{Max: 1, Cost: two.Cost}
	c := Cursor{filter: kv.Filter{NS: "n"}, spare: Joined}
	require.True(t, c.Offer(old(puts(1, "a", "b", "c", "d"), puts(2, "b"))))
	n, ok := c.Next(one)
	require.True(t, ok)
	require.Equal(t, "a", n.Events[0].Entry.Key)
	require.Equal(t, Mark{Rev: 0, Part: 1, Told: 1}, c.At())
	n, _ = c.Next(one)
	require.Equal(t, "c", n.Events[0].Entry.Key, "b comes later")
	require.Equal(t, Mark{Rev: 0, Part: 1, Told: 3}, c.At())

	// Meanwhile c and d have changed too: of revision 1 nothing is left to tell.
	require.True(t, c.Offer(old(puts(1, "a", "b", "c", "d"), puts(2, "b"), puts(3, "c", "d"))))
	require.Equal(t, []string{"3 b c d"}, tell(&c, Cut{}))

	// What was left out before the place of a cut does not come back behind it.
	c = Cursor{filter: kv.Filter{NS: "n"}, spare: Joined}
	require.True(t, c.Offer(old(puts(1, "a"), puts(5, "a", "b", "c"))))
	_, _ = c.Next(one)
	require.Equal(t, Mark{Rev: 4, Part: 5, Told: 1}, c.At())
}

// A change that is longer than all that may be kept does not count as more than that.
func TestRecentCountsAtMostItsLimit(t *testing.T) {
	pool := memory.NewPool(1000)
	r := NewRecent(1000, pool)
	for rev := kv.Revision(1); rev < 4; rev++ {
		long := putEvent(rev, "k", strings.Repeat("v", 5000))
		r.Add(&kv.Batch{Changes: []kv.Change{{Revision: rev, Events: []kv.Event{long}}}})
		require.EqualValues(t, 1000, pool.Held())
	}
	r.Add(&kv.Batch{Changes: []kv.Change{puts(4, "k")}})
	require.EqualValues(t, Weight(&kv.Change{Events: puts(4, "k").Events}), pool.Held())
	r.Pass(5)
	require.Zero(t, pool.Held())
}

func TestRecentKeepsTheNewest(t *testing.T) {
	r := NewRecent(20*Weight(&kv.Change{Events: []kv.Event{putEvent(1, "k", "")}}), nil)
	r.Begin(10)
	require.Equal(t, Chunk{After: 10, Last: 10}, r.Since(10, 0))
	for rev := kv.Revision(11); rev < 1000; rev += 2 {
		r.Add(&kv.Batch{Changes: []kv.Change{{Revision: rev, Events: []kv.Event{putEvent(rev, "k", "")}}}})
		got := r.Since(0, 1<<30)
		require.Equal(t, rev, got.Last)
		require.LessOrEqual(t, len(got.Changes), 20)
		require.GreaterOrEqual(t, len(got.Changes), min(10, int(rev-9)/2))
		if len(got.Changes) > 3 {
			require.Len(t, r.Since(rev-6, 1<<30).Changes, 3)
			part := r.Since(rev-6, 0)
			require.Len(t, part.Changes, 1)
			require.Equal(t, rev-4, part.Last)
			require.Less(t, got.After, got.Changes[0].Revision)
			require.GreaterOrEqual(t, got.After, got.Changes[0].Revision-2)
		}
	}
	r.Add(&kv.Batch{Changes: []kv.Change{puts(1000, strings.Split(strings.Repeat("k ", 100), " ")...)}})
	require.Len(t, r.Since(0, 1<<30).Changes, 1, "however long it is")
	r.Pass(1001)
	require.Equal(t, Chunk{After: 1001, Last: 1001}, r.Since(1000, 0))
	r.Begin(5)
	require.Equal(t, Chunk{After: 1001, Last: 1001}, r.Since(1000, 0))
	r.Add(&kv.Batch{Changes: []kv.Change{puts(1005, "k")}})
	r.Add(&kv.Batch{Changes: []kv.Change{puts(1010, "k")}, Reset: true})
	require.Equal(t, Chunk{After: 1010, Last: 1010}, r.Since(1001, 0), "what the store has missed has to be read back")
}

// longPast is a store with a long past, of which no one is told anything.
type longPast struct {
	Store
	read func()
}

func (longPast) Revision() kv.Revision                { return 1 << 40 }
func (longPast) Follow(func(*kv.Batch)) (stop func()) { return func() {} }

func (s longPast) Changes(_ context.Context, after kv.Revision, _ int) ([]kv.Change, error) {
	s.read()
	return []kv.Change{puts(after+1, "other")}, nil
}

// Who has gone does not make the store read all that it has to the end.
func TestPollingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	e := NewExact(Config{Piece: 1, Readers: 1, Store: longPast{read: func() {
		if reads++; reads == 3 {
			cancel()
		}
	}}})
	defer e.Close()
	f, err := e.Follow(Request{Filter: kv.Filter{NS: "mine"}, From: 1, Past: true})
	require.NoError(t, err)
	defer f.Stop()
	_, err = f.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, reads)
}

// forgetful is a store that has changes of some keys only.
type forgetful struct {
	Store
	gone map[string]bool
	most int // filters that it answers at a time
}

func (forgetful) Revision() kv.Revision { return 9 }
func (forgetful) Want(kv.Filter) func() { return func() {} }
func (s forgetful) ChangesOf(_ context.Context, filters []kv.Filter, after kv.Revision, _ int) ([]kv.Change, error) {
	for _, f := range filters {
		if s.gone[f.Text] || len(filters) > s.most {
			return nil, codes.Compacted
		}
	}
	return []kv.Change{puts(after+1, filters[0].Text)}, nil
}

func TestOnlyCursorsWithoutTheirChangesBeginAnew(t *testing.T) {
	read := func(store Store) (anew []bool) {
		s := Source{Store: store, Piece: 1 << 10}
		var cursors []*Cursor
		for _, key := range []string{"a", "b", "c"} {
			c, _, err := s.Open(Request{Filter: kv.Filter{NS: "n", Text: key, Exact: true}, From: 3})
			require.NoError(t, err)
			cursors = append(cursors, c)
		}
		chunk, err := s.Read(t.Context(), cursors)
		require.NoError(t, err)
		require.Equal(t, Chunk{After: 3, Last: 3}, chunk)
		for _, c := range cursors {
			anew = append(anew, c.Telling())
		}
		return anew
	}
	require.Equal(t, []bool{false, true, false}, read(forgetful{gone: map[string]bool{"b": true}, most: 3}))
	require.Equal(t, []bool{true, true, true}, read(forgetful{most: 2}), "what is too much for all together would be so forever")
}

// counting is a store of one long change, which counts how often that is read.
type counting struct {
	Store
	change kv.Change
	reads  int
}

func (s *counting) Revision() kv.Revision { return s.change.Revision }

func (s *counting) Changes(context.Context, kv.Revision, int) ([]kv.Change, error) {
	s.reads++
	return []kv.Change{s.change}, nil
}

// A follower that goes on behind a long revision is told it in pieces, and forgets what is at hand in between.
// That it is not read again for each piece and each follower is what makes that linear.
func TestALongRevisionIsReadOnceForAllWhoAreInTheMiddleOfIt(t *testing.T) {
	var keys []string
	for i := range 5000 {
		keys = append(keys, fmt.Sprintf("%05d", i))
	}
	store := &counting{change: puts(9, keys...)}
	pool := memory.NewPool(64 << 20)
	source := &Source{Store: store, Piece: 1 << 10, Long: pool}
	hundred := Cut{Max: 100, Cost: two.Cost}
	cursors := make([]*Cursor, 20)
	for i := range cursors {
		var err error
		cursors[i], _, err = source.Open(Request{Filter: kv.Filter{NS: "n"}, Past: true})
		require.NoError(t, err)
	}
	got := map[*Cursor][]string{}
	for waiting := cursors; len(waiting) > 0; {
		c := waiting[0]
		waiting = waiting[1:]
		require.NoError(t, c.Fetch(t.Context()))
		n, ok := c.Next(hundred)
		require.True(t, ok)
		for _, e := range n.Events {
			got[c] = append(got[c], e.Entry.Key)
		}
		if n.More {
			waiting = append(waiting, c)
		}
		c.Forget()
		require.LessOrEqual(t, pool.Held(), int64(Weight(&store.change)))
	}
	for _, c := range cursors {
		require.Equal(t, keys, got[c])
	}
	require.Equal(t, 2, store.reads, "by the first who begins, and then once for all")
	require.Zero(t, pool.Held(), "no one is in the middle any more")

	// Those that end in the middle hold nothing either, and without memory it is read again each time.
	for _, small := range []bool{false, true} {
		if source = (&Source{Store: store, Piece: 1 << 10, Long: pool}); small {
			source.Long = memory.NewPool(1)
		}
		c, _, err := source.Open(Request{Filter: kv.Filter{NS: "n"}, Past: true})
		require.NoError(t, err)
		before := store.reads
		for range 4 {
			require.NoError(t, c.Fetch(t.Context()))
			_, ok := c.Next(hundred)
			require.True(t, ok)
			c.Forget()
		}
		want := before + 2
		if small {
			want = before + 4
		}
		require.Equal(t, want, store.reads)
		c.Close()
		require.Zero(t, source.Long.Held())
	}
}
