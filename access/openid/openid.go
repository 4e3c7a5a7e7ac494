// Package openid has people sign in at an OpenID provider: by the authorization code flow, with
// PKCE, a state and a nonce. It knows who a person is for the provider, and nothing of what they
// may do.
//
// The provider is asked when a person wants to sign in, and not before, so that a server starts
// without it. Each request to it has a time limit, each answer a size limit, and one that does not
// answer is left alone for a while.
package openid

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json" // takes the claims as they are; internal/jsontext reads them
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/rs/zerolog"
	"golang.org/x/oauth2"

	"confcenter/access"
	"confcenter/codes"
	"confcenter/internal/clock"
)

// Limits that cannot be configured.
const (
	maxAsking = 16      // people at a time for whom the provider is asked
	maxAnswer = 1 << 20 // bytes of an answer
	maxCode   = 4 << 10 // bytes of what the provider says by way of the browser
)

// A provider that could not be found is left alone for leastPause, and twice as long each time up
// to mostPause.
const (
	leastPause = time.Second
	mostPause  = 30 * time.Second
)

// CallbackPath is where the provider sends people back, below the external address.
const CallbackPath = "/v1/session/callback"

// Config says which provider there is. The zero value of a field that may be left out is its
// default.
type Config struct {
	Issuer       string // the provider's address, as it gives it itself
	ClientID     string
	ClientSecret string // may be left out, of a public client
	// External is the server's address for browsers, such as https://conf.example.org.
	External string
	Scopes   []string // besides openid: email and profile
	Groups   string   // the claim that has the groups, dots lead into others: groups
	Domains  []string // of addresses that may sign in; none: any
	// Timeout is how long one request to the provider may take, 10 s.
	Timeout time.Duration
	Clock   clock.Clock // the machine's
	Log     zerolog.Logger
}

// Provider is a provider, which need not be there. Its methods may be called from any goroutine,
// and wait for the provider.
type Provider struct {
	// set at open
	cfg      Config
	external *url.URL
	client   *http.Client
	asking   chan struct{} // holds one per person for whom the provider is asked
	turn     chan struct{} // holds one while the provider is looked for

	known atomic.Pointer[oidc.Provider]

	again time.Time     // until when the provider is left alone; only in turn
	pause time.Duration // likewise: how long that is
}

// Open checks the settings. It does not ask the provider. codes.BadRequest.
func Open(cfg Config) (*Provider, error) {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Timeout, cfg.Groups = cmp.Or(cfg.Timeout, 10*time.Second), cmp.Or(cfg.Groups, "groups")
	if cfg.Scopes == nil {
		cfg.Scopes = []string{"email", "profile"}
	}
	if _, err := address("the issuer", cfg.Issuer); err != nil {
		return nil, err
	}
	external, err := address("the external address (--external-url)", cfg.External)
	if err != nil {
		return nil, err
	}
	if cfg.ClientID == "" {
		return nil, codes.Errorf(codes.BadRequest, "the provider knows this server by a client id (--oidc-client-id), which is missing")
	}
	external.Path = strings.TrimSuffix(external.Path, "/")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxResponseHeaderBytes, transport.IdleConnTimeout = maxAsking, 64<<10, 30*time.Second
	return &Provider{
		cfg: cfg, external: external, asking: make(chan struct{}, maxAsking), turn: make(chan struct{}, 1),
		client: &http.Client{
			Timeout: cfg.Timeout, Transport: limited{transport},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// address reads one over which secrets may go.
func address(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, codes.Errorf(codes.BadRequest, "%s %.100q must be an address such as https://id.example.org", what, text)
	case u.Scheme != "https" && !(u.Scheme == "http" && isLoopback(u.Hostname())):
		return nil, codes.Errorf(codes.BadRequest, "%s %.100q must begin with https://: others on the way could sign in as anyone", what, text)
	}
	return u, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// Close lets go of connections to the provider. No one may be signing in any more.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// External is the server's address for browsers. It must not be modified.
func (p *Provider) External() *url.URL { return p.external }

// Issuer is the provider's name.
func (p *Provider) Issuer() string { return p.cfg.Issuer }

// limited reads no more of an answer than there may be.
type limited struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = &limitedBody{answer.Body, maxAnswer}
	}
	return answer, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *limitedBody) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.left)])
	b.left -= n
	return n, err
}

// Attempt is one person's way to the provider and back. The person who comes back must be the one who
// began it: it is kept where only their browser has it.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"` // of PKCE
}

// Person is a person as the provider knows them.
type Person struct {
	Address string // of their e-mail, which the provider has verified
	Groups  []string
}

