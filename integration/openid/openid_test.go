// Package openid_test has people sign in at a provider that is real: with access/openid alone, and
// through a gateway.
package openid_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access/openid"
	"confcenter/codes"
	"confcenter/integration/openidtest"
	"confcenter/internal/clock/clocktest"
)

// The event loop library starts goroutines of its own when it is linked.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) }

const external = "http://127.0.0.1:1"

func open(t *testing.T, p *openidtest.Provider, change ...func(*openid.Config)) *openid.Provider {
	cfg := openid.Config{Issuer: p.URL, ClientID: openidtest.ClientID, ClientSecret: openidtest.ClientSecret, External: external + "/"}
	for _, c := range change {
		c(&cfg)
	}
	provider, err := openid.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	return provider
}

func start(t *testing.T, asked func(*http.Request) bool) *openidtest.Provider {
	return openidtest.Start(t, external+openid.CallbackPath, asked)
}

func begin(t *testing.T, o *openid.Provider) (string, openid.Attempt) {
	at, a, err := o.Begin(t.Context())
	require.NoError(t, err)
	return at, a
}

func TestAPersonSignsIn(t *testing.T) {
	p := start(t, nil)
	o := open(t, p)
	for _, inToken := range []bool{true, false} {
		p.InToken = inToken
		at, a := begin(t, o)
		who, err := o.Finish(t.Context(), a, p.Visit(t, at, "ann").Query())
		require.NoError(t, err)
		require.Equal(t, &openid.Person{Address: "Ann@example.org", Groups: []string{"ops", "games"}}, who)
	}
}

// Keycloak has roles in objects, whose names may have dots, too.
func TestGroupsMayBeWithinAnotherClaim(t *testing.T) {
	p := start(t, nil)
	p.People["kay"] = openidtest.Person{Address: "kay@example.org", Claims: map[string]any{
		"realm_access":    map[string]any{"roles": []string{"ops"}, "text": "games", "deep": map[string]any{"er": []string{"x"}}, "number": 1},
		"resource_access": map[string]any{"conf.example.org": map[string]any{"roles": []string{"a", "b"}}, "conf": map[string]any{"other": "x"}},
		"plain.name":      []string{"plain"}, "plain": map[string]any{"name": []string{"nested"}},
		"https://example.org/roles": []string{"url"},
	}}
	for claim, want := range map[string][]string{
		"realm_access.roles":                     {"ops"},
		"realm_access.text":                      {"games"},
		"realm_access.deep.er":                   {"x"},
		"resource_access.conf.example.org.roles": {"a", "b"},
		"plain.name":                             {"plain"},
		"https://example.org/roles":              {"url"},
		"realm_access.none":                      nil,
		"realm_access.roles.more":                nil,
		"none.roles":                             nil,
		".roles":                                 nil,
		"realm_access.":                          nil,
		"..":                                     nil,
	} {
		o := open(t, p, func(cfg *openid.Config) { cfg.Groups = claim })
		for _, p.InToken = range []bool{true, false} {
			at, a := begin(t, o)
			who, err := o.Finish(t.Context(), a, p.Visit(t, at, "kay").Query())
			require.NoError(t, err, claim)
			require.Equal(t, want, who.Groups, claim)
		}
	}
	o := open(t, p, func(cfg *openid.Config) { cfg.Groups = "realm_access.number" })
	at, a := begin(t, o)
	_, err := o.Finish(t.Context(), a, p.Visit(t, at, "kay").Query())
	require.Equal(t, codes.Forbidden, codes.Of(err))
	require.ErrorContains(t, err, "is no list of groups")
}

func TestTheWayToTheProviderIsProtected(t *testing.T) {
	o := open(t, start(t, nil))
	at, a := begin(t, o)
	u, err := url.Parse(at)
	require.NoError(t, err)
	q := u.Query()
	require.Equal(t, "S256", q.Get("code_challenge_method"))
	require.NotEmpty(t, q.Get("code_challenge"))
	require.NotContains(t, at, a.Verifier)
	require.Equal(t, a.State, q.Get("state"))
	require.Equal(t, a.Nonce, q.Get("nonce"))
	require.Equal(t, external+openid.CallbackPath, q.Get("redirect_uri"))
	require.Equal(t, "code", q.Get("response_type"))
	require.NotContains(t, at, openidtest.ClientSecret)
	for _, text := range []string{a.State, a.Nonce, a.Verifier} {
		require.Len(t, text, 43, "256 random bits")
	}
}

