package suite

import (
	"fmt"
	"strings"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/follow"
	"confcenter/kv/follow/followtest"

	"github.com/stretchr/testify/require"
)

const smallLog = 64 << 10

var historyChecks = []check{
	{name: "GetAtEveryRevision", run: getAtEveryRevision},
	{name: "HistoryPages", run: historyPages},
	{name: "HistoryReachesAcrossDeletions", run: historyAcross},
	{name: "DeletionsTellTheirTime", run: deletionsTell},
	{name: "PastVersionIsRestored", run: pastIsRestored},
	{name: "FutureIsRefused", run: futureIsRefused},
	{name: "ChangesEndAtTheirBytes", run: changesEnd},
	{name: "ForgottenChangesAreSaidToBe", opts: options{LogBytes: smallLog}, run: forgottenChanges},
	{name: "ForgottenVersionsAreSaidToBe", opts: options{HistoryVersions: 5}, run: forgottenVersions},
	{name: "VersionsAreKeptByCount", opts: options{HistoryVersions: 20, LogBytes: smallLog}, run: versionsByCount},
}

func getAtEveryRevision(s *subject) {
	type moment struct{ a, b string }
	want := map[kv.Revision]moment{s.Engine.Revision(): {"-", "-"}}
	remember := func() { want[s.Engine.Revision()] = moment{s.text("ns", "a"), s.text("ns", "b")} }
	for i := range 30 {
		switch i % 5 {
		case 3:
			s.then(deleteOp("ns", "a"))
		case 4:
			s.then(deleteOp("ns", "b"), putOp("ns", "a", fmt.Sprint(i)))
		default:
			s.then(putOp("ns", "a", fmt.Sprint(i)), putOp("ns", "b", fmt.Sprint(i)))
		}
		remember()
	}
	at := func(key string, rev kv.Revision) string {
		e, err := s.Engine.GetAt(s.Context(), "ns", key, rev)
		require.NoError(s, err)
		if e == nil {
			return "-"
		}
		require.False(s, e.Deleted())
		require.LessOrEqual(s, e.Mod, rev)
		return string(e.Value.Data)
	}
	for rev, m := range want {
		if rev > 0 {
			require.Equal(s, m, moment{at("a", rev), at("b", rev)}, "revision %d", rev)
		}
	}
	e, err := s.Engine.GetAt(s.Context(), "ns", "none", s.Engine.Revision())
	require.NoError(s, err)
	require.Nil(s, e)
}

func historyPages(s *subject) {
	var entries []*kv.Entry
	for i := range 8 {
		entries = append(entries, s.put("ns", "key", fmt.Sprint(i)))
	}
	s.put("ns", "other", "x")
	s.checkHistory(entries)
}

func historyAcross(s *subject) {
	var entries []*kv.Entry
	for i := range 6 {
		entries = append(entries, s.put("ns", "key", fmt.Sprint(i)))
	}
	s.Clock.Advance(minute)
	deleted := s.then(deleteOp("ns", "key")).Revision
	s.put("ns", "other", "x")
	s.checkHistory(append(entries, &kv.Entry{Mod: deleted, Updated: s.now()}, s.put("ns", "key", "7")))
}

func deletionsTell(s *subject) {
	s.put("ns", "key", "x")
	before := s.Engine.Revision()
	s.Clock.Advance(minute)
	s.then(deleteOp("ns", "key"))
	at := s.now()
	s.Clock.Advance(minute)
	require.Equal(s, at, s.changesAfter(before)[0].Events[0].Entry.Updated)
}

// checkHistory compares the history of a key, in pages of several sizes, with its real one,
// oldest first.
func (s *subject) checkHistory(entries []*kv.Entry) {
	s.Helper()
	for _, limit := range []int{0, 1, 3, 8, 100} {
		var got []*kv.Entry
		before := kv.Revision(0)
		for {
			v, err := s.Engine.History(s.Context(), "ns", "key", before, limit)
			require.NoError(s, err)
			got = append(got, v.Entries...)
			if !v.More {
				break
			}
			require.Len(s, v.Entries, limit)
			before = got[len(got)-1].Mod
		}
		require.Len(s, got, len(entries))
		for i, e := range got {
			want := entries[len(entries)-1-i]
			require.Equal(s, want.Mod, e.Mod)
			require.Equal(s, want.Deleted(), e.Deleted())
			require.Equal(s, want.Updated, e.Updated)
			require.Equal(s, string(want.Value.Data), string(e.Value.Data))
			require.Equal(s, want.Version, e.Version)
		}
	}
	v, err := s.Engine.History(s.Context(), "ns", "key", entries[0].Mod, 10)
	require.NoError(s, err)
	require.Empty(s, v.Entries)
	v, err = s.Engine.History(s.Context(), "ns", "none", 0, 10)
	require.NoError(s, err)
	require.Empty(s, v.Entries)
	require.False(s, v.More)
}

func pastIsRestored(s *subject) {
	old := s.must(kv.PutTxn("ns", "key", value(kv.JSON, `{"a": 1}`)))
	s.put("ns", "key", "spoilt")
	s.then(deleteOp("ns", "key"))
	past, err := s.Engine.GetAt(s.Context(), "ns", "key", old.Revision)
	require.NoError(s, err)
	again := s.must(kv.PutTxn("ns", "key", past.Value)).Ops[0].Entry
	require.Equal(s, value(kv.JSON, `{"a": 1}`), s.get("ns", "key").Value)
	require.Greater(s, again.Mod, old.Revision, "a new revision")
}

