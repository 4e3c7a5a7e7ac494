package suite

import (
	"fmt"
	"strings"

	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/follow/followtest"

	"github.com/stretchr/testify/require"
)

var watchChecks = []check{
	{name: "WatchOrdered", run: watchOrdered},
	{name: "WatchUnique", run: watchUnique},
	{name: "WatchReliable", run: watchReliable},
	{name: "WatchAtomic", run: watchAtomic},
	{name: "WatchResumable", run: watchResumable},
	{name: "WatchResumableFromNothing", run: watchFromNothing},
	{name: "WatchResumableAcrossRestarts", run: watchAcrossRestarts},
	{name: "WatchStateThenMarker", run: watchState},
	{name: "WatchResyncBelowTheFloor", opts: options{LogBytes: smallLog}, run: watchResync},
	{name: "WatchSlowNeverHoldsAWriter", run: func(s *subject) { watchSlow(s, follow.Nothing) }},
	{name: "WatchCoalescesIfAsked", run: func(s *subject) { watchSlow(s, follow.Joined) }},
	{name: "WatchLeavesOutWhatIsOverwrittenIfAsked", run: func(s *subject) { watchSlow(s, follow.Overwritten) }},
	{name: "WatchSlowIsResynced", opts: options{LogBytes: smallLog}, run: watchSlowResynced},
	{name: "WatchContinuesLongRevisions", run: watchLong},
	{name: "WatchTellsPrev", run: watchPrev},
	{name: "WatchEnds", run: watchEnds},
	{name: "WatchRefusesBadRequests", run: watchRefuses},
}

var filters = []kv.Filter{{}, {NS: "a"}, {NS: "a", Text: "x"}, {NS: "a", Text: "x/"}, {NS: "b", Text: "x", Exact: true}, {NS: "ab", Text: "y", Exact: true}}

// watched runs a load under watchers of every kind: from now, from the beginning and from the
// middle.
func watched(s *subject) (*load, []*witness) {
	s.Helper()
	l := newLoad(s, 7)
	s.put("before", "key", "x") // so that there is a revision to begin after
	begin := s.Engine.Revision()
	var all []*witness
	for _, f := range filters {
		// One revision at a time shows whether it came in one piece.
		all = append(all, s.watchThrough(follow.Request{Filter: f}, follow.Cut{Alone: true}, nil))
	}
	l.run(120)
	middle := l.last()
	for _, f := range filters {
		all = append(all, s.watch(follow.Request{Filter: f, From: begin}), s.watch(follow.Request{Filter: f, From: middle}))
	}
	l.run(120)
	for _, f := range filters {
		all = append(all, s.watch(follow.Request{Filter: f, From: begin}))
	}
	for _, w := range all {
		w.await(len(l.expected(w.request.Filter, w.from)))
	}
	return l, all
}

func watchOrdered(s *subject) {
	_, all := watched(s)
	for _, w := range all {
		last, key, more := w.from, name{}, false
		for _, notice := range w.told() {
			for i, e := range notice.Events {
				n := name{e.Entry.NS, e.Entry.Key}
				switch {
				case e.Entry.Mod == last && (i > 0 || more):
					require.Positive(s, compareNames(n, key), "by namespace and key within revision %d", last)
				default:
					require.Greater(s, e.Entry.Mod, last)
				}
				last, key = e.Entry.Mod, n
			}
			require.GreaterOrEqual(s, notice.Revision, last)
			last = notice.Revision
			more = notice.More
		}
	}
}

func watchUnique(s *subject) {
	_, all := watched(s)
	for _, w := range all {
		seen := map[string]bool{}
		for _, text := range w.events() {
			require.False(s, seen[text], "%s: told twice", text)
			seen[text] = true
		}
	}
}

func watchReliable(s *subject) {
	l, all := watched(s)
	for _, w := range all {
		require.Subset(s, append(w.events(), ""), append(l.expected(w.request.Filter, w.from), ""), "%+v", w.request)
		require.Equal(s, l.expected(w.request.Filter, w.from), w.events(), "%+v", w.request)
	}
}

// watchAtomic: a notice without More completes its revision and contains nothing of a later one.
func watchAtomic(s *subject) {
	l, all := watched(s)
	for _, w := range all {
		notices := w.told()
		for i, notice := range notices {
			if notice.More {
				continue
			}
			got := changedTexts(notices[:i+1])
			want := l.expected(w.request.Filter, w.from)
			require.LessOrEqual(s, len(got), len(want))
			if len(got) < len(want) {
				next, _, _ := strings.Cut(want[len(got)], " ")
				require.NotEqual(s, next, fmt.Sprint(notice.Revision), "revision %d was cut", notice.Revision)
			}
		}
	}
}