func TestOnlyTheAnswerToOnesOwnAttemptCounts(t *testing.T) {
	p := start(t, nil)
	o := open(t, p)
	at, a := begin(t, o)
	back := p.Visit(t, at, "ann").Query()
	_, other := begin(t, o)
	change := func(name, value string) url.Values {
		q := url.Values{}
		for k, v := range back {
			q[k] = v
		}
		q.Set(name, value)
		return q
	}
	stolen := a // the code of one attempt, brought to another
	stolen.Verifier = other.Verifier
	for what, c := range map[string]struct {
		a openid.Attempt
		q url.Values
	}{
		"another's attempt":     {other, back},
		"no attempt":            {openid.Attempt{}, back},
		"no attempt, no state":  {openid.Attempt{}, change("state", "")},
		"another state":         {a, change("state", other.State)},
		"another provider":      {a, change("iss", "https://id.example.com")},
		"no code":               {a, change("code", "")},
		"a long code":           {a, change("code", strings.Repeat("x", 5000))},
		"a wrong code":          {a, change("code", "x")},
		"a refusal":             {a, change("error", "access_denied")},
		"another PKCE verifier": {stolen, back},
	} {
		_, err := o.Finish(t.Context(), c.a, c.q)
		require.Equal(t, codes.NotIdentified, codes.Of(err), "%s: %v", what, err)
	}
	at, a = begin(t, o)
	replayed := a
	replayed.Nonce = other.Nonce
	_, err := o.Finish(t.Context(), replayed, p.Visit(t, at, "ann").Query())
	require.ErrorContains(t, err, "another question", "the token is of another attempt")
	at, a = begin(t, o)
	_, err = o.Finish(t.Context(), a, p.Visit(t, at, "no").Query())
	require.Equal(t, codes.NotIdentified, codes.Of(err))
	require.ErrorContains(t, err, "access_denied")

	at, a = begin(t, o)
	back = p.Visit(t, at, "ann").Query()
	_, err = o.Finish(t.Context(), a, back)
	require.NoError(t, err)
	_, err = o.Finish(t.Context(), a, back)
	require.Equal(t, codes.NotIdentified, codes.Of(err), "a code is good for once")
}

func TestOnlyVerifiedAddressesOfTheDomainsSignIn(t *testing.T) {
	p := start(t, nil)
	p.People["far"] = openidtest.Person{Address: "far@example.org.evil.net"}
	p.People["up"] = openidtest.Person{Address: "up@EXAMPLE.org"}
	p.People["two"] = openidtest.Person{Address: "a@example.org, b@evil.net"}
	p.People["named"] = openidtest.Person{Address: "Ann <ann@example.org>"}
	p.People["none"] = openidtest.Person{}
	o := open(t, p, func(c *openid.Config) { c.Domains = []string{"example.org"} })
	for _, inToken := range []bool{true, false} {
		p.InToken = inToken
		for who, want := range map[string]codes.Code{"ann": codes.OK, "up": codes.OK, "eve": codes.Forbidden, "far": codes.Forbidden, "two": codes.Forbidden, "named": codes.Forbidden, "none": codes.Forbidden} {
			at, a := begin(t, o)
			_, err := o.Finish(t.Context(), a, p.Visit(t, at, who).Query())
			require.Equal(t, want, codes.Of(err), "%s: %v", who, err)
		}
	}
}

// A provider that is not there holds no one up, and is not asked again and again.
func TestAProviderThatDoesNotAnswerIsLeftAlone(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	p := start(t, func(*http.Request) bool {
		asked.Add(1)
		return !down.Load()
	})
	down.Store(true)
	fake := clocktest.NewFake(time.Now())
	o := open(t, p, func(c *openid.Config) { c.Clock = fake })
	require.Zero(t, asked.Load(), "not before a person wants to sign in")
	refused := func() {
		t.Helper()
		_, _, err := o.Begin(t.Context())
		require.Equal(t, codes.Unreachable, codes.Of(err), err)
	}
	for i, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		for range 3 {
			refused()
		}
		require.EqualValues(t, i+1, asked.Load())
		fake.Advance(pause*time.Second - time.Millisecond)
		refused()
		require.EqualValues(t, i+1, asked.Load())
		fake.Advance(time.Millisecond)
	}
	down.Store(false)
	begin(t, o)
}

func TestAProviderHasLimits(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		release := make(chan struct{})
		p := start(t, func(r *http.Request) bool {
			<-release
			return true
		})
		defer close(release)
		o := open(t, p, func(c *openid.Config) { c.Timeout = 50 * time.Millisecond })
		_, _, err := o.Begin(t.Context())
		require.Equal(t, codes.Unreachable, codes.Of(err))
	})
	t.Run("in the size of an answer", func(t *testing.T) {
		long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"` + strings.Repeat("x", 2<<20) + `"}`))
		})
		p := start(t, nil)
		p.Config.Handler = long
		_, _, err := open(t, p).Begin(t.Context())
		require.Equal(t, codes.Unreachable, codes.Of(err))
	})
	t.Run("in how many sign in at a time", func(t *testing.T) {
		waits, release := make(chan struct{}, 16), make(chan struct{})
		p := start(t, func(r *http.Request) bool {
			waits <- struct{}{}
			<-release
			return true
		})
		o := open(t, p)
		done := make(chan error, 16)
		ctx, cancel := context.WithCancel(t.Context())
		for range 16 {
			go func() {
				_, _, err := o.Begin(ctx)
				done <- err
			}()
		}
		<-waits
		require.Eventually(t, func() bool {
			_, _, err := o.Begin(canceled())
			return codes.Of(err) == codes.Busy
		}, 10*time.Second, time.Millisecond)
		cancel()
		for range 16 {
			require.Equal(t, codes.Unreachable, codes.Of(<-done))
		}
		close(release)
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
