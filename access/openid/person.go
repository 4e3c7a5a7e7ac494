package openid

import (
	"context"
	"encoding/json" // takes the claims as they are; internal/jsontext reads them
	"net/mail"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"confcenter/codes"
	"confcenter/internal/jsontext"
)

// claims are what a provider says of a person, in one document.
type claims []jsontext.Member

func readClaims(text []byte) (claims, error) {
	members, kind, err := jsontext.ScanMessage(nil, text)
	if err != nil || kind != jsontext.Object {
		return nil, codes.Errorf(codes.NotIdentified, "the provider's answer is no JSON object")
	}
	return members, nil
}

func (c claims) has(name string) bool {
	_, ok := jsontext.Find(c, name)
	return ok
}

// at is the claims that have the one that is called so, and its name there. Without one of that name
// dots lead into objects, as in realm_access.roles. The names of objects may have dots themselves.
// nil: there is none.
func (c claims) at(name string) (claims, string) {
	if c.has(name) {
		return c, name
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		m, ok := jsontext.Find(c, name[:i])
		if !ok || jsontext.KindOf(m.Raw) != jsontext.Object {
			continue
		}
		within, err := readClaims(m.Raw)
		if err != nil {
			continue
		}
		if found, last := within.at(name[i+1:]); found != nil {
			return found, last
		}
	}
	return nil, ""
}

// text is a claim that is a text; empty: there is none.
func (c claims) text(name string) string {
	m, ok := jsontext.Find(c, name)
	if !ok || jsontext.KindOf(m.Raw) != jsontext.String {
		return ""
	}
	return string(jsontext.Unquote(m.Raw))
}

// list is a claim that is a text or a list of texts, which may be in another one.
func (c claims) list(name string) (all []string, err error) {
	of, last := c.at(name)
	if of == nil {
		return nil, nil
	}
	m, _ := jsontext.Find(of, last)
	if text := of.text(last); text != "" {
		return []string{text}, nil
	}
	if err := json.Unmarshal(m.Raw, &all); err != nil {
		return nil, codes.Errorf(codes.Forbidden, "the provider's claim %.40q is no list of groups", name)
	}
	return all, nil
}

// verified reports whether the provider has verified the address. Some say so in a text.
func (c claims) verified() bool {
	m, _ := jsontext.Find(c, "email_verified")
	return string(m.Raw) == "true" || string(m.Raw) == `"true"`
}

// person is who the provider says a person is: in the identity token or, for what is not in that,
// in what it tells about its users.
func (p *Provider) person(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, subject string, told []byte) (*Person, error) {
	of, err := readClaims(told)
	if err != nil {
		return nil, err
	}
	who, groups := of, of
	in, _ := of.at(p.cfg.Groups)
	if (!of.has("email") || in == nil) && provider.UserInfoEndpoint() != "" {
		more, err := p.userInfo(ctx, provider, token, subject)
		if err != nil {
			return nil, err
		}
		if !of.has("email") { // what is said of an address is said beside it
			who = more
		}
		if in == nil {
			groups = more
		}
	}
	address := who.text("email")
	parsed, err := mail.ParseAddress(address)
	switch {
	case err != nil || parsed.Address != address:
		return nil, codes.Errorf(codes.Forbidden, "the provider does not say your e-mail address; the scope email may be missing")
	case !who.verified():
		return nil, codes.Errorf(codes.Forbidden, "the provider has not verified your e-mail address; verify it there, then sign in again")
	}
	if err := p.allowed(address); err != nil {
		return nil, err
	}
	all, err := groups.list(p.cfg.Groups)
	if err != nil {
		return nil, err
	}
	return &Person{Address: address, Groups: all}, nil
}

func (p *Provider) userInfo(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, subject string) (claims, error) {
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, p.failed("asking about a user", err)
	}
	if subject == "" || info.Subject != subject {
		return nil, codes.Errorf(codes.NotIdentified, "the provider tells of someone else; begin again")
	}
	var told json.RawMessage
	if err := info.Claims(&told); err != nil {
		return nil, p.failed("asking about a user", err)
	}
	return readClaims(told)
}