// watchResumable gives up and resumes at every few revisions.
func watchResumable(s *subject) {
	l := newLoad(s, 8)
	s.put("before", "key", "x")
	from := s.Engine.Revision()
	for _, f := range filters {
		begin, position := s.Engine.Revision(), s.Engine.Revision()
		var got []string
		for range 12 {
			l.run(7)
			w := s.watch(follow.Request{Filter: f, From: position})
			l.run(5)
			w.await(min(1, len(l.expected(f, position))))
			w.watcher.Close()
			position = w.standing()
			got = append(got, w.events()...)
		}
		w := s.watch(follow.Request{Filter: f, From: position})
		w.await(len(l.expected(f, position)))
		w.watcher.Close()
		require.Equal(s, l.expected(f, begin), append(got, w.events()...))
	}
	for i, m := range l.truth {
		if i%20 == 0 {
			w := s.watch(follow.Request{From: m.revision})
			w.await(len(l.expected(kv.Filter{}, m.revision)))
			require.Equal(s, l.expected(kv.Filter{}, m.revision), w.events())
			w.watcher.Close()
		}
	}
	require.Greater(s, l.last(), from)
}

func watchAcrossRestarts(s *subject) {
	l := newLoad(s, 9)
	s.put("before", "key", "x")
	begin := s.Engine.Revision()
	w := s.watch(follow.Request{From: begin})
	var got []string
	for i := range 6 {
		l.run(25)
		if i < 3 {
			w.await(1)
		}
		again := s.restart
		if i%2 == 0 {
			again = s.kill
		}
		again()
		got = append(got, w.events()...)
		position := w.standing()
		l.run(5) // while no one watches
		if i == 3 {
			again()
		}
		w = s.watch(follow.Request{From: position})
	}
	l.run(10)
	w.await(len(l.expected(kv.Filter{}, w.from)))
	require.Equal(s, l.expected(kv.Filter{}, begin), append(got, w.events()...))
}

// watchFromNothing continues from the revision of an empty store, also if it was restarted before
// its first revision.
func watchFromNothing(s *subject) {
	require.Zero(s, s.Engine.Revision())
	s.watch(follow.Request{})
	s.kill()
	s.put("ns", "key", "1")
	s.then(kv.Op{Kind: kv.OpDelete, NS: "ns", Key: "key"})
	want := []string{fmt.Sprintf("%d put ns key 1", 1+s.Foreign), fmt.Sprintf("%d delete ns key", 2*(1+s.Foreign))}
	w := s.watch(follow.Request{Past: true})
	w.await(2)
	require.Equal(s, want, w.events())
	s.restart()
	w = s.watch(follow.Request{Past: true})
	w.await(2)
	require.Equal(s, want, w.events())
	require.Zero(s, w.count(kv.Resync))
}

func watchState(s *subject) {
	l := newLoad(s, 10)
	l.run(100)
	var all []*witness
	for _, f := range filters {
		want := l.matching(f)
		w := s.watch(follow.Request{Filter: f, State: true})
		s.until("the state is complete", func() bool { return w.count(kv.Synced) == 1 }, func() {})
		require.Equal(s, want, w.believes())
		notices := w.told()
		for i, notice := range notices {
			last := i == len(notices)-1
			require.Equal(s, last, notice.Kind == kv.Synced, "the marker is the last")
			require.Equal(s, l.last(), notice.Revision)
			require.Equal(s, last, len(notice.Events) == 0)
		}
		all = append(all, w)
	}
	from := l.last()
	l.run(100)
	running := s.watch(follow.Request{State: true})
	l.run(100)
	for _, w := range all {
		w.await(len(l.expected(w.request.Filter, from)))
		require.Equal(s, l.expected(w.request.Filter, from), w.events(), "goes on without a gap")
	}
	for _, w := range append(all, running) {
		s.until("everybody knows the state", func() bool { return fmt.Sprint(w.believes()) == fmt.Sprint(l.matching(w.request.Filter)) }, func() {})
	}
}

func watchResync(s *subject) {
	l := newLoad(s, 11)
	l.run(50)
	from := l.truth[0].revision
	s.forget(from)
	for _, f := range filters {
		w := s.watch(follow.Request{Filter: f, From: from})
		s.until("the watcher is resynced", func() bool { return w.count(kv.Synced) == 1 }, func() {})
		notices := w.told()
		require.Equal(s, kv.Resync, notices[0].Kind, "it is said before anything else")
		require.Equal(s, 1, w.count(kv.Resync))
		require.Zero(s, w.count(kv.Changed))
		if f.NS != "" {
			require.Equal(s, l.matching(f), w.believes())
		}
	}
}

