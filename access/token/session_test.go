package token_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
	"confcenter/op"
)

const provider = "https://id.example.org"

var limits = token.SessionLimits{Idle: time.Hour, Age: 4 * time.Hour, Most: 4, Each: 2, Issuer: provider}

func person(name string, groups ...string) token.Start {
	return token.Start{Who: &access.Identity{Name: policy.AsPerson + name, Groups: groups}, Person: true}
}

func (k *kit) opened(t *testing.T, start token.Start) *token.Session {
	s, err := k.OpenSession(t.Context(), zoe, start)
	require.NoError(t, err)
	return s
}

// holds requires that a session is good, by its text and by its id, or neither.
func (k *kit) holds(t *testing.T, s *token.Session, want bool) {
	t.Helper()
	found, err := k.VerifySession(s.Text)
	_, ok := k.SessionUntil(s.ID)
	require.Equal(t, want, ok)
	if want {
		require.NoError(t, err)
		require.Equal(t, s.Who, found.Who)
		return
	}
	require.Equal(t, codes.NotIdentified, codes.Of(err))
}

func (k *kit) sessions(t *testing.T) (ids []string) {
	answer, err := k.Sessions(t.Context(), nil, &token.SessionsAsk{})
	require.NoError(t, err)
	for _, s := range answer.Sessions {
		ids = append(ids, s.ID)
	}
	return ids
}

func TestASessionSaysWhoseItIs(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	s := k.opened(t, person("ann@example.org", "ops"))
	require.Regexp(t, `^ccs_[0-9a-f]{16}_[\w-]{43}$`, s.Text, "256 random bits beside the id")
	k.holds(t, s, true)
	require.NotEqual(t, s.Text, k.opened(t, person("ann@example.org")).Text)
	_, _, err := k.Verify(s.Text)
	require.Equal(t, codes.NotIdentified, codes.Of(err), "it is no token")
	token := k.made(t, token.MakeAsk{Name: "a"})
	_, err = k.VerifySession(token.Text)
	require.Equal(t, codes.NotIdentified, codes.Of(err), "nor is a token a session")
}

func TestTheTextOfASessionIsNotKept(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	s := k.opened(t, person("ann@example.org"))
	view := k.store.View()
	defer view.Close()
	page, err := view.List(kv.List{NS: kv.AccessNamespace})
	require.NoError(t, err)
	require.Len(t, page.Entries, 2, "the session, and that it was made")
	for _, e := range page.Entries {
		require.NotContains(t, string(e.Value.Data), s.Text[21:])
	}
}

func TestASessionEndsWhenItIsIdleOrOld(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	s := k.opened(t, person("ann@example.org"))
	k.clock.Advance(time.Hour - time.Millisecond)
	k.holds(t, s, true)
	k.UseSession(s.ID)
	until, _ := k.SessionUntil(s.ID)
	require.Equal(t, k.clock.Now().Add(time.Hour).UnixMilli(), until)
	for range 3 { // verifying alone is no use
		k.clock.Advance(time.Hour - time.Millisecond)
		k.holds(t, s, true)
		k.UseSession(s.ID)
	}
	until, _ = k.SessionUntil(s.ID)
	require.Equal(t, s.Expires, until, "no use puts that off")
	k.clock.Advance(4 * time.Millisecond)
	k.holds(t, s, false)

	s = k.opened(t, person("ann@example.org"))
	k.clock.Advance(time.Hour)
	k.holds(t, s, false)
	k.UseSession(s.ID)
	require.Empty(t, k.sessions(t))
}

