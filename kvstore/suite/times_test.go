package suite

import (
	"time"

	"confcenter/kv"

	"github.com/stretchr/testify/require"
)

const minute = time.Minute

var timeChecks = []check{
	{name: "KeysExpire", run: keysExpire},
	{name: "NoKeyExpiresEarly", run: noKeyExpiresEarly},
	{name: "AMillisecondIsEnough", run: aMillisecond},
	{name: "PutWithoutTTLClearsIt", run: putClearsTTL},
	{name: "ThePastExpiresAtOnce", run: pastExpires},
	{name: "ExpiryIsAnEventOfItsOwn", run: expiryIsAnEvent},
	{name: "ExpiryOutlastsRestart", run: expiryOutlasts},
	{name: "SettingTheClockMovesMomentsOnly", run: settingTheClock},
}

func putFor(key string, ttl time.Duration) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: "ns", Key: key, Value: kv.StringValue("x"), TTL: ttl}
}

func (s *subject) gone(key string) func() bool {
	return func() bool { return s.get("ns", key) == nil }
}

func keysExpire(s *subject) {
	e := s.then(putFor("short", minute)).Ops[0].Entry
	require.Equal(s, s.now()+60_000, e.Expires)
	s.then(putFor("long", time.Hour), kv.Op{Kind: kv.OpPut, NS: "ns", Key: "moment", Value: kv.IntValue(1), Expires: s.now() + 120_000})
	s.Clock.Advance(minute)
	s.eventually("the key expires", s.gone("short"))
	require.Equal(s, "x 1", s.texts("ns", "long", "moment"))
	require.Empty(s, list(s, s.view(), kv.List{NS: "ns", Prefix: "short"}))
	s.Clock.Advance(minute)
	s.eventually("the key expires", s.gone("moment"))
	s.Clock.Advance(time.Hour)
	s.eventually("the key expires", s.gone("long"))
}

func noKeyExpiresEarly(s *subject) {
	feed := s.follow()
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second, minute, time.Hour, 30 * 24 * time.Hour} {
		expires := s.then(putFor("key", ttl)).Ops[0].Entry.Expires
		require.Equal(s, s.now()+ttl.Milliseconds(), expires)
		s.Clock.Advance(ttl - time.Millisecond)
		for range 3 {
			s.barrier()
		}
		require.NotNil(s, s.get("ns", "key"), "%s is not over", ttl)
		s.Clock.Advance(time.Millisecond)
		s.eventually("the key expires", s.gone("key"))
	}
	for _, c := range feed.changesAfter(0) {
		for _, e := range c.Events {
			if e.Entry.Deleted() {
				require.GreaterOrEqual(s, c.Time, e.Prev.Expires)
			}
		}
	}
}

func aMillisecond(s *subject) {
	s.then(putFor("key", time.Millisecond))
	require.NotNil(s, s.get("ns", "key"))
	s.Clock.Advance(time.Millisecond)
	s.eventually("the key expires", s.gone("key"))
	e := s.then(putFor("key", 1500*time.Microsecond)).Ops[0].Entry
	require.Equal(s, int64(2), e.Expires-e.Updated, "rounded up")
}

func putClearsTTL(s *subject) {
	s.then(putFor("key", minute), putFor("other", minute))
	require.Zero(s, s.put("ns", "key", "stays").Expires)
	s.then(putFor("other", time.Hour))
	s.Clock.Advance(minute + time.Second)
	s.barrier()
	s.barrier()
	require.Equal(s, "stays x", s.texts("ns", "key", "other"))
}

func pastExpires(s *subject) {
	s.put("ns", "key", "old")
	e := s.then(kv.Op{Kind: kv.OpPut, NS: "ns", Key: "key", Value: kv.IntValue(1), Expires: 1}).Ops[0].Entry
	require.Equal(s, int64(2), e.Version, "it is written first")
	s.eventually("the key expires", s.gone("key"))
}

