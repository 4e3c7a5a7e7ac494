// Package openidtest is an OpenID provider for tests: a real one, with people who need no password.
package openidtest

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// The client that the provider knows.
const (
	ClientID     = "confcenter"
	ClientSecret = "a secret of the test"
)

// Person is one of the provider's users.
type Person struct {
	Address    string
	Unverified bool
	Groups     []string
	// Claims are told besides, by their names.
	Claims map[string]any
}

// Provider is a provider that runs. Its fields may be changed before anyone signs in.
type Provider struct {
	*httptest.Server
	// People are its users by the names that its page has.
	People map[string]Person
	// InToken puts what is known of them into the identity token; else it has to be asked for.
	InToken bool

	storage *storage
	asked   func(r *http.Request) bool
}

// Start runs a provider until the test ends. callback is where it may send people back to. Its
// page at /login has a link #as-NAME for each of its users, and #no to refuse. asked, which may be
// nil, sees each request, and may have it answered with an error by returning false.
func Start(t testing.TB, callback string, asked func(r *http.Request) bool) *Provider {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	p := &Provider{asked: asked, InToken: true, People: map[string]Person{
		"ann": {Address: "Ann@example.org", Groups: []string{"ops", "games"}},
		"ben": {Address: "ben@example.org"},
		"eve": {Address: "eve@example.org", Unverified: true},
	}}
	p.storage = &storage{provider: p, callback: callback, key: key, requests: map[string]*request{}, codes: map[string]string{}}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.asked != nil && !p.asked(r) {
			http.Error(w, "out of order", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Server.Close)
	var secret [32]byte
	_, _ = rand.Read(secret[:])
	handler, err := op.NewProvider(&op.Config{CryptoKey: secret, CodeMethodS256: true, AuthMethodPost: true}, p.storage, op.StaticIssuer(p.URL), op.WithAllowInsecure())
	require.NoError(t, err)
	back := op.AuthCallbackURL(handler)
	mux.Handle("/", handler)
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		id := html.EscapeString(r.FormValue("id"))
		fmt.Fprint(w, "<!doctype html><title>provider</title>")
		for name := range p.People {
			fmt.Fprintf(w, `<p><a id="as-%s" href="/as?id=%s&amp;who=%[1]s">%[1]s</a>`, name, id)
		}
		fmt.Fprintf(w, `<p><a id="no" href="/no?id=%s">no</a>`, id)
	})
	mux.HandleFunc("GET /as", func(w http.ResponseWriter, r *http.Request) {
		if !p.storage.is(r.FormValue("id"), r.FormValue("who")) {
			http.NotFound(w, r)
			return
		}
		// With its interceptor the library knows what the provider is called.
		http.Redirect(w, r, back(op.ContextWithIssuer(r.Context(), p.URL), r.FormValue("id")), http.StatusFound)
	})
	mux.HandleFunc("GET /no", func(w http.ResponseWriter, r *http.Request) {
		asked := p.storage.find(r.FormValue("id"))
		http.Redirect(w, r, asked.GetRedirectURI()+"?error=access_denied&state="+asked.GetState(), http.StatusFound)
	})
	return p
}

// storage is what the library asks of its user.
type storage struct {
	op.Storage // nil: what else it could be asked is about what no server of ours does, such as refreshing tokens
	provider   *Provider
	callback   string
	key        *rsa.PrivateKey

	mu       sync.Mutex
	requests map[string]*request // guarded by mu
	codes    map[string]string   // guarded by mu: request by code
	n        int                 // guarded by mu
}

// request is one way of a person to the provider.
type request struct {
	*oidc.AuthRequest
	id, who string
}

func (r *request) GetID() string          { return r.id }
func (r *request) GetACR() string         { return "" }
func (r *request) GetAMR() []string       { return nil }
func (r *request) GetAudience() []string  { return []string{r.ClientID} }
func (r *request) GetAuthTime() time.Time { return time.Now() }
func (r *request) GetClientID() string    { return r.ClientID }
func (r *request) GetNonce() string       { return r.Nonce }
func (r *request) GetScopes() []string    { return r.Scopes }
func (r *request) GetSubject() string     { return r.who }
func (r *request) Done() bool             { return r.who != "" }
func (r *request) GetState() string       { return r.State }
func (r *request) GetRedirectURI() string { return r.RedirectURI }
func (r *request) GetCodeChallenge() *oidc.CodeChallenge {
	return &oidc.CodeChallenge{Challenge: r.CodeChallenge, Method: r.CodeChallengeMethod}
}

func (s *storage) next() string {
	s.n++
	return fmt.Sprint(s.n)
}

func (s *storage) find(id string) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[id]
}

func (s *storage) is(id, who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.provider.People[who]
	if s.requests[id] == nil || !known {
		return false
	}
	s.requests[id].who = who
	return true
}

func (s *storage) CreateAuthRequest(_ context.Context, r *oidc.AuthRequest, _ string) (op.AuthRequest, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := &request{AuthRequest: r, id: s.next()}
	s.requests[asked.id] = asked
	return asked, nil
}

