package token_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
)

// policed obeys one role.
func policed(t *testing.T) *kit {
	k := open(t, token.Config{})
	role, err := policy.ParseRole("games", []byte(`{"rules": [
		{"name": "own", "who": ["token:lead", "group:games"], "allow": ["read"], "what": ["config:game/*"]},
		{"who": ["token:lead", "person:Zoe@Example.org"], "allow": ["*"], "what": ["roles"]},
		{"who": ["*"], "deny": ["read"], "what": ["config:game/secret"]},
		{"who": ["token:ops"], "allow": ["*"], "what": ["kv"]}]}`))
	require.NoError(t, err)
	k.Obey(policy.New(role))
	return k
}

func TestADecisionIsExplainedByItsRules(t *testing.T) {
	k := policed(t)
	k.made(t, token.MakeAsk{Name: "game-1", Groups: []string{"games"}})
	own := token.Reason{Rule: `games, rule 1 "own"`, What: "config:game/*", Says: "allow"}
	secret := token.Reason{Rule: `games, rule 3`, What: "config:game/secret", Says: "deny"}
	for _, c := range []struct {
		ask    token.CanAsk
		answer token.CanAnswer
	}{
		{token.CanAsk{Name: "token:lead", Verb: "read", What: "config:game/a"}, token.CanAnswer{Allowed: true, Rules: []token.Reason{own}}},
		{token.CanAsk{Name: "token:game-1", Verb: "read", What: "config:game/a"}, token.CanAnswer{Allowed: true, Groups: []string{"games"}, Rules: []token.Reason{own}}},
		{token.CanAsk{Name: "token:game-1", Verb: "read", What: "config:game/a", Groups: []string{"x"}}, token.CanAnswer{Groups: []string{"x"}}},
		{token.CanAsk{Name: "token:game-1", Verb: "read", What: "config:game/secret"}, token.CanAnswer{Groups: []string{"games"}, Rules: []token.Reason{secret}}},
		{token.CanAsk{Name: "person:ZOE@example.org", Verb: "grant", What: "roles"}, token.CanAnswer{Allowed: true, Rules: []token.Reason{{Rule: "games, rule 2", What: "roles", Says: "allow"}}}},
		{token.CanAsk{Name: "cert:CN=x", Verb: "grant", What: "roles"}, token.CanAnswer{}},
	} {
		got, err := k.Can(t.Context(), nil, &c.ask)
		require.NoError(t, err)
		require.Equal(t, &c.answer, got, "%+v", c.ask)
	}
	for _, ask := range []token.CanAsk{
		{Name: "game-1", Verb: "read", What: "config:a"},
		{Name: "token:game-1", Verb: "eat", What: "config:a"},
		{Name: "token:game-1", Verb: "*", What: "config:a"},
		{Name: "token:game-1", Verb: "read", What: "conf:a"},
		{Name: "token:game-1", Verb: "read", What: "config:a*"},
		{Name: "token:game-1", Verb: "lock", What: "config:a"},
	} {
		_, err := k.Can(t.Context(), nil, &ask)
		require.Equal(t, codes.BadRequest, codes.Of(err), "%+v", ask)
	}
	_, err := open(t, token.Config{}).Can(t.Context(), nil, &token.CanAsk{Name: "token:a", Verb: "read", What: "config:a"})
	require.Equal(t, codes.NotImplemented, codes.Of(err))
}

func TestNobodyMakesOrRevokesATokenThatMayDoMore(t *testing.T) {
	k := policed(t)
	lead := &access.Actor{Identity: &access.Identity{Name: "token:lead", Groups: []string{"games"}}}
	root := &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{policy.Administrators}}}
	mine, err := k.Make(t.Context(), lead, &token.MakeAsk{Name: "game-1", Groups: []string{"games"}})
	require.NoError(t, err)
	for _, ask := range []token.MakeAsk{{Name: "ops"}, {Name: "x", Groups: []string{policy.Administrators}}} {
		_, err := k.Make(t.Context(), lead, &ask)
		require.Equal(t, codes.Forbidden, codes.Of(err), "%+v", ask)
		made, err := k.Make(t.Context(), root, &ask)
		require.NoError(t, err)
		_, err = k.Revoke(t.Context(), lead, &token.RevokeAsk{ID: made.ID})
		require.Equal(t, codes.Forbidden, codes.Of(err), "%+v", ask)
		require.True(t, k.Valid(made.ID))
	}
	_, err = k.Revoke(t.Context(), lead, &token.RevokeAsk{ID: mine.ID})
	require.NoError(t, err)
}

// What no role names yet may come to be worth something, and a name that is taken is its owner's in
// histories and in the audit.
func TestNobodyGivesGroupsOrNamesThatAreNotTheirs(t *testing.T) {
	k := policed(t)
	by := func(name string, groups ...string) *access.Actor {
		return &access.Actor{Identity: &access.Identity{Name: name, Groups: groups}}
	}
	lead, root := by("token:lead", "games"), by("token:root", policy.Administrators)
	made := func(by *access.Actor, name string, groups ...string) error {
		_, err := k.Make(t.Context(), by, &token.MakeAsk{Name: name, Groups: groups})
		require.True(t, err == nil || codes.Of(err) == codes.Forbidden, "%v", err)
		return err
	}
	require.ErrorContains(t, made(lead, "a", "games", "sre"), `the group "sre"`)
	require.ErrorContains(t, made(by("token:lead"), "a", "games"), `the group "games"`)
	require.NoError(t, made(root, "a", "sre"))
	require.ErrorContains(t, made(lead, "a"), "token:a is the name of a token that someone else made")
	require.NoError(t, made(nil, "b"), "without access control, or the server")
	require.Error(t, made(lead, "b"))
	require.NoError(t, made(lead, "c", "games"))
	require.NoError(t, made(lead, "c"), "to replace their own")
	require.Error(t, made(by("person:lead", "games"), "c"), "which is somebody else")
	require.NoError(t, made(root, "c"))
	require.Error(t, made(lead, "c"), "it is somebody's now")
	require.NoError(t, made(root, "lead", "games"))
	require.NoError(t, made(lead, "lead"), "they are already")
	require.NoError(t, k.MayMake(lead, []byte(`{"name":"d","groups":["games"]}`)))
	require.Error(t, k.MayMake(lead, []byte(`{"name":"d","groups":["sre"]}`)), "who has lost the group since")
	require.Error(t, k.MayMake(lead, []byte(`{"name":"a"}`)), "somebody has it since")
}