// However the time of day is set, a session ends when its time is over, or it was not used for long.
func TestSettingTheClockMovesNoSessionsEnd(t *testing.T) {
	for _, step := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		k := open(t, token.Config{Sessions: limits})
		idle, used := k.opened(t, person("ann@example.org")), k.opened(t, person("ben@example.org"))
		k.clock.Step(step)
		k.clock.Advance(limits.Idle / 2)
		k.UseSession(used.ID)
		until, ok := k.SessionUntil(used.ID)
		require.True(t, ok, "%s", step)
		require.Equal(t, k.clock.Now().Add(limits.Idle).UnixMilli(), until, "by the time of day")
		k.clock.Step(-2 * step)
		k.clock.Advance(limits.Idle/2 - time.Millisecond)
		k.holds(t, idle, true)
		k.clock.Advance(time.Millisecond)
		k.holds(t, idle, false)
		k.holds(t, used, true)
		for left := limits.Age - limits.Idle; left > 0; left -= limits.Idle / 2 {
			k.UseSession(used.ID)
			k.holds(t, used, true)
			k.clock.Advance(min(left, limits.Idle/2))
		}
		k.holds(t, used, false)
	}
}

func TestASessionEndsWithItsToken(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	made, short := k.made(t, token.MakeAsk{Name: "a"}), k.made(t, token.MakeAsk{Name: "b", TTL: 60_000})
	a := k.opened(t, token.Start{Who: &access.Identity{Name: "token:a"}, Token: made.ID})
	b := k.opened(t, token.Start{Who: &access.Identity{Name: "token:b"}, Token: short.ID})
	k.holds(t, a, true)
	_, err := k.Revoke(t.Context(), nil, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)
	k.holds(t, a, false)
	k.holds(t, b, true)
	k.clock.Advance(time.Minute)
	k.holds(t, b, false)
	require.Empty(t, k.sessions(t))
}

// Another provider may give the same names to others.
func TestASessionEndsWithItsProvider(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	s := k.opened(t, person("ann@example.org"))
	for issuer, want := range map[string]bool{provider: true, "https://id.example.com": false, "": false} {
		now := limits
		now.Issuer = issuer
		again := k.again(t, token.Config{Sessions: now})
		again.holds(t, s, want)
	}
}

// again is a kit on the same store, as after a restart.
func (k *kit) again(t *testing.T, cfg token.Config) *kit {
	store := embedded.New(k.store.(kv.Archive), nil)
	t.Cleanup(store.Close)
	cfg.Clock = k.clock
	return &kit{token.Open(store, cfg), k.store, k.clock}
}

func TestARestartEndsNoSessionThatIsUsed(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	used, idle := k.opened(t, person("ann@example.org")), k.opened(t, person("ben@example.org"))
	ctx, cancel := context.WithCancel(t.Context())
	timers := k.clock.Waiters()
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	k.clock.BlockUntil(timers + 1)
	k.clock.Advance(10 * time.Minute)
	k.UseSession(used.ID)
	k.clock.Advance(5 * time.Minute) // a quarter of the idle time
	k.clock.BlockUntil(timers + 1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	again := k.again(t, token.Config{Sessions: limits})
	k.clock.Advance(46 * time.Minute)
	again.holds(t, used, true)
	again.holds(t, idle, false)
	k.clock.Advance(9 * time.Minute)
	again.holds(t, used, false)
}

func TestSessionsHaveLimits(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	first, second := k.opened(t, person("ann@example.org")), k.opened(t, person("ann@example.org"))
	k.clock.Advance(time.Minute)
	k.UseSession(first.ID)
	k.opened(t, person("ann@example.org"))
	k.holds(t, first, true)
	k.holds(t, second, false)
	k.opened(t, person("ben@example.org"))
	k.opened(t, person("cat@example.org"))
	_, err := k.OpenSession(t.Context(), zoe, person("dan@example.org"))
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "--max-sessions")
	used, err := k.Used(t.Context())
	require.NoError(t, err)
	require.Equal(t, []op.Used{{What: "tokens", Limit: 10_000}, {What: "sessions", N: 4, Limit: 4}, {What: "names", Limit: 100_000}}, used)
	k.opened(t, person("ann@example.org")) // in place of one of hers
	k.clock.Advance(time.Hour)             // all are idle, and make room
	k.opened(t, person("dan@example.org"))
	used, err = k.Used(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, used[1].N, "those that have ended are gone")
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	most := limits
	most.Most, most.Each = 200, 100
	k := open(t, token.Config{Sessions: most})
	ann, ben := k.opened(t, person("ann@example.org", "ops")), k.opened(t, person("ben@example.org"))
	for range 70 { // more than one transaction takes
		k.opened(t, person("ann@example.org"))
	}
	answer, err := k.Sessions(t.Context(), nil, &token.SessionsAsk{Who: "person:Ben@Example.org"})
	require.NoError(t, err)
	require.Equal(t, []token.OneSession{{ID: ben.ID, Who: "person:ben@example.org", Made: 1_000_000, From: "10.0.0.1:5", Used: 1_000_000, Expires: ben.Expires}}, answer.Sessions)
	seen, q := 0, token.SessionsAsk{Limit: 50}
	for {
		answer, err := k.Sessions(t.Context(), nil, &q)
		require.NoError(t, err)
		seen += len(answer.Sessions)
		if q.After = answer.Next; q.After == "" {
			break
		}
	}
	require.Equal(t, 72, seen)
	for _, q := range []token.EndAsk{{}, {ID: ann.ID, Who: "person:ann@example.org"}} {
		_, err := k.End(t.Context(), zoe, &q)
		require.Equal(t, codes.BadRequest, codes.Of(err))
	}
	_, err = k.End(t.Context(), zoe, &token.EndAsk{ID: "none"})
	require.Equal(t, codes.NotFound, codes.Of(err))
	_, err = k.EndOwnSessions(t.Context(), zoe, ben.Who, ann.ID)
	require.Equal(t, codes.NotFound, codes.Of(err), "it is another's")
	k.holds(t, ann, true)
	ended, err := k.EndOwnSessions(t.Context(), zoe, ann.Who, ann.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1, ended.Count)
	k.holds(t, ann, false)
	ended, err = k.End(t.Context(), zoe, &token.EndAsk{Who: "person:Ann@Example.org"})
	require.NoError(t, err)
	require.EqualValues(t, 70, ended.Count)
	require.Equal(t, []string{ben.ID}, k.sessions(t))
	_, err = k.End(t.Context(), zoe, &token.EndAsk{ID: ben.ID})
	require.NoError(t, err)
	k.holds(t, ben, false)
}

