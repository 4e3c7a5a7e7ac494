package token_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard/guardtest"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/op"
)

// grants has everyone who is named here make tokens for no one in particular.
func grants(t *testing.T, cfg token.Config) *kit {
	k := open(t, cfg)
	role, err := policy.ParseRole("grant", []byte(`{"rules": [{"who": ["token:*", "person:*"], "allow": ["*"], "what": ["roles"]}, {"who": ["token:strong"], "allow": ["read"], "what": ["config"]}]}`))
	require.NoError(t, err)
	k.Obey(policy.New(role))
	return k
}

func by(name string, groups ...string) *access.Actor {
	return &access.Actor{Identity: &access.Identity{Name: name, Groups: groups}}
}

// Who acted under a name is told by histories and the audit for long after its token has ended.
func TestANameStaysTakenAfterItsToken(t *testing.T) {
	k := grants(t, token.Config{Names: time.Hour})
	root := by("token:root", policy.Administrators)
	make := func(who *access.Actor, name string, ttl time.Duration) (string, error) {
		made, err := k.Make(t.Context(), who, &token.MakeAsk{Name: name, TTL: ttl.Milliseconds()})
		if err != nil {
			require.Equal(t, codes.Forbidden, codes.Of(err))
			require.ErrorContains(t, err, "token:"+name+" is the name of a token that someone else made, or was")
			require.Error(t, k.MayMake(who, []byte(`{"name":"`+name+`"}`)))
			return "", err
		}
		return made.ID, nil
	}
	revoke := func(id string) {
		_, err := k.Revoke(t.Context(), root, &token.RevokeAsk{ID: id})
		require.NoError(t, err)
	}
	lead, other := by("token:lead"), by("person:other@example.org")
	revoked, err := make(lead, "revoked", 0)
	require.NoError(t, err)
	_, err = make(lead, "ended", time.Second)
	require.NoError(t, err)
	replaced, err := make(lead, "replaced", 0)
	require.NoError(t, err)
	revoke(revoked)
	revoke(replaced)
	replaced, err = make(root, "replaced", 0)
	require.NoError(t, err, "administrators make what they like")
	revoke(replaced)
	k.clock.Advance(2 * time.Second)
	require.Empty(t, k.listed(t))
	for _, name := range []string{"revoked", "ended", "replaced"} {
		_, err = make(other, name, 0)
		require.Error(t, err, name)
	}
	_, err = make(lead, "replaced", 0)
	require.Error(t, err, "it was an administrator's at last")
	again, err := make(lead, "revoked", 0)
	require.NoError(t, err, "it is their own")
	revoke(again)

	k.clock.Advance(time.Hour - time.Minute)
	_, err = make(other, "revoked", 0)
	require.Error(t, err)
	k.clock.Advance(time.Minute)
	for _, name := range []string{"revoked", "ended", "replaced"} {
		_, err = make(other, name, 0)
		require.NoError(t, err, name)
	}
}

// Names that are kept take memory: anyone who may make tokens may not fill it with them.
func TestNamesThatAreKeptHaveALimit(t *testing.T) {
	k := grants(t, token.Config{MaxTokens: 1, Names: time.Hour})
	lead := by("token:lead")
	ask := func(who *access.Actor, i int) error {
		made, err := k.Make(t.Context(), who, &token.MakeAsk{Name: fmt.Sprint("n", i)})
		if err == nil {
			_, err = k.Revoke(t.Context(), who, &token.RevokeAsk{ID: made.ID})
			require.NoError(t, err)
		}
		return err
	}
	for i := range 10 {
		require.NoError(t, ask(lead, i))
	}
	err := ask(lead, 10)
	require.Equal(t, codes.Limit, codes.Of(err))
	require.ErrorContains(t, err, "10 names of tokens that have ended")
	require.NoError(t, ask(by("token:root", policy.Administrators), 10))
	used, err := k.Used(t.Context())
	require.NoError(t, err)
	require.Equal(t, "names", used[2].What)
	require.EqualValues(t, [2]int64{11, 10}, [2]int64{used[2].N, used[2].Limit})
	k.clock.Advance(2 * time.Hour)
	require.Eventually(t, func() bool { return ask(lead, 11) == nil }, 20*time.Second, time.Millisecond, "they are gone soon")
}

// Anyone who had a token that is revoked may have made others, by which they would come back.
func TestWhatARevokedTokenHadMadeIsNamedAndEndsWithIt(t *testing.T) {
	k := grants(t, token.Config{})
	root := by("token:root", policy.Administrators)
	make := func(who *access.Actor, name string) string {
		made, err := k.Make(t.Context(), who, &token.MakeAsk{Name: name})
		require.NoError(t, err)
		return made.ID
	}
	ids := func(list []token.Token) (ids []string) {
		for _, token := range list {
			ids = append(ids, token.ID)
		}
		return ids
	}
	all := func() (lead string, made []string) {
		lead = make(root, "lead")
		made = []string{make(by("token:lead"), "a"), make(by("token:a"), "b"), make(by("token:b"), "c"), make(by("token:c"), "d")}
		return lead, made
	}
	lead, made := all()
	stays := make(root, "other")
	answer, err := k.Revoke(t.Context(), root, &token.RevokeAsk{ID: lead})
	require.NoError(t, err)
	require.ElementsMatch(t, made, ids(answer.Made))
	require.Empty(t, answer.Ended)
	for _, id := range made {
		require.True(t, k.Valid(id), "it is only named")
	}
	answer, err = k.Revoke(t.Context(), root, &token.RevokeAsk{ID: stays})
	require.NoError(t, err)
	require.Equal(t, &token.Revoked{Revision: answer.Revision}, answer)

	lead, more := all()
	// who may grant and not read roles is told of none
	blind := op.With(t.Context(), guardtest.Caller(t, "grant roles").May())
	answer, err = k.Revoke(blind, root, &token.RevokeAsk{ID: lead})
	require.NoError(t, err)
	require.Empty(t, answer.Made)

	lead, last := make(root, "lead"), make(root, "strong")
	strong := make(by("token:lead"), "weak")
	_, err = k.Revoke(t.Context(), root, &token.RevokeAsk{ID: last})
	require.NoError(t, err)
	answer, err = k.Revoke(t.Context(), root, &token.RevokeAsk{ID: lead, Made: true})
	require.NoError(t, err)
	require.ElementsMatch(t, append(append([]string{strong}, made...), more...), ids(answer.Ended))
	require.Empty(t, answer.Made)
	for _, id := range ids(answer.Ended) {
		require.False(t, k.Valid(id))
	}

	// what may do more than who revokes stays, and is named
	lead = make(root, "lead")
	kept := make(by("token:lead", policy.Administrators), "strong")
	answer, err = k.Revoke(t.Context(), by("token:weak"), &token.RevokeAsk{ID: lead, Made: true})
	require.NoError(t, err)
	require.Equal(t, []string{kept}, ids(answer.Made))
	require.True(t, k.Valid(kept))
}