// Begin returns where a person has to go to sign in. codes.Unreachable: the provider does not
// answer; codes.Busy.
func (p *Provider) Begin(ctx context.Context) (at string, a Attempt, err error) {
	done, err := p.ask(&ctx)
	if err != nil {
		return "", a, err
	}
	defer done()
	provider, err := p.find(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(provider).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish finds out who has come back with an answer of the provider. codes.NotIdentified: it is no
// answer to that attempt, or the provider refused; codes.Forbidden: it does not vouch for an
// address that may sign in; codes.Unreachable, codes.Busy.
func (p *Provider) Finish(ctx context.Context, a Attempt, answer url.Values) (*Person, error) {
	state, code := answer.Get("state"), answer.Get("code")
	switch {
	case a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1:
		return nil, codes.Errorf(codes.NotIdentified, "this sign-in was not begun in this browser, or too long ago; begin again")
	case answer.Has("iss") && answer.Get("iss") != p.cfg.Issuer:
		return nil, codes.Errorf(codes.NotIdentified, "another provider answers; begin again")
	case answer.Has("error"):
		return nil, codes.Errorf(codes.NotIdentified, "the provider did not let you in: %.40q", answer.Get("error"))
	case code == "" || len(code) > maxCode:
		return nil, codes.Errorf(codes.NotIdentified, "the provider's answer has no code; begin again")
	}
	done, err := p.ask(&ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	provider, err := p.find(ctx)
	if err != nil {
		return nil, err
	}
	token, err := p.oauth(provider).Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return nil, p.failed("exchanging the code", err)
	}
	text, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.cfg.Clock.Now}).Verify(ctx, text)
	if err != nil {
		return nil, p.failed("verifying the identity token", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(a.Nonce)) != 1 {
		return nil, codes.Errorf(codes.NotIdentified, "the provider's answer is to another question; begin again")
	}
	var told json.RawMessage
	if err := id.Claims(&told); err != nil {
		return nil, p.failed("reading the identity token", err)
	}
	return p.person(ctx, provider, token, id.Subject, told)
}

// ask takes a place among those for whom the provider is asked, and limits its time. codes.Busy.
func (p *Provider) ask(ctx *context.Context) (done func(), err error) {
	select {
	case p.asking <- struct{}{}:
	default:
		return nil, &codes.Error{Code: codes.Busy, Text: fmt.Sprintf("%d people are signing in at this moment, which is the limit; try again", maxAsking), After: time.Second}
	}
	limited, cancel := context.WithTimeout(oidc.ClientContext(*ctx, p.client), p.cfg.Timeout)
	*ctx = limited
	return func() {
		cancel()
		<-p.asking
	}, nil
}

// find asks the provider where its parts are, until it has answered once.
func (p *Provider) find(ctx context.Context) (*oidc.Provider, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, codes.Errorf(codes.Unreachable, "the provider does not answer; try again later")
	}
	defer func() { <-p.turn }()
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	if now := p.cfg.Clock.Now(); now.Before(p.again) {
		return nil, &codes.Error{Code: codes.Unreachable, Text: "the provider did not answer; try again later", After: p.again.Sub(now)}
	}
	known, err := oidc.NewProvider(ctx, p.cfg.Issuer)
	if err != nil {
		p.pause = min(max(2*p.pause, leastPause), mostPause)
		p.again = p.cfg.Clock.Now().Add(p.pause)
		return nil, p.failed("asking where its parts are", err)
	}
	p.known.Store(known)
	return known, nil
}

func (p *Provider) oauth(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.cfg.ClientID, ClientSecret: p.cfg.ClientSecret, Endpoint: provider.Endpoint(),
		RedirectURL: p.external.String() + CallbackPath, Scopes: append([]string{oidc.ScopeOpenID}, p.cfg.Scopes...),
	}
}

// failed logs what went wrong with the provider, and is what people are told of it.
func (p *Provider) failed(doing string, err error) error {
	line := p.cfg.Log.Warn().Str("issuer", p.cfg.Issuer).Str("while", doing)
	refused := (*oauth2.RetrieveError)(nil)
	if errors.As(err, &refused) { // its text may have all that was answered
		line.Int("status", refused.Response.StatusCode).Str("error", access.Fitted(refused.ErrorCode, 100)).Msg("the OpenID provider refuses someone who wants to sign in")
		return codes.Errorf(codes.NotIdentified, "the provider did not confirm who you are; begin again")
	}
	line.Str("error", access.Fitted(err.Error(), 300)).Msg("someone could not sign in at the OpenID provider")
	if network := net.Error(nil); errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || p.known.Load() == nil {
		return codes.Errorf(codes.Unreachable, "the provider does not answer, or not as it should; the server's log says why")
	}
	return codes.Errorf(codes.NotIdentified, "the provider's answer cannot be trusted; the server's log says why")
}

// allowed refuses an address of a domain that may not sign in.
func (p *Provider) allowed(address string) error {
	domain := address[strings.LastIndexByte(address, '@')+1:]
	if len(p.cfg.Domains) > 0 && !slices.ContainsFunc(p.cfg.Domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return codes.Errorf(codes.Forbidden, "addresses at %.100q may not sign in here", domain)
	}
	return nil
}