func expiryIsAnEvent(s *subject) {
	feed := s.follow()
	old := s.then(putFor("key", minute)).Ops[0].Entry
	s.put("ns", "other", "x")
	before := s.Engine.Revision()
	s.Clock.Advance(minute)
	s.eventually("the key expires", s.gone("key"))
	s.then(deleteOp("ns", "other"))
	changes := feed.changesAfter(before)
	require.Len(s, changes, 2)
	require.Equal(s, []string{"expire ns key"}, eventTexts(changes[0].Events))
	require.Equal(s, []string{"delete ns other"}, eventTexts(changes[1].Events))
	require.Equal(s, old, changes[0].Events[0].Prev)
	require.Equal(s, changes[0].Revision, changes[0].Events[0].Entry.Mod)
	require.Greater(s, changes[0].Revision, before)
	require.Equal(s, "expire ns key", eventTexts(s.changesAfter(before)[0].Events)[0])

	v, err := s.Engine.History(s.Context(), "ns", "key", 0, 0)
	require.NoError(s, err)
	require.Len(s, v.Entries, 2)
	require.True(s, v.Entries[0].Deleted())
	e, err := s.Engine.GetAt(s.Context(), "ns", "key", before)
	require.NoError(s, err)
	require.Equal(s, old, e, "while it lived")
}

func expiryOutlasts(s *subject) {
	s.then(putFor("short", minute), putFor("long", time.Hour))
	expires := s.get("ns", "long").Expires
	s.restart()
	require.Equal(s, expires, s.get("ns", "long").Expires, "a moment, not a duration")
	s.Clock.Advance(30 * time.Second)
	s.barrier()
	require.Equal(s, "x x", s.texts("ns", "short", "long"))
	s.kill()
	s.Clock.Advance(30 * time.Second)
	s.eventually("the key expires", s.gone("short"))
	s.Clock.Advance(time.Hour)
	s.eventually("the key expires", s.gone("long"))
	s.restart()
	require.Equal(s, "- -", s.texts("ns", "short", "long"))
}

// Whatever becomes of the time of day: what has a time to live ends when that is over, and what has a
// moment ends then.
func settingTheClock(s *subject) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 30 * time.Second, -30 * time.Second} {
		s.Clock.Advance(time.Hour) // so that nothing is left of the time before
		id := s.then(kv.Op{Kind: kv.OpGrant, TTL: minute}).Ops[0].Lease.ID
		moment := s.now() + 60_000
		s.then(putFor("ttl", minute), kv.Op{Kind: kv.OpPut, NS: "ns", Key: "count", Value: kv.IntValue(1), TTL: minute},
			kv.Op{Kind: kv.OpPut, NS: "ns", Key: "moment", Value: kv.IntValue(1), Expires: moment},
			kv.Op{Kind: kv.OpPut, NS: "ns", Key: "leased", Value: kv.StringValue("x"), Lease: id})
		s.Clock.Step(step)
		s.then(kv.Op{Kind: kv.OpIncr, NS: "ns", Key: "count", Delta: 1}) // which keeps the time
		s.Clock.Advance(29 * time.Second)
		s.barrier()
		s.barrier()
		require.Equal(s, "x 2 x", s.texts("ns", "ttl", "count", "leased"), "%s", step)
		if s.now() >= moment {
			s.eventually("the moment has come", s.gone("moment"))
		} else {
			require.NotNil(s, s.get("ns", "moment"), "%s", step)
		}
		s.Clock.Advance(31 * time.Second)
		s.eventually("the time is over", s.gone("ttl"))
		s.eventually("the time is over", s.gone("count"))
		if s.now() < moment {
			require.NotNil(s, s.get("ns", "moment"), "%s", step)
			s.Clock.Step(time.Duration(moment-s.now()) * time.Millisecond)
			s.Clock.Advance(time.Second) // the machine is looked at again
			s.eventually("the moment has come", s.gone("moment"))
		}
	}
	s.Clock.Advance(time.Hour)
	s.then(putFor("ttl", minute))
	s.restart()
	s.Clock.Step(time.Hour)
	s.barrier()
	s.barrier()
	require.Equal(s, "x", s.texts("ns", "ttl"), "that it is a time to live outlasts a restart")
	s.Clock.Advance(minute)
	s.eventually("the time is over", s.gone("ttl"))
}
