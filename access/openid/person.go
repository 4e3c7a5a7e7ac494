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

// claims are what a provider says of somebody, in one document.
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

// text is a claim that is a text; empty: there is none.
func (c claims) text(name string) string {
	m, ok := jsontext.Find(c, name)
	if !ok || jsontext.KindOf(m.Raw) != jsontext.String {
		return ""
	}
	return string(jsontext.Unquote(m.Raw))
}

// list is a claim that is a text or a list of texts.
func (c claims) list(name string) (all []string, err error) {
	m, ok := jsontext.Find(c, name)
	if !ok {
		return nil, nil
	}
	if text := c.text(name); text != "" {
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

// person is who the provider says somebody is: in the identity token, and for what is not in that
// in what it tells about its users.
func (p *Provider) person(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, subject string, told []byte) (*Person, error) {
	of, err := readClaims(told)
	if err != nil {
		return nil, err
	}
	who, groups := of, of
	if (!of.has("email") || !of.has(p.cfg.Groups)) && provider.UserInfoEndpoint() != "" {
		more, err := p.userInfo(ctx, provider, token, subject)
		if err != nil {
			return nil, err
		}
		if !of.has("email") { // what is said of an address is said beside it
			who = more
		}
		if !of.has(p.cfg.Groups) {
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
		return nil, codes.Errorf(codes.NotIdentified, "the provider tells of somebody else; begin again")
	}
	var told json.RawMessage
	if err := info.Claims(&told); err != nil {
		return nil, p.failed("asking about a user", err)
	}
	return readClaims(told)
}
