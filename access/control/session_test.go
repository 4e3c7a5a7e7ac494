package control_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/op"
)

func (k *kit) signedIn(address string, groups ...string) *token.Session {
	s, err := k.SignInPerson(context.Background(), nil, address, groups)
	require.NoError(k.t, err)
	return s
}

func TestASessionIsAProof(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games}, func(c *control.Config) { c.Administrators = []string{"person:root@example.org"} })
	s := k.signedIn("Ann@Example.ORG", "games", "other", "games")
	caller, err := k.Admit(&control.Proof{Session: s.Text, Listener: "http"})
	require.NoError(t, err)
	require.Equal(t, "person:ann@example.org", caller.Who.Name, "in lower case, so that no rule is missed")
	require.Equal(t, []string{"games", "other"}, caller.Who.Groups)
	require.NoError(t, caller.Needs(op.Document(policy.Read, "game/a.json")))
	require.Equal(t, s.ID, k.SessionOf(caller).ID)

	root, err := k.Admit(&control.Proof{Session: k.signedIn("root@example.org").Text})
	require.NoError(t, err)
	require.NoError(t, root.Needs(op.Whole(policy.Read, policy.Config)), "whom the settings name")

	made := k.token("game-1")
	byToken, err := k.SignInToken(context.Background(), nil, made.Text)
	require.NoError(t, err)
	caller, err = k.Admit(&control.Proof{Session: byToken.Text})
	require.NoError(t, err)
	require.Equal(t, "token:game-1", caller.Who.Name)
	for _, wrong := range []string{"", made.Text + "x", s.Text, byToken.Text} {
		_, err = k.SignInToken(context.Background(), nil, wrong)
		require.Equal(t, codes.NotIdentified, codes.Of(err), wrong)
	}
}

func TestATokenWinsOverASession(t *testing.T) {
	k := start(t, nil)
	s, made := k.signedIn("ann@example.org"), k.token("game-1")
	caller, err := k.Admit(&control.Proof{Token: made.Text, Session: s.Text})
	require.NoError(t, err)
	require.Equal(t, "token:game-1", caller.Who.Name)
	require.Nil(t, k.SessionOf(caller))
	for what, p := range map[string]control.Proof{
		"a wrong token, although the session holds": {Token: made.Text + "x", Session: s.Text},
		"a wrong session where none is due":         {Session: s.Text + "x", Listener: "listen"},
	} {
		_, err := k.Admit(&p)
		require.Equal(t, codes.NotIdentified, codes.Of(err), what)
	}
}

// The administrators of a provider are not those of this server.
func TestNoProviderMakesAdministrators(t *testing.T) {
	k := start(t, nil)
	caller, err := k.Admit(&control.Proof{Session: k.signedIn("ann@example.org", policy.Administrators, "ops").Text})
	require.NoError(t, err)
	require.Equal(t, []string{"ops"}, caller.Who.Groups)
	require.Error(t, caller.Needs(op.Document(policy.Read, "game/a.json")))
}

func TestAnAdministratorMayBeNamedInUpperCase(t *testing.T) {
	k := start(t, nil, func(cfg *control.Config) { cfg.Administrators = []string{"person:Ann@Example.org"} })
	caller, err := k.Admit(&control.Proof{Session: k.signedIn("ANN@example.org").Text})
	require.NoError(t, err)
	require.True(t, caller.Who.Administrator())
}

func TestWhatAProviderSaysIsLimited(t *testing.T) {
	k := start(t, nil)
	many := make([]string, 129)
	for i := range many {
		many[i] = strings.Repeat("g", i+1)
	}
	for address, groups := range map[string][]string{"": nil, "a*@b": nil, "a@b\n": nil, strings.Repeat("a", 512): nil, "many@b": many, "long@b": {many[128]}, "star@b": {"*"}, "none@b": {""}, "\u212Aate@b": nil, "r\u0130ck@b": nil} {
		_, err := k.SignInPerson(context.Background(), nil, address, groups)
		require.Equal(t, codes.Forbidden, codes.Of(err), address)
	}
}

func TestTheEndOfASessionIsNoticed(t *testing.T) {
	k := start(t, nil)
	for what, end := range map[string]func(s *token.Session){
		"by its owner": func(s *token.Session) {
			caller, err := k.Admit(&control.Proof{Session: s.Text})
			require.NoError(t, err)
			n, err := k.SignOut(context.Background(), nil, caller, false)
			require.NoError(t, err)
			require.EqualValues(t, 1, n)
			_, err = k.SignOut(context.Background(), nil, caller, false)
			require.Equal(t, codes.NotFound, codes.Of(err))
		},
		"by an administrator": func(s *token.Session) {
			_, err := k.tokens.End(context.Background(), nil, &token.EndAsk{Who: "person:ann@example.org"})
			require.NoError(t, err)
		},
		"because nobody used it": func(*token.Session) { k.clock.Advance(2 * time.Hour) },
	} {
		s := k.signedIn("ann@example.org")
		caller, err := k.Admit(&control.Proof{Session: s.Text})
		require.NoError(t, err)
		require.True(t, renew(&caller), what)
		var ended atomic.Bool
		cancel := k.Follow(func() {
			if !renew(&caller) {
				ended.Store(true)
			}
		})
		end(s)
		k.until("the end "+what, ended.Load)
		cancel()
		_, err = k.Admit(&control.Proof{Session: s.Text})
		require.Equal(t, codes.NotIdentified, codes.Of(err), what)
	}
}

// The end of a session is noticed in time though the time of day was set back meanwhile.
func TestSettingTheClockHidesNoEndOfASession(t *testing.T) {
	k := start(t, nil)
	caller, err := k.Admit(&control.Proof{Session: k.signedIn("ann@example.org").Text})
	require.NoError(t, err)
	require.True(t, renew(&caller))
	var ended atomic.Bool
	defer k.Follow(func() {
		if !renew(&caller) {
			ended.Store(true)
		}
	})()
	for range 4 {
		k.clock.BlockUntil(1)
		k.clock.Advance(500 * time.Millisecond)
	}
	k.clock.Step(-24 * time.Hour)
	for range 4 { // in which the time of day is looked at
		k.clock.BlockUntil(1)
		k.clock.Advance(500 * time.Millisecond)
	}
	require.False(t, ended.Load())
	k.clock.Advance(2 * time.Hour)
	k.until("the end", ended.Load)
}

func TestLoggingOutEverywhereEndsAllSessionsOfOne(t *testing.T) {
	k := start(t, nil)
	a, b, other := k.signedIn("ann@example.org"), k.signedIn("ann@example.org"), k.signedIn("ben@example.org")
	caller, err := k.Admit(&control.Proof{Session: a.Text})
	require.NoError(t, err)
	n, err := k.SignOut(context.Background(), nil, caller, true)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	_, err = k.Admit(&control.Proof{Session: b.Text})
	require.Equal(t, codes.NotIdentified, codes.Of(err))
	_, err = k.Admit(&control.Proof{Session: other.Text})
	require.NoError(t, err)
}

func TestOnlyUsePutsOffTheEndOfASession(t *testing.T) {
	k := start(t, nil)
	caller, err := k.Admit(&control.Proof{Session: k.signedIn("ann@example.org").Text})
	require.NoError(t, err)
	before := k.SessionOf(caller).Until
	k.clock.Advance(time.Minute)
	require.Equal(t, before, k.SessionOf(caller).Until)
	k.Used(caller)
	require.Equal(t, before+60_000, k.SessionOf(caller).Until)
	k.Used(nil)
}