func futureIsRefused(s *subject) {
	s.put("ns", "key", "1")
	next := s.Engine.Revision() + 1
	_, err := s.Engine.GetAt(s.Context(), "ns", "key", next)
	require.Equal(s, codes.FutureRevision, codes.Of(err))
	_, err = s.Engine.Changes(s.Context(), next, 1000)
	require.Equal(s, codes.FutureRevision, codes.Of(err))
	changes, err := s.Engine.Changes(s.Context(), next-1, 1000)
	require.NoError(s, err)
	require.Empty(s, changes)
	_, err = followtest.Watch(s.Engine, follow.Request{From: next}, followtest.Cut, func(kv.Notice) error { return nil })
	require.Equal(s, codes.FutureRevision, codes.Of(err))
}

func changesEnd(s *subject) {
	for i := range 10 {
		s.put("ns", fmt.Sprint("key", i), strings.Repeat("x", 96))
	}
	from := s.Engine.Revision() - kv.Revision(10*(1+s.Foreign))
	for bytes, most := range map[int]int{1: 1, 100: 1, 101: 2, 250: 3, 5000: 10} {
		changes, err := s.Engine.Changes(s.Context(), from, bytes)
		require.NoError(s, err)
		require.NotEmpty(s, changes, "%d bytes", bytes)
		require.LessOrEqual(s, len(withEvents(changes, 0)), most, "%d bytes: an engine may count more than the entries", bytes)
	}
}

// forget writes until the changes after from are no longer kept.
func (s *subject) forget(from kv.Revision) {
	s.Helper()
	for range 200 {
		for i := range 8 {
			s.put("filler", fmt.Sprint(i), strings.Repeat("x", 4096))
		}
		if _, err := s.Engine.Changes(s.Context(), from, 1); codes.Of(err) == codes.Compacted {
			return
		}
	}
	s.eventually("the log is trimmed", func() bool {
		_, err := s.Engine.Changes(s.Context(), from, 1)
		return codes.Of(err) == codes.Compacted
	})
}

func forgottenChanges(s *subject) {
	s.put("ns", "key", "1")
	s.forget(0)
	var floor kv.Revision
	var kept []kv.Change
	s.until("what is above the floor can be read", func() (ok bool) {
		floor = s.Engine.Stats().LogFloor // which may rise until the log has been trimmed
		changes, err := s.Engine.Changes(s.Context(), floor, 1<<30)
		kept = changes
		return err == nil
	}, func() {})
	require.Positive(s, floor)
	_, err := s.Engine.Changes(s.Context(), floor-1, 1000)
	require.Equal(s, codes.Compacted, codes.Of(err))
	newest := s.Engine.Revision()
	require.NotEmpty(s, kept)
	require.Greater(s, kept[0].Revision, floor)
	require.Equal(s, newest, kept[len(kept)-1].Revision)
	last := s.changesAfter(newest - 1)
	require.Len(s, last, 1)
	require.Equal(s, newest, last[0].Revision)
	require.Equal(s, "1", s.text("ns", "key"), "current values are not forgotten")
}

// forgottenVersions accepts the right answer or codes.Compacted.
func forgottenVersions(s *subject) {
	var entries []*kv.Entry
	for i := range 50 {
		entries = append(entries, s.put("ns", "key", fmt.Sprint(i)))
	}
	s.until("the oldest version is dropped", func() bool {
		e, err := s.Engine.GetAt(s.Context(), "ns", "key", entries[0].Mod)
		return e == nil || err != nil
	}, func() { s.Clock.Advance(minute) })
	known := 0
	for _, want := range entries {
		e, err := s.Engine.GetAt(s.Context(), "ns", "key", want.Mod)
		if codes.Of(err) == codes.Compacted {
			require.Zero(s, known, "once known, known to the newest")
			continue
		}
		require.NoError(s, err)
		require.Equal(s, want, e, "a version that is gone is not taken for another")
		known++
	}
	require.Positive(s, known)
	v, err := s.Engine.History(s.Context(), "ns", "key", 0, 0)
	require.NoError(s, err)
	require.Equal(s, entries[len(entries)-1], v.Entries[0])
	if len(v.Entries) < len(entries) {
		require.Positive(s, v.Floor, "it is said that there were more")
	}
}

func versionsByCount(s *subject) {
	for i := range 10 {
		s.put("ns", "calm", fmt.Sprint(i))
	}
	for i := range 500 {
		s.put("ns", "busy", fmt.Sprint(i))
	}
	for key, want := range map[string]int{"calm": 10, "busy": 20} {
		v, err := s.Engine.History(s.Context(), "ns", key, 0, 0)
		require.NoError(s, err)
		require.GreaterOrEqual(s, len(v.Entries), want, key)
	}
	s.forget(s.Engine.Revision())
	s.until("old versions are dropped", func() bool {
		v, err := s.Engine.History(s.Context(), "ns", "busy", 0, 0)
		return err == nil && len(v.Entries) <= 40 && v.Floor > 0
	}, func() { s.Clock.Advance(minute); s.put("filler", "0", "x") })
	_, err := s.Engine.GetAt(s.Context(), "ns", "busy", 12)
	require.Equal(s, codes.Compacted, codes.Of(err))
}
