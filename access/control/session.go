package control

import (
	"context"
	"slices"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/access/token"
	"confcenter/codes"
)

// Limits of what a provider says of a person.
const (
	maxGroups = 128
	maxGroup  = 128 // bytes of a group's name
)

// SignInToken begins a session for the holder of a token. It ends with the token.
// codes.NotIdentified: it is no one's token; codes.Limit: there are as many sessions as there may be.
func (c *Control) SignInToken(ctx context.Context, by *access.Actor, text string) (*token.Session, error) {
	who, id, err := c.cfg.Tokens.Verify(text)
	if err != nil {
		return nil, err
	}
	return c.cfg.Tokens.OpenSession(ctx, by, token.Start{Who: who, Token: id})
}

// SignInPerson begins a session of a person for whom the provider vouches, by the address that
// was verified. A group of administrators is the provider's, not ours: that person is one whom the
// settings name. codes.Forbidden: no person can have that address or these groups; codes.Limit.
func (c *Control) SignInPerson(ctx context.Context, by *access.Actor, address string, groups []string) (*token.Session, error) {
	who := &access.Identity{Name: policy.Fold(policy.AsPerson + address)}
	if err := policy.CheckIdentity(policy.AsPerson + address); err != nil {
		return nil, codes.Errorf(codes.Forbidden, "the provider's address for you cannot be a name: %w", err)
	}
	if len(groups) > maxGroups {
		return nil, codes.Errorf(codes.Forbidden, "the provider has you in %d groups, and the limit is %d: have it name fewer to this server", len(groups), maxGroups)
	}
	for _, g := range groups {
		if len(g) > maxGroup || policy.CheckIdentity(policy.ByCert+g) != nil {
			return nil, codes.Errorf(codes.Forbidden, "the provider's group %.40q has more than %d bytes, a * or control characters", g, maxGroup)
		}
		if g == policy.Administrators {
			c.cfg.Log.Warn().Str("who", who.Name).Msg("the provider has someone in a group called administrators: it counts for nothing here; name them with --administrators")
			continue
		}
		who.Groups = append(who.Groups, g)
	}
	slices.Sort(who.Groups)
	who.Groups = slices.Compact(who.Groups)
	return c.cfg.Tokens.OpenSession(ctx, by, token.Start{Who: who, Person: true})
}

// SignOut ends the session that a caller came in with, or all of theirs, and returns how many they
// were. codes.NotFound: there is none.
func (c *Control) SignOut(ctx context.Context, by *access.Actor, caller *guard.Caller, all bool) (int64, error) {
	id := ""
	if !all {
		s := c.SessionOf(caller)
		if s == nil {
			return 0, codes.Errorf(codes.NotFound, "the request came by no session")
		}
		id = s.ID
	}
	ended, err := c.cfg.Tokens.EndOwnSessions(ctx, by, caller.Who, id)
	if err != nil {
		return 0, err
	}
	return ended.Count, nil
}

// SessionOf is the session that a caller came in with; nil: another proof, or it has ended.
func (c *Control) SessionOf(caller *guard.Caller) *token.Session {
	if p := passOf(caller); p != nil && p.session != nil {
		if until, ok := c.cfg.Tokens.SessionUntil(p.session.ID); ok {
			return &token.Session{ID: p.session.ID, Who: p.session.Who, Until: until, Expires: p.session.Expires}
		}
	}
	return nil
}

// Used puts off the end of the session that a caller came in with, if it did.
func (c *Control) Used(caller *guard.Caller) {
	if p := passOf(caller); p != nil && p.session != nil {
		c.cfg.Tokens.UseSession(p.session.ID)
	}
}

func passOf(caller *guard.Caller) *pass {
	if caller == nil {
		return nil
	}
	p, _ := caller.Pass.(*pass)
	return p
}