func (s *storage) AuthRequestByID(_ context.Context, id string) (op.AuthRequest, error) {
	if r := s.find(id); r != nil {
		return r, nil
	}
	return nil, oidc.ErrInvalidRequest()
}

func (s *storage) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	s.mu.Lock()
	id := s.codes[code]
	delete(s.codes, code) // it is good for once
	s.mu.Unlock()
	if id == "" {
		return nil, oidc.ErrInvalidGrant()
	}
	return s.AuthRequestByID(ctx, id)
}

func (s *storage) SaveAuthCode(_ context.Context, id, code string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = id
	return nil
}

func (s *storage) DeleteAuthRequest(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.requests, id)
	return nil
}

func (s *storage) CreateAccessToken(context.Context, op.TokenRequest) (string, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next(), time.Now().Add(time.Hour), nil
}

func (s *storage) SigningKey(context.Context) (op.SigningKey, error) { return signingKey{s.key}, nil }

func (s *storage) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{jose.RS256}, nil
}

func (s *storage) KeySet(context.Context) ([]op.Key, error) { return []op.Key{publicKey{s.key}}, nil }

func (s *storage) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	if id != ClientID {
		return nil, oidc.ErrInvalidClient()
	}
	return client{s}, nil
}

func (s *storage) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	if id != ClientID || secret != ClientSecret {
		return oidc.ErrInvalidClient()
	}
	return nil
}

func (s *storage) SetUserinfoFromScopes(context.Context, *oidc.UserInfo, string, string, []string) error {
	return nil
}

// SetUserinfoFromRequest is about the identity token.
func (s *storage) SetUserinfoFromRequest(_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string) error {
	info.Subject = r.GetSubject()
	if s.provider.InToken {
		s.tell(info, r.GetSubject())
	}
	return nil
}

func (s *storage) SetUserinfoFromToken(_ context.Context, info *oidc.UserInfo, _, who, _ string) error {
	s.tell(info, who)
	return nil
}

func (s *storage) tell(info *oidc.UserInfo, who string) {
	person := s.provider.People[who]
	info.Subject, info.Email, info.EmailVerified = who, person.Address, oidc.Bool(!person.Unverified)
	info.AppendClaims("groups", person.Groups)
	for name, value := range person.Claims {
		info.AppendClaims(name, value)
	}
}

type signingKey struct{ key *rsa.PrivateKey }

func (k signingKey) ID() string                                  { return "1" }
func (k signingKey) SignatureAlgorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k signingKey) Key() any                                    { return k.key }

type publicKey struct{ key *rsa.PrivateKey }

func (k publicKey) ID() string                         { return "1" }
func (k publicKey) Algorithm() jose.SignatureAlgorithm { return jose.RS256 }
func (k publicKey) Use() string                        { return "sig" }
func (k publicKey) Key() any                           { return &k.key.PublicKey }

// client is this server, as the provider knows it.
type client struct{ storage *storage }

func (c client) GetID() string                       { return ClientID }
func (c client) RedirectURIs() []string              { return []string{c.storage.callback} }
func (c client) PostLogoutRedirectURIs() []string    { return nil }
func (c client) ApplicationType() op.ApplicationType { return op.ApplicationTypeWeb }
func (c client) AuthMethod() oidc.AuthMethod         { return oidc.AuthMethodBasic }
func (c client) ResponseTypes() []oidc.ResponseType {
	return []oidc.ResponseType{oidc.ResponseTypeCode}
}
func (c client) GrantTypes() []oidc.GrantType         { return []oidc.GrantType{oidc.GrantTypeCode} }
func (c client) LoginURL(id string) string            { return "/login?id=" + id }
func (c client) AccessTokenType() op.AccessTokenType  { return op.AccessTokenTypeBearer }
func (c client) IDTokenLifetime() time.Duration       { return time.Hour }
func (c client) DevMode() bool                        { return true }
func (c client) IsScopeAllowed(string) bool           { return false }
func (c client) IDTokenUserinfoClaimsAssertion() bool { return c.storage.provider.InToken }
func (c client) ClockSkew() time.Duration             { return 0 }
func (c client) RestrictAdditionalIdTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}
func (c client) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return func(scopes []string) []string { return scopes }
}

// Visit goes to where a person was sent, signs in as one of the provider's users or, with "no", as
// no one, and returns where the provider then sends the browser.
func (p *Provider) Visit(t testing.TB, at, who string) (back *url.URL) {
	browser := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/login" || strings.HasPrefix(r.URL.String(), p.storage.callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	defer browser.CloseIdleConnections()
	next := func(at string) *url.URL {
		answer, err := browser.Get(at)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		to, err := answer.Location()
		require.NoError(t, err, "%s %s", at, answer.Status)
		return to
	}
	login := next(at)
	if who == "no" {
		return next(p.URL + "/no?id=" + login.Query().Get("id"))
	}
	return next(p.URL + "/as?who=" + who + "&id=" + login.Query().Get("id"))
}