func FuzzVerifySession(f *testing.F) {
	f.Add("ccs_0123456789abcdef_" + strings.Repeat("A", 43))
	engine := memory.New(memory.Config{})
	f.Cleanup(func() { _ = engine.Close() })
	store := embedded.New(engine, nil)
	f.Cleanup(store.Close)
	tokens := token.Open(store, token.Config{})
	s, err := tokens.OpenSession(context.Background(), nil, person("ann@example.org"))
	require.NoError(f, err)
	f.Add(s.Text)
	f.Fuzz(func(t *testing.T, text string) {
		_, err := tokens.VerifySession(text)
		require.Equal(t, text == s.Text, err == nil)
	})
}

// A session lasts as long as it is used at any of the servers.
func TestASessionThatIsUsedAtAnotherServerLasts(t *testing.T) {
	k := open(t, token.Config{Sessions: limits})
	near := embedded.New(k.store, nil)
	defer near.Close()
	other := &kit{token.Open(near, token.Config{Sessions: limits, Clock: k.clock}), k.store, k.clock}
	s := k.opened(t, person("ann@example.org"))
	k.UseSession(s.ID)
	ctx, cancel := context.WithCancel(t.Context())
	idle, ended := k.clock.Waiters(), make(chan error)
	go func() { ended <- other.Run(ctx) }()
	for range 3 {
		k.clock.BlockUntil(idle + 1)
		k.clock.Advance(limits.Idle / 2)
		k.clock.BlockUntil(idle + 1)
		other.UseSession(s.ID)
		used := k.clock.Now().UnixMilli()
		k.clock.Advance(limits.Idle / 4)
		require.Eventually(t, func() bool {
			e, _ := k.store.Get([]byte(kv.AccessNamespace), []byte("used/"+s.ID))
			return e != nil && string(e.Value.Data) == strconv.FormatInt(used, 10)
		}, 10*time.Second, time.Millisecond)
		k.holds(t, s, true)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	k.clock.Advance(limits.Idle)
	k.holds(t, s, false)
	other.holds(t, s, false)
}