// watchSlow uses a watcher that reads nothing until everything is written, which is more than may
// wait for it.
func watchSlow(s *subject, spare follow.Spare) {
	gate := make(chan struct{})
	filter := kv.Filter{NS: "ns"}
	w := s.watchThrough(follow.Request{Filter: filter, Spare: spare}, followtest.Cut, gate)
	from := s.Engine.Revision()
	const rounds, keys = 80, 60 // two operations for each: any engine takes them
	writes := 0
	for i := range rounds {
		txn := &kv.Txn{}
		for k := range keys {
			txn.Then = append(txn.Then, putOp("ns", fmt.Sprintf("key%02d", k), fmt.Sprintf("%d %d", i, writes)), putOp("ns", fmt.Sprintf("other%02d", k), "x"))
			writes += 2
		}
		s.must(txn)
	}
	last := s.Engine.Revision()
	close(gate)
	s.until("the watcher has caught up", func() bool { return w.standing() == last }, func() {})
	require.Positive(s, w.watcher.Missed(), "it was behind")
	require.Zero(s, w.count(kv.Resync), "the log has it all")
	position := from
	for _, notice := range w.told() {
		require.GreaterOrEqual(s, notice.Revision, position)
		position = notice.Revision
	}
	if spare != follow.Nothing {
		require.Less(s, len(w.events()), writes/2)
	} else {
		require.Len(s, w.events(), writes)
	}
	require.Len(s, w.believes(), 2*keys)
	for n, v := range w.believes() {
		require.Equal(s, s.text(n.ns, n.key), v)
	}
}

// watchSlowResynced: what the slow watcher missed is no longer in the log.
func watchSlowResynced(s *subject) {
	gate := make(chan struct{})
	s.put("ns", "old", "x")
	w := s.watchThrough(follow.Request{Filter: kv.Filter{NS: "ns"}}, followtest.Cut, gate)
	s.put("ns", "first", "x")
	gate <- struct{}{} // so that it has begun
	s.then(deleteOp("ns", "old"))
	from := s.Engine.Revision()
	for i := 0; i < 3*followtest.Memory/(64<<10); i++ {
		s.put("ns", fmt.Sprint(i%10), strings.Repeat(string(rune('a'+i%26)), 64<<10))
	}
	s.forget(from)
	close(gate)
	s.until("the watcher is resynced", func() bool { return w.count(kv.Synced) == 1 }, func() {})
	require.Equal(s, 1, w.count(kv.Resync))
	require.Len(s, w.believes(), 11)
	for n, v := range w.believes() {
		require.True(s, s.text(n.ns, n.key) == v, n.key)
	}
	last := s.put("ns", "last", "x").Mod
	s.until("it goes on", func() bool { return w.standing() == last }, func() {})
}

func watchLong(s *subject) {
	const keys = 2*followtest.MaxEvents + 100
	for i := 0; i < keys; {
		txn := &kv.Txn{}
		for ; i < keys && len(txn.Then) < 128; i++ {
			txn.Then = append(txn.Then, putOp("ns", fmt.Sprintf("%05d", i), "x"))
		}
		s.must(txn)
	}
	from := s.Engine.Revision()
	live := s.watch(follow.Request{Filter: kv.Filter{NS: "ns"}})
	s.then(dropOp("ns"))
	s.put("ns", "after", "x")
	for _, w := range []*witness{live, s.watch(follow.Request{Filter: kv.Filter{NS: "ns"}, From: from})} {
		w.await(keys + 1)
		notices := w.told()
		require.Len(s, w.events(), keys+1)
		require.GreaterOrEqual(s, len(notices), 3)
		for i, notice := range notices {
			require.LessOrEqual(s, len(notice.Events), followtest.MaxEvents)
			require.Equal(s, i < 2, notice.More)
		}
	}
}

func watchPrev(s *subject) {
	old := s.put("ns", "key", "1")
	w := s.watch(follow.Request{Filter: kv.Filter{NS: "ns"}})
	second := s.put("ns", "key", "2")
	s.then(deleteOp("ns", "key"))
	s.put("ns", "key", "3")
	w.await(3)
	var prev []*kv.Entry
	for _, notice := range w.told() {
		for _, e := range notice.Events {
			prev = append(prev, e.Prev)
		}
	}
	require.Equal(s, []*kv.Entry{old, second, nil}, prev)
}

func watchEnds(s *subject) {
	w := s.watch(follow.Request{})
	s.put("ns", "key", "1")
	w.await(1)
	w.watcher.Close()
	w.watcher.Close()
	s.put("ns", "key", "2")
	s.barrier()
	require.Len(s, w.events(), 1)
}

func watchRefuses(s *subject) {
	for _, request := range []follow.Request{
		{From: -1}, {From: 1, State: true}, {Past: true, State: true}, {From: 1000}, {Filter: kv.Filter{Text: "x"}}, {Filter: kv.Filter{NS: "ns", Exact: true}},
		{Filter: kv.Filter{NS: "ns", Text: "a\x00"}},
	} {
		w, err := followtest.Watch(s.Engine, request, followtest.Cut, func(kv.Notice) error { return nil })
		require.Error(s, err, "%+v", request)
		require.Nil(s, w)
	}
}
