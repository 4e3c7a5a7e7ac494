package review_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/token"
	"confcenter/codes"
)

// admitted is someone as an edge knows them by a proof.
func (k *kit) admitted(p control.Proof) *access.Actor {
	caller, err := k.access.Admit(&p)
	require.NoError(k.t, err)
	return &access.Actor{Origin: access.OverTCP, Address: "10.0.0.1:5", Identity: caller.Who}
}

// signedIn is someone who has come by a session that was made from a token.
func (k *kit) signedIn(token string) (*access.Actor, string) {
	s, err := k.access.SignInToken(k.ctx, nil, token)
	require.NoError(k.t, err)
	return k.admitted(control.Proof{Session: s.Text}), s.ID
}

// asked are changes of each kind that someone has asked for, by what they are about.
func (k *kit) asked(by *access.Actor) map[string]int64 {
	made, err := k.tokens.Make(k.ctx, by, &token.MakeAsk{Name: by.Identity.Name[len(policy.ByToken):]})
	require.NoError(k.t, err)
	return map[string]int64{
		"a document": k.held(k.apply(by, "live/a.json", `{"stolen":true}`)),
		"keys":       k.held(k.write(by, put("live", "limits/a", "stolen"))),
		"a token":    made.Held,
		"a role":     k.held(k.apply(by, "_access/more.json", `{"rules":[]}`)),
	}
}

// grants has a role by which zoe may change roles and make tokens.
func (k *kit) grants() {
	require.NoError(k.t, k.apply(nil, "_access/grants.json", `{"rules":[{"who":["token:zoe"],"allow":["*"],"what":["roles"]}]}`))
}

// A token that takes the place of a stolen one makes nothing of what was asked for with that, whether it
// was revoked or has ended, by the token itself or a session made from it, and after a restart.
func TestWhatARevokedTokenAskedForStaysRefused(t *testing.T) {
	for _, bySession := range []bool{false, true} {
		k := start(t)
		k.grants()
		one, short, other := k.token(nil, "zoe"), &token.Made{}, k.token(nil, "zoe")
		var err error
		short, err = k.tokens.Make(k.ctx, nil, &token.MakeAsk{Name: "zoe", TTL: time.Hour.Milliseconds()})
		require.NoError(t, err)
		as := func(token *token.Made) *access.Actor {
			if bySession {
				by, _ := k.signedIn(token.Text)
				return by
			}
			return k.admitted(control.Proof{Token: token.Text})
		}
		revoked, ended, valid := k.asked(as(one)), k.asked(as(short)), k.held(k.write(as(other), put("match", "only", "x")))
		_, err = k.tokens.Revoke(k.ctx, nil, &token.RevokeAsk{ID: one.ID})
		require.NoError(t, err)
		k.clock.Advance(time.Hour)
		k.token(nil, "zoe")
		max := k.admitted(control.Proof{Token: k.token(nil, "max", policy.Administrators).Text})
		for range 2 {
			for _, numbers := range []map[string]int64{revoked, ended} {
				for what, number := range numbers {
					err := k.approve(max, number)
					require.Equal(t, codes.Forbidden, codes.Of(err), "%s: %v", what, err)
					require.ErrorContains(t, err, "has ended or was revoked")
				}
			}
			k.open()
		}
		require.Equal(t, `{"a":1}`, k.text("live/a.json"))
		require.NoError(t, k.approve(max, valid), "which another token of that name has asked for")
		_, err = k.Reject(k.ctx, max, &review.RejectAsk{Number: revoked["keys"]})
		require.NoError(t, err)
		_, err = k.Withdraw(k.ctx, k.admitted(control.Proof{Token: other.Text}), &review.WithdrawAsk{Number: revoked["a document"]})
		require.NoError(t, err, "the name is the same")
	}
}

// What a record of before does not know counts as it did: a valid token of that name and these groups.
func TestAChangeThatNamesNoProofIsJudgedByItsName(t *testing.T) {
	k := start(t)
	number := k.held(k.write(as("zoe"), put("match", "only", "x")))
	tokens, err := k.tokens.List(k.ctx, nil, &token.ListAsk{})
	require.NoError(t, err)
	for i := range tokens.Tokens {
		if one := &tokens.Tokens[i]; one.Name == "zoe" {
			_, err := k.tokens.Revoke(k.ctx, nil, &token.RevokeAsk{ID: one.ID})
			require.NoError(t, err)
		}
	}
	require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
	k.token(nil, "zoe")
	require.NoError(t, k.approve(as("max"), number))
}

// Who was let in by a proof that is none any more decides nothing, though the edge has not noticed yet.
func TestWhoseProofHasEndedDecidesNothing(t *testing.T) {
	k := start(t)
	stolen := k.token(nil, "max")
	thief := k.admitted(control.Proof{Token: stolen.Text})
	session, id := k.signedIn(k.token(nil, "max").Text)
	number := k.held(k.apply(as("zoe"), "live/a.json", `{"a":2}`))
	_, err := k.tokens.Revoke(k.ctx, nil, &token.RevokeAsk{ID: stolen.ID})
	require.NoError(t, err)
	_, err = k.tokens.End(k.ctx, nil, &token.EndAsk{ID: id})
	require.NoError(t, err)
	for _, by := range []*access.Actor{thief, session} {
		require.Equal(t, codes.NotIdentified, codes.Of(k.approve(by, number)))
		_, err = k.Reject(k.ctx, by, &review.RejectAsk{Number: number})
		require.Equal(t, codes.NotIdentified, codes.Of(err))
	}
	require.NoError(t, k.approve(as("max"), number))
}

// What was asked for in a session that was ended by others, or with all of that name, stays refused. To
// sign out, or not to use it any more, takes nothing back.
func TestWhatAnEndedSessionAskedForStaysRefused(t *testing.T) {
	k := start(t)
	sign := func() (*access.Actor, string) {
		s, err := k.tokens.OpenSession(k.ctx, nil, token.Start{Who: &access.Identity{Name: "person:wim@example.org", Groups: []string{"writers"}}, Person: true})
		require.NoError(t, err)
		return k.admitted(control.Proof{Session: s.Text}), s.ID
	}
	ask := func(by *access.Actor) int64 { return k.held(k.write(by, put("live", "limits/a", "1"))) }
	out, outID := sign()
	idle, _ := sign()
	stays := []int64{ask(out), ask(idle)}
	_, err := k.tokens.EndOwnSessions(k.ctx, out, out.Identity, outID)
	require.NoError(t, err)
	k.clock.Advance(3 * time.Hour)

	var refused []int64
	stolen, id := sign()
	refused = append(refused, ask(stolen))
	_, err = k.tokens.End(k.ctx, root(), &token.EndAsk{ID: id})
	require.NoError(t, err)
	byToken, id := k.signedIn(k.token(nil, "writer").Text)
	refused = append(refused, ask(byToken))
	_, err = k.tokens.End(k.ctx, root(), &token.EndAsk{ID: id})
	require.NoError(t, err)
	everywhere, _ := sign()
	refused = append(refused, ask(everywhere))
	_, err = k.tokens.EndOwnSessions(k.ctx, everywhere, everywhere.Identity, "")
	require.NoError(t, err)
	sign() // and comes again
	for range 2 {
		for _, number := range refused {
			require.Equal(t, codes.Forbidden, codes.Of(k.approve(as("max"), number)))
		}
		k.open()
	}
	require.NoError(t, k.approve(as("max"), stays[0]))
	require.Equal(t, codes.Conflict, codes.Of(k.approve(as("max"), stays[1])), "the key is another one, and nothing else is wrong")
}
