package suite

import (
	"fmt"
	"sync"

	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

var feedChecks = []check{
	{name: "FeedIsOrderedAndWhole", run: feedIsOrdered},
	{name: "FeedComesBeforeTheAnswer", run: feedComesBefore},
	{name: "FeedIsVisibleWhenTold", run: feedIsVisible},
	{name: "FeedStops", run: feedStops},
	{name: "FeedAgreesWithTheLog", run: feedAgreesWithLog},
}

// recorder keeps the changes passed to a follower.
type recorder struct {
	mu      sync.Mutex
	changes []kv.Change // guarded by mu
}

func (s *subject) follow() *recorder {
	r := &recorder{}
	stop := s.Engine.Follow(func(b *kv.Batch) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changes = append(r.changes, b.Changes...)
	})
	s.hooks = append(s.hooks, stop)
	return r
}

// changesAfter leaves out changes without events.
func (r *recorder) changesAfter(after kv.Revision) []kv.Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return withEvents(r.changes, after)
}

func withEvents(changes []kv.Change, after kv.Revision) []kv.Change {
	var list []kv.Change
	for _, c := range changes {
		if c.Revision > after && len(c.Events) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// eventTexts is events for people and for comparing: "put ns key value".
func eventTexts(events []kv.Event) []string {
	var list []string
	for _, e := range events {
		text := e.Kind.String() + " " + e.Entry.NS + " " + e.Entry.Key
		if e.Kind == kv.Put {
			text += " " + string(e.Entry.Value.Data)
		}
		list = append(list, text)
	}
	return list
}

func feedIsOrdered(s *subject) {
	feed := s.follow()
	before := s.Engine.Revision()
	const n = 300
	answers := make([]<-chan outcome, n)
	for i := range answers {
		answers[i] = s.start(&kv.Txn{Then: []kv.Op{putOp("ns", "a", fmt.Sprint(i)), putOp("ns", fmt.Sprint("b", i%7), fmt.Sprint(i))}})
	}
	for _, answer := range answers {
		soon(s, answer, "a put")
	}
	changes := feed.changesAfter(before)
	require.Len(s, changes, n)
	last := before
	for i, c := range changes {
		require.Greater(s, c.Revision, last)
		last = c.Revision
		require.Equal(s, []string{fmt.Sprint("put ns a ", i), fmt.Sprintf("put ns b%d %d", i%7, i)}, eventTexts(c.Events))
		for _, e := range c.Events {
			require.Equal(s, c.Revision, e.Entry.Mod)
		}
		if i > 0 {
			require.Equal(s, fmt.Sprint(i-1), string(c.Events[0].Prev.Value.Data))
		}
	}
}

func feedComesBefore(s *subject) {
	feed := s.follow()
	for i := range 50 {
		told := make(chan bool, 1)
		before := s.Engine.Revision()
		err := s.Engine.Commit(kv.PutTxn("ns", "key", kv.IntValue(int64(i))), func(r *kv.Result, err error) {
			told <- err == nil && len(feed.changesAfter(before)) == 1
		})
		require.NoError(s, err)
		require.True(s, soon(s, told, "a put"), "the follower knew before the caller")
	}
}

func feedIsVisible(s *subject) {
	engine := s.Engine
	var mu sync.Mutex
	var unseen []string // guarded by mu
	s.hooks = append(s.hooks, engine.Follow(func(b *kv.Batch) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range b.Changes {
			for _, e := range c.Events {
				if got, rev := engine.Get([]byte(e.Entry.NS), []byte(e.Entry.Key)); rev < c.Revision || got == nil || got.Mod < c.Revision {
					unseen = append(unseen, fmt.Sprintf("%s at revision %d", e.Entry.Key, c.Revision))
				}
			}
		}
	}))
	for i := range 50 {
		s.put("ns", fmt.Sprint(i%3), "x")
	}
	mu.Lock()
	defer mu.Unlock()
	require.Empty(s, unseen)
}

func feedStops(s *subject) {
	var mu sync.Mutex
	told := 0 // guarded by mu
	stop := s.Engine.Follow(func(b *kv.Batch) {
		mu.Lock()
		defer mu.Unlock()
		told += len(b.Changes)
	})
	other := s.follow()
	s.put("ns", "key", "1")
	stop()
	s.put("ns", "key", "2")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(s, 1+s.Foreign, told)
	require.Len(s, other.changesAfter(0), 2, "the others go on")
}

// feedAgreesWithLog compares the changes told to followers with those read back.
func feedAgreesWithLog(s *subject) {
	feed := s.follow()
	s.put("a", "x", "1")
	s.then(putOp("a", "x", "2"), putOp("b", "y", "3"))
	s.then(dropOp("a"), incrOp("c", "n", 3))
	s.put("a", "x", "4")
	for from := kv.Revision(0); from < s.Engine.Revision(); from++ {
		want := feed.changesAfter(from)
		got := s.changesAfter(from)
		require.Len(s, got, len(want), "after revision %d", from)
		for i := range want {
			require.Equal(s, want[i].Revision, got[i].Revision)
			require.Equal(s, want[i].Time, got[i].Time)
			requireSameEvents(s, want[i].Events, got[i].Events)
		}
	}
}

// requireSameEvents lets Prev be missing, as it may when events are read back.
func requireSameEvents(s *subject, want, got []kv.Event) {
	s.Helper()
	require.Len(s, got, len(want))
	for i := range want {
		require.Equal(s, want[i].Kind, got[i].Kind)
		if want[i].Kind == kv.Put {
			require.Equal(s, want[i].Entry, got[i].Entry)
		} else {
			require.Equal(s, eventTexts(want[i:i+1]), eventTexts(got[i:i+1]))
			require.Equal(s, want[i].Entry.Mod, got[i].Entry.Mod)
		}
		if got[i].Prev != nil {
			require.Equal(s, want[i].Prev, got[i].Prev)
		}
	}
}

// changesAfter reads the log a little at a time.
func (s *subject) changesAfter(from kv.Revision) []kv.Change {
	s.Helper()
	var all []kv.Change
	for {
		changes, err := s.Engine.Changes(s.Context(), from, 10)
		require.NoError(s, err)
		if len(changes) == 0 {
			return withEvents(all, 0)
		}
		require.Greater(s, changes[0].Revision, from)
		for i := 1; i < len(changes); i++ {
			require.Greater(s, changes[i].Revision, changes[i-1].Revision)
		}
		all = append(all, changes...)
		from = changes[len(changes)-1].Revision
	}
}
