package token_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/token"
	"confcenter/kvstore/memory"
)

// What an identity was proved by says whether it still is, after a restart as well.
func TestAnIdentityIsRenewedByWhatProvedIt(t *testing.T) {
	at := token.Config{Sessions: token.SessionLimits{Issuer: "https://one"}, Waiting: time.Hour}
	k := open(t, at)
	made := k.made(t, token.MakeAsk{Name: "ann", Groups: []string{"g"}})
	k.made(t, token.MakeAsk{Name: "ann", Groups: []string{"g"}})
	who, _, err := k.Verify(made.Text)
	require.NoError(t, err)
	byToken := k.opened(t, token.Start{Who: who, Token: made.ID}).Who
	pat := k.opened(t, person("pat@example.org")).Who
	for _, id := range []*access.Identity{who, byToken, pat, {Name: "token:ann"}} {
		require.Equal(t, id, k.Renewed(id))
		require.True(t, k.Holds(id))
	}
	crowned := *who
	crowned.Groups = append(crowned.Groups, access.Administrators)
	require.Equal(t, who, k.Renewed(&crowned), "settings have given the group, not the token")

	_, err = k.EndOwnSessions(t.Context(), nil, pat, pat.Session)
	require.NoError(t, err)
	require.False(t, k.Holds(pat))
	require.NotNil(t, k.Renewed(pat), "who has signed out")
	second := k.opened(t, person("pat@example.org")).Who
	_, err = k.End(t.Context(), nil, &token.EndAsk{ID: second.Session})
	require.NoError(t, err)
	require.Nil(t, k.Renewed(second))
	require.NotNil(t, k.Renewed(pat), "another session of theirs")
	_, err = k.Revoke(t.Context(), nil, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)

	again := k.again(t, token.Config{Sessions: token.SessionLimits{Issuer: "https://other"}})
	for _, id := range []*access.Identity{who, byToken, second} {
		require.Nil(t, again.Renewed(id))
		require.False(t, again.Holds(id))
	}
	require.Nil(t, again.Renewed(pat), "of another provider")
	require.NotNil(t, again.Renewed(&access.Identity{Name: "token:ann"}), "it names no proof")
	k.clock.Advance(time.Hour)
	require.NotNil(t, k.Renewed(second), "nothing of it waits any more")
}

// Of the sessions of a name that were ended those are known that something could still wait of.
func TestEndedSessionsOfANameAreLimited(t *testing.T) {
	k := open(t, token.Config{})
	var all []*access.Identity
	for range 205 {
		all = append(all, k.opened(t, person("pat@example.org")).Who)
		_, err := k.EndOwnSessions(t.Context(), nil, all[0], "")
		require.NoError(t, err)
	}
	require.NotNil(t, k.Renewed(all[4]))
	require.Nil(t, k.Renewed(all[5]))
	require.Nil(t, k.Renewed(all[204]))
}

// A session is ended with no byte free, and what was asked for in it counts for nothing.
func TestASessionIsEndedThoughTheDiskIsFull(t *testing.T) {
	k := open(t, token.Config{})
	who := k.opened(t, person("pat@example.org")).Who
	k.store.(*memory.Store).SetFull(true)
	_, err := k.End(t.Context(), nil, &token.EndAsk{ID: who.Session})
	require.NoError(t, err)
	require.Nil(t, k.Renewed(who))
}
