package control_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/kvstore/memory"
	"confcenter/op"
)

// renew has a caller do what its pass allows now, and reports whether that is still all.
func renew(c **guard.Caller) (ok bool) {
	*c, ok = (*c).Renew()
	return ok
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type kit struct {
	*control.Control
	t      *testing.T
	dir    string
	config *confstore.Store
	state  kv.Store
	tokens *token.Tokens
	clock  *clocktest.Fake
	told   chan struct{}
}

const games = `{"rules": [{"name": "own", "who": ["token:game-*", "group:games"], "allow": ["read"], "what": ["config:game/*"]}]}`

func start(t *testing.T, files map[string]string, change ...func(*control.Config)) *kit {
	k := &kit{t: t, dir: t.TempDir(), clock: clocktest.NewFake(time.Now()), told: make(chan struct{}, 100)}
	store := memory.New(memory.Config{Clock: k.clock})
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	k.state = store
	for name, text := range files {
		k.put(name, text)
	}
	var err error
	k.config, err = confstore.Open(confstore.Config{Dir: k.dir, DataDir: t.TempDir(), State: store, SetTimeout: time.Minute,
		Check: func(name string, before, contents []byte, by *access.Actor) error {
			return k.Control.Check(name, before, contents, by)
		}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.config.Close()) })
	near := embedded.New(store, nil)
	t.Cleanup(near.Close)
	k.tokens = token.Open(near, token.Config{Clock: k.clock})
	cfg := control.Config{Roles: k.config, Tokens: k.tokens, Store: near, Leases: store, Clock: k.clock}
	for _, c := range change {
		c(&cfg)
	}
	k.Control = control.Open(cfg)
	t.Cleanup(k.Close)
	k.Follow(func() { k.told <- struct{}{} })
	return k
}

func (k *kit) put(name, text string) {
	path := filepath.Join(k.dir, name)
	require.NoError(k.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(k.t, os.WriteFile(path, []byte(text), 0o644))
}

func (k *kit) token(name string, groups ...string) *token.Made {
	made, err := k.tokens.Make(context.Background(), nil, &token.MakeAsk{Name: name, Groups: groups})
	require.NoError(k.t, err)
	return made
}

// until waits for a notice after which something is so. The clock goes on: notices have a pause
// between them.
func (k *kit) until(what string, ok func() bool) {
	deadline := time.After(30 * time.Second)
	for !ok() {
		k.clock.Advance(100 * time.Millisecond)
		select {
		case <-k.told:
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			require.FailNow(k.t, "waited in vain for "+what)
		}
	}
}

func (k *kit) set(by *access.Actor, name, text string) error {
	done := make(chan error, 1)
	req := confstore.SetRequest{Name: name, Actor: by}
	if text != "" {
		req.Contents = []byte(text)
	}
	require.NoError(k.t, k.config.Set(req, func(_ confstore.SetResult, err error) { done <- err }))
	return <-done
}

func TestAPeerIsWhoItCanProveToBe(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games}, func(c *control.Config) {
		c.Administrators = []string{"cert:CN=root"}
		c.Places = []control.Place{
			{Listener: "http", Network: netip.MustParsePrefix("10.1.0.0/16"), Name: "listener:office"},
			{Listener: "listen", Name: "listener:old"},
		}
	})
	game, other := k.token("game-1"), k.token("x", "games")
	cert := func(name string, left time.Duration) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotAfter: k.clock.Now().Add(left)}
	}
	commonName := asn1.ObjectIdentifier{2, 5, 4, 3}
	cn := func(name string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: commonName, Value: name}
	}
	org := func(name string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: name}
	}
	subject := func(list ...pkix.AttributeTypeAndValue) *x509.Certificate { // as a certificate is read
		one := cert("", time.Hour)
		var sequence pkix.RDNSequence
		for _, a := range list {
			sequence = append(sequence, pkix.RelativeDistinguishedNameSET{a})
		}
		one.Subject.FillFromRDNSequence(&sequence)
		return one
	}
	for what, c := range map[string]struct {
		proof control.Proof
		who   string // empty: refused
		reads bool   // game/a.json
	}{
		"a token":                         {control.Proof{Token: game.Text}, "token:game-1", true},
		"a token with a group":            {control.Proof{Token: other.Text}, "token:x", true},
		"a token before the rest":         {control.Proof{Token: game.Text, Certificate: cert("a", time.Hour), Listener: "listen"}, "token:game-1", true},
		"a wrong token":                   {control.Proof{Token: game.Text + "x"}, "", false},
		"a wrong token where none is due": {control.Proof{Token: "x", Certificate: cert("a", time.Hour), Listener: "listen"}, "", false},
		"a certificate":                   {control.Proof{Certificate: cert("a", time.Hour), Listener: "listen"}, "cert:CN=a", false},
		"an administrator's":              {control.Proof{Certificate: cert("root", time.Hour)}, "cert:CN=root", true},
		"one that has ended":              {control.Proof{Certificate: cert("a", -time.Second)}, "", false},
		"one that names many":             {control.Proof{Certificate: cert("*", time.Hour)}, "", false},
		"one of two names":                {control.Proof{Certificate: subject(cn("ann"), cn("root"))}, "", false},
		"one of a name twice":             {control.Proof{Certificate: subject(cn("root"), cn("root"))}, "", false},
		"one whose name is no text":       {control.Proof{Certificate: subject(pkix.AttributeTypeAndValue{Type: commonName, Value: 7}, org("x"))}, "", false},
		"one with an organisation":        {control.Proof{Certificate: subject(org("Example"), org("Games"), cn("a"))}, "cert:CN=a,O=Example+O=Games", false},
		"the listener":                    {control.Proof{Listener: "listen", Address: netip.MustParseAddr("10.1.2.3")}, "listener:old", false},
		"the network":                     {control.Proof{Listener: "http", Address: netip.MustParseAddr("::ffff:10.1.2.3")}, "listener:office", false},
		"another network":                 {control.Proof{Listener: "http", Address: netip.MustParseAddr("10.2.2.3")}, "", false},
		"a unix socket":                   {control.Proof{Listener: "http"}, "", false},
		"nothing":                         {control.Proof{}, "", false},
	} {
		caller, err := k.Admit(&c.proof)
		if c.who == "" {
			require.Equal(t, codes.NotIdentified, codes.Of(err), what)
			continue
		}
		require.NoError(t, err, what)
		require.Equal(t, c.who, caller.Who.Name, what)
		require.Equal(t, c.reads, caller.Needs(op.Document(policy.Read, "game/a.json")) == nil, what)
	}
}

func TestPlacesAreReadFromSettings(t *testing.T) {
	listeners := []string{"listen", "http"}
	for text, want := range map[string]control.Place{
		"listen=old":         {Listener: "listen", Name: "listener:old"},
		"http=listener:old":  {Listener: "http", Name: "listener:old"},
		"10.1.2.3/16=office": {Network: netip.MustParsePrefix("10.1.0.0/16"), Name: "listener:office"},
		"http@fd00::1=one":   {Listener: "http", Network: netip.MustParsePrefix("fd00::1/128"), Name: "listener:one"},
		"0.0.0.0/0=a b=c":    {Network: netip.MustParsePrefix("0.0.0.0/0"), Name: "listener:a b=c"},
	} {
		got, err := control.ParsePlace(text, listeners)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "listen", "listen=", "=x", "tcp=x", "tcp@10.0.0.0/8=x", "listen@=x", "@10.0.0.0/8=x", "10.0.0.0/33=x", "listen=a*"} {
		_, err := control.ParsePlace(text, listeners)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
}

func TestARightThatIsTakenAwayIsNoticed(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games})
	made := k.token("game-1")
	caller, err := k.Admit(&control.Proof{Token: made.Text})
	require.NoError(t, err)
	require.True(t, renew(&caller))

	more := `{"rules": [{"who": ["token:game-*"], "allow": ["read", "write"], "what": ["config:game/*"]}]}`
	require.NoError(t, k.set(nil, "_access/more.json", more))
	k.until("more rights", func() bool {
		require.True(t, renew(&caller), "it loses nothing")
		return caller.Needs(op.Document(policy.Write, "game/a.json")) == nil
	})
	require.NoError(t, k.set(nil, "_access/more.json", ""))
	k.until("the right to end", func() bool { return !renew(&caller) })
	require.Error(t, caller.Needs(op.Document(policy.Write, "game/a.json")))
	require.NoError(t, caller.Needs(op.Document(policy.Read, "game/a.json")))
	require.True(t, renew(&caller), "it is as it was")

	_, err = k.tokens.Revoke(context.Background(), nil, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)
	k.until("the token to end", func() bool { return !renew(&caller) })
	require.Error(t, caller.Needs(op.Document(policy.Read, "game/a.json")))
}

func TestThatACertificateEndsIsNoticed(t *testing.T) {
	k := start(t, nil)
	caller, err := k.Admit(&control.Proof{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: k.clock.Now().Add(3 * time.Second)}})
	require.NoError(t, err)
	var ended atomic.Bool
	follower := caller
	defer k.Follow(func() {
		if !renew(&follower) {
			ended.Store(true)
		}
	})()
	require.True(t, renew(&caller), "who follows from now on has this noticed")
	k.until("the end", ended.Load)
}

func TestThatACertificateIsRevokedIsNoticed(t *testing.T) {
	var revoked atomic.Bool
	k := start(t, nil, func(cfg *control.Config) { cfg.Revoked = func(*x509.Certificate) bool { return revoked.Load() } })
	proof := &control.Proof{Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: k.clock.Now().Add(time.Hour)}}
	caller, err := k.Admit(proof)
	require.NoError(t, err)
	require.True(t, renew(&caller))
	revoked.Store(true)
	k.Renew()
	k.until("the revocation", func() bool { return !renew(&caller) })
	_, err = k.Admit(proof)
	require.ErrorContains(t, err, "revoked")
}

// No one is served over a connection whose certificate is revoked or has ended, whatever else they
// have shown.
func TestACertificateBesideATokenHasToHold(t *testing.T) {
	var revoked atomic.Bool
	k := start(t, nil, func(cfg *control.Config) { cfg.Revoked = func(*x509.Certificate) bool { return revoked.Load() } })
	proof := func(left time.Duration) *control.Proof {
		return &control.Proof{Token: k.token("a").Text, Certificate: &x509.Certificate{Subject: pkix.Name{CommonName: "a"}, NotAfter: k.clock.Now().Add(left)}}
	}
	caller, err := k.Admit(proof(time.Hour))
	require.NoError(t, err)
	require.Equal(t, "token:a", caller.Who.Name)
	_, err = k.Admit(proof(-time.Second))
	require.Equal(t, codes.NotIdentified, codes.Of(err))
	revoked.Store(true)
	k.Renew()
	k.until("the revocation", func() bool { return !renew(&caller) })
	_, err = k.Admit(proof(time.Hour))
	require.ErrorContains(t, err, "revoked")
}

func TestABrokenRoleChangesNothing(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games})
	caller, err := k.Admit(&control.Proof{Token: k.token("game-1").Text})
	require.NoError(t, err)
	err = k.set(nil, "_access/games.json", `{"rules": [{"who": ["*"], "alow": ["read"], "what": ["*"]}]}`)
	require.ErrorContains(t, err, "alow")
	k.put("_access/games.json", `{"rules": 1}`)
	k.config.Reload()
	k.until("the fault", func() bool { return k.config.Snapshot().Node("_access/games.json").Broken() != "" })
	require.True(t, renew(&caller))
	require.NoError(t, caller.Needs(op.Document(policy.Read, "game/a.json")))
	k.until("the trouble", func() bool { return k.Trouble() != nil })
	require.EqualError(t, k.Trouble(), "roles that are broken on disk: _access/games.json; what they said before is in force until they are mended")
	require.Contains(t, k.Explain(caller.Who, policy.Read, policy.Config, "game/a.json").Trouble, "_access/games.json")
	k.put("_access/games.json", games)
	k.config.Reload()
	k.until("the mended role", func() bool { return k.Trouble() == nil })
}

// What was never in force might prohibit something.
func TestARoleThatIsBrokenFromTheStartLeavesAdministratorsOnly(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games, "_access/no.json": `{"rules": 1}`})
	game, err := k.Admit(&control.Proof{Token: k.token("game-1").Text})
	require.NoError(t, err)
	root, err := k.Admit(&control.Proof{Token: k.token("root", policy.Administrators).Text})
	require.NoError(t, err)
	require.Error(t, game.Needs(op.Document(policy.Read, "game/a.json")))
	require.NoError(t, root.Needs(op.Document(policy.Read, "game/a.json")))
	require.ErrorContains(t, k.Trouble(), "until then only administrators")
	require.NoError(t, os.Remove(filepath.Join(k.dir, "_access/no.json")))
	k.config.Reload()
	k.until("the mended roles", func() bool { return renew(&game) && game.Needs(op.Document(policy.Read, "game/a.json")) == nil })
	require.NoError(t, k.Trouble())
}

// It changes nothing before the next start, when it will be too late.
func TestANewRoleThatIsBrokenIsToldOfBeforeTheNextStart(t *testing.T) {
	log := make(logged, 100)
	k := start(t, map[string]string{"_access/games.json": games}, func(cfg *control.Config) { cfg.Log = zerolog.New(log) })
	require.NoError(t, k.Trouble())
	k.put("_access/hand.json", `{"rules": 1}`)
	k.config.Reload()
	game, err := k.Admit(&control.Proof{Token: k.token("game-1").Text})
	require.NoError(t, err)
	require.NoError(t, game.Needs(op.Document(policy.Read, "game/a.json")))
	require.ErrorContains(t, k.Trouble(), "_access/hand.json; mend or remove them: after the next start of the server only administrators")
	d := k.Explain(game.Who, policy.Read, policy.Config, "game/a.json")
	require.True(t, d.Allowed)
	require.Contains(t, d.Trouble, "_access/hand.json")
	k.until("the line", func() bool { return len(log) == 1 })
	require.NoError(t, os.Remove(filepath.Join(k.dir, "_access/hand.json")))
	k.config.Reload()
	k.until("the end of it", func() bool { return len(log) == 2 })
	require.Contains(t, <-log, "_access/hand.json")
	require.Contains(t, <-log, "no role is broken any more")
	require.NoError(t, k.Trouble())
}

// logged are the lines of a log.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestNobodyChangesARoleToTheirAdvantage(t *testing.T) {
	const lead = `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["config:game/*", "roles"]}, {"who": ["token:lead"], "deny": ["read"], "what": ["config:game/secret/*"]}]}`
	k := start(t, map[string]string{"_access/lead.json": lead})
	by := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}
	root := &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{policy.Administrators}}}
	good := `{"rules": [{"who": ["token:x"], "allow": ["read"], "what": ["config:game/a/*"]}]}`
	require.NoError(t, k.set(by, "_access/x.json", good))
	for what, text := range map[string]string{
		"x.json":    `{"rules": [{"who": ["token:x"], "allow": ["read"], "what": ["config:game/*"]}]}`,
		"y.json":    `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["*"]}]}`,
		"lead.json": `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["config:game/a*", "roles"]}]}`,
	} {
		err := k.set(by, "_access/"+what, text)
		require.Equal(t, codes.Forbidden, codes.Of(err), "%s: %v", what, err)
		require.NoError(t, k.set(root, "_access/z"+what, text))
		require.NoError(t, k.set(root, "_access/z"+what, ""))
	}
	require.Equal(t, codes.Forbidden, codes.Of(k.set(by, "_access/lead.json", "")), "the prohibition is part of it")
	require.NoError(t, k.set(by, "_access/x.json", ""))
	require.NoError(t, k.set(by, "other.json", `{"anything": 1}`), "which is for others to judge")
	require.NoError(t, k.set(nil, "_access/y.json", `{"rules": [{"who": ["*"], "allow": ["*"], "what": ["*"]}]}`), "the server itself")
}

// A mark makes everyone wait, administrators included, so it takes more than the right to write roles.
func TestOnlyWhoMayApproveMarks(t *testing.T) {
	k := start(t, map[string]string{"_access/lead.json": `{"rules": [{"who": ["token:lead", "token:boss"], "allow": ["grant"], "what": ["roles"]},
		{"who": ["token:lead", "token:boss"], "allow": ["approve"], "what": ["config:game/*"]}, {"who": ["token:boss"], "allow": ["approve"], "what": ["roles"]}]}`})
	by := func(name string, groups ...string) *access.Actor {
		return &access.Actor{Identity: &access.Identity{Name: name, Groups: groups}}
	}
	const game, all = `{"approval": ["config:game/*"]}`, `{"approval": ["*"]}`
	refused := func(who, name, text, what string) {
		t.Helper()
		err := k.set(by(who), name, text)
		require.Equal(t, codes.Forbidden, codes.Of(err), "%v", err)
		require.ErrorContains(t, err, what)
	}
	refused("token:lead", "_access/m.json", all, `the role m marks "*", which you may not approve yourself`)
	refused("token:lead", "_access/m.json", game, `the role m marks "roles"`)
	require.NoError(t, k.set(by("token:boss"), "_access/m.json", game))
	require.NoError(t, k.set(by("token:lead"), "_access/n.json", game), "roles are marked already")
	refused("token:boss", "_access/n.json", all, `marks "*"`)
	require.NoError(t, k.set(by("token:root", access.Administrators), "_access/n.json", all))
}

// Quotas protect the server from tenants, those included who may grant.
func TestOnlyAdministratorsLoosenQuotas(t *testing.T) {
	const old = `{"quotas": [{"who": ["token:game-*"], "requests": 10}]}`
	book := quota.New(clock.Real())
	k := start(t, map[string]string{"_access/q.json": old, "_access/lead.json": `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["roles"]}]}`},
		func(c *control.Config) { c.Quotas = book })
	game := book.Enter(&access.Identity{Name: "token:game-1"})
	require.True(t, game.Metered())
	by := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}
	root := &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{policy.Administrators}}}
	for _, text := range []string{"", `{}`, `{"quotas": [{"who": ["token:game-*"], "requests": 11}]}`} {
		require.Equal(t, codes.Forbidden, codes.Of(k.set(by, "_access/q.json", text)), text)
	}
	require.NoError(t, k.set(by, "_access/q.json", `{"quotas": [{"who": ["token:game-*"], "requests": 9, "watches": 1}]}`))
	require.NoError(t, k.set(root, "_access/q.json", `{"quotas": [{"who": ["token:game-*"], "watches": 5}]}`))
	require.False(t, game.Metered(), "it counts for those who are there")
}

// What an actor that may grant can make roles cost in memory has a limit.
func TestAllRolesTogetherHaveALimit(t *testing.T) {
	k := start(t, map[string]string{"_access/lead.json": `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["roles"]}]}`})
	by := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}
	rules := func(entries int) string {
		who := strings.TrimSuffix(strings.Repeat(`"token:a",`, 499), ",")
		return `{"rules": [` + strings.TrimSuffix(strings.Repeat(`{"who": [`+who+`], "deny": ["read"], "what": ["kv"]},`, entries/500), ",") + `]}`
	}
	most := policy.MaxEntries
	require.NoError(t, k.set(by, "_access/a.json", rules(most)))
	require.NoError(t, k.set(by, "_access/b.json", rules(most/2)))
	err := k.set(by, "_access/c.json", rules(policy.MaxAllEntries-most*3/2))
	require.Equal(t, codes.Limit, codes.Of(err), "with that of the lead")
	require.ErrorContains(t, err, "all roles would have 100002 entries in who and what, and the limit is 100000")
	require.NoError(t, k.set(by, "_access/c.json", rules(policy.MaxAllEntries-most*3/2-500)))
	require.Equal(t, codes.Limit, codes.Of(k.set(by, "_access/c.json", rules(policy.MaxAllEntries-most*3/2))))
	require.NoError(t, k.set(by, "_access/c.json", rules(500)))
	k.put("_access/big.json", `{"rules": [`+strings.TrimSuffix(strings.Repeat(`{"who": ["*"], "deny": ["read"], "what": ["*"]},`, policy.MaxEntries/14+1), ",")+`]}`)
	k.config.Reload()
	k.until("the fault", func() bool {
		faults := k.config.Faults()
		return len(faults) == 1 && strings.Contains(faults[0].Text, "more than 50000 entries in all")
	})
}

func TestDecisionsAreExplained(t *testing.T) {
	k := start(t, map[string]string{"_access/games.json": games}, func(c *control.Config) { c.Administrators = []string{"person:A@b"} })
	d := k.Explain(&access.Identity{Name: "token:game-1"}, policy.Read, policy.Config, "game/a.json")
	require.True(t, d.Allowed)
	require.Equal(t, []policy.Reason{{Rule: `games, rule 1 "own"`, What: "config:game/*"}}, d.By)
	require.False(t, k.Explain(&access.Identity{Name: "token:x"}, policy.Read, policy.Config, "game/a.json").Allowed)
	require.True(t, k.Explain(&access.Identity{Name: "person:a@b"}, policy.Read, policy.Config, "game/a.json").Allowed)
	require.False(t, k.Of(&access.Identity{Name: "token:x"}).May(policy.Read, policy.Config, []byte("a")))
}

// A lease outlives connections and restarts, so it is ended by itself.
func TestLeasesEndWithTheRightsToThem(t *testing.T) {
	role := func(rules string) string { return `{"rules": [` + rules + `]}` }
	const locks = `{"who": ["token:*", "cert:*"], "allow": ["lock", "lease"], "what": ["kv:n/a*"]}`
	k := start(t, map[string]string{"_access/locks.json": role(locks + `, {"who": ["group:g"], "allow": ["lock"], "what": ["kv:n/b"]}, {"who": ["cert:CN=y"], "allow": ["write"], "what": ["flow"]}`)}, func(c *control.Config) {
		c.Administrators = []string{"cert:CN=root"}
	})
	grant := func(owner *access.Identity, keys ...string) kv.LeaseID {
		by := &access.Actor{Identity: owner}
		id := k.commit(&kv.Txn{Actor: by, Then: []kv.Op{{Kind: kv.OpGrant, TTL: time.Hour}}}).Ops[0].Lease.ID
		for _, key := range keys {
			k.commit(&kv.Txn{Actor: by, Then: []kv.Op{{Kind: kv.OpPut, NS: "n", Key: key, Value: kv.StringValue("v"), Lease: id}}})
		}
		return id
	}
	there := func(id kv.LeaseID) bool { _, err := k.state.Lease(id); return err == nil }
	made, grouped := k.token("a"), k.token("b", "g")
	a, idle := grant(&access.Identity{Name: "token:a"}, "a1", "a2"), grant(&access.Identity{Name: "token:a"})
	b := grant(&access.Identity{Name: "token:b", Groups: []string{"g"}}, "b")
	cert, root := grant(&access.Identity{Name: "cert:CN=x"}, "a3"), grant(&access.Identity{Name: "cert:CN=root", Groups: []string{access.Administrators}}, "b1")
	stale := grant(&access.Identity{Name: "cert:CN=x", Groups: []string{access.Administrators}}, "b2") // of settings from before
	nobodys := grant(nil, "z")
	worker := grant(&access.Identity{Name: "cert:CN=y"})
	k.commit(&kv.Txn{System: true, Then: []kv.Op{{Kind: kv.OpPut, NS: "@flow/x", Key: "w", Value: kv.StringValue("v"), Lease: worker}}})
	k.token("b") // without the group; that something has changed has all leases looked at
	k.until("the end of the lease of settings from before", func() bool { return !there(stale) })

	_, err := k.tokens.Revoke(context.Background(), nil, &token.RevokeAsk{ID: made.ID})
	require.NoError(t, err)
	k.until("the end of a revoked token's leases", func() bool { return !there(a) && !there(idle) })
	e, _ := k.state.Get([]byte("n"), []byte("a1"))
	require.Nil(t, e, "the lock is free")
	_, err = k.tokens.Revoke(context.Background(), nil, &token.RevokeAsk{ID: grouped.ID})
	require.NoError(t, err)
	k.until("the end of what another token of the same name had", func() bool { return !there(b) })
	require.True(t, there(cert))

	k.put("_access/locks.json", role(`{"who": ["cert:*"], "allow": ["lease"], "what": ["kv:n/other"]}, {"who": ["cert:CN=y"], "allow": ["write"], "what": ["flow"]}`))
	k.until("the end of what no role allows any more", func() bool { return !there(cert) })
	for _, id := range []kv.LeaseID{root, nobodys, worker} {
		require.True(t, there(id))
	}
}

func (k *kit) commit(txn *kv.Txn) *kv.Result {
	result, err := kv.Commit(context.Background(), k.state, txn)
	require.NoError(k.t, err)
	return result
}

// An actor that makes a document a base of another shows its contents to those who read the other.
// The change counts, not what was so before.
func TestMakingADocumentABaseNeedsToHaveItInherited(t *testing.T) {
	const base = `{"conf_inherit":{"game/a.json":"base.json secret.json"}}`
	k := start(t, map[string]string{
		"_access/x.json": `{"rules": [{"who": ["token:lead"], "allow": ["read", "write", "delete"], "what": ["config:_meta.json", "config:game/*"]},
			{"who": ["token:lead"], "allow": ["inherit", "read"], "what": ["config:base*", "config:game/*"]}, {"who": ["*"], "deny": ["inherit"], "what": ["config:base/no.json"]},
			{"who": ["token:lead"], "allow": ["inherit"], "what": ["config:unread.json"]}, {"who": ["*"], "deny": ["read"], "what": ["config:base/closed.json"]}]}`,
		"_meta.json": base, "base.json": "{}", "secret.json": "{}", "game/a.json": "{}",
	})
	lead := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}
	for _, c := range []struct {
		text string
		lack string // the document that may not be inherited
	}{
		{`{"conf_inherit":{"game/a":"base secret"},"x":1}`, ""},
		{`{"conf_inherit":{"game/a.json":"secret.json base.json game/c.json"}}`, ""},
		{`{"conf_inherit":{"game/b.json":"base.json base/other.json"}}`, ""},
		{`{"conf_inherit":{"game/b.json":"secret.json"}}`, "secret.json"},
		{`{"conf_inherit":{"game/a.json":"base secret","game/b":"secret"}}`, "secret.json"},
		{`{"conf_inherit":{"game/b.json":"game/a.json","game/a.json":"base.json secret.json"},"inherit_options":{"game/b.json":{"chain":true}}}`, "secret.json"},
		{`{"conf_inherit":{"game/a.json":"base.json secret.json"},"inherit_options":{"*":{"merge":"deep"}}}`, "secret.json"},
		{`{"conf_inherit":{"game/b.json":"base/no.json"}}`, "base/no.json"},
		{`{"conf_inherit":{"game/b.json":"base/closed.json"}}`, `you may not read "config:base/closed.json"`},
		{`{"conf_inherit":{"game/b.json":"unread.json"}}`, `you may not read "config:unread.json"`},
		{`{"conf_inherit":{"game/b.json":"_access/x.json"}}`, "roles"},
		{`{"conf_inherit":{"other.json":"secret"}}`, "secret.json"},
		{`{"conf_inherit":{"game/b.json":"none.json"}}`, "none.json"},
		{`{}`, ""}, {"", ""},
	} {
		require.NoError(t, k.set(nil, "_meta.json", base))
		err := k.set(lead, "_meta.json", c.text)
		if c.lack == "" {
			require.NoError(t, err, c.text)
			continue
		}
		require.Equal(t, codes.Forbidden, codes.Of(err), c.text)
		require.ErrorContains(t, err, c.lack, c.text)
	}
	require.NoError(t, k.set(nil, "_meta.json", ""))
	require.Equal(t, codes.Forbidden, codes.Of(k.set(lead, "_meta.json", base)), "nothing was so before")
}

func TestAnotherNameOfAFileNeedsTheSameRights(t *testing.T) {
	k := start(t, map[string]string{"_access/x.json": `{"rules": [{"who": ["token:lead"], "allow": ["read", "write"], "what": ["config:game/*"]}, {"who": ["token:lead"], "allow": ["read"], "what": ["config:seen.json"]}]}`})
	lead, root := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}, &access.Actor{Identity: &access.Identity{Name: "token:root", Groups: []string{access.Administrators}}}
	require.NoError(t, k.MayChange("game/a.json", false, lead))
	for name, shown := range map[string]bool{"seen.json": true, "hidden.json": false, "_access/x.json": false} {
		err := k.MayChange(name, false, lead)
		require.Equal(t, codes.Forbidden, codes.Of(err), name)
		require.Equal(t, shown, strings.Contains(err.Error(), name), err)
		require.NoError(t, k.MayChange(name, false, root))
		require.NoError(t, k.MayChange(name, false, nil), "who may write to the directory")
		require.NoError(t, (*control.Control)(nil).MayChange(name, false, lead))
	}
	require.Equal(t, codes.Forbidden, codes.Of(k.MayChange("game/a.json", true, lead)), "to delete it is another right")
}

// What a stronger base has replaced is not shown. So it takes the right to have the weaker one
// inherited to take the stronger one away, or to put it below.
func TestShowingWhatAnotherBaseHasReplacedNeedsToHaveItInherited(t *testing.T) {
	k := start(t, map[string]string{
		"_access/x.json": `{"rules": [{"who": ["token:lead"], "allow": ["read", "write"], "what": ["config:_meta.json"]},
			{"who": ["token:lead"], "allow": ["inherit", "read"], "what": ["config:game/*", "config:mask*"]}]}`,
		"secret.json": "{}", "mask.json": "{}", "game/a.json": "{}", "game/b.json": "{}",
	})
	lead := &access.Actor{Identity: &access.Identity{Name: "token:lead"}}
	const flat, chain = `{"conf_inherit":{"game/a":"secret mask"}}`, `{"conf_inherit":{"game/a":"game/b","game/b":"secret mask"},"inherit_options":{"*":{"chain":true}}}`
	for _, c := range []struct {
		before, text string
		allowed      bool
	}{
		{flat, `{"conf_inherit":{"game/a":"mask secret"}}`, false},
		{flat, `{"conf_inherit":{"game/a":"secret"}}`, false},
		{flat, `{"conf_inherit":{"game/a":"mask"}}`, true},
		{flat, `{"conf_inherit":{"game/a":"secret game/b mask mask2"}}`, true},
		{flat, `{"conf_inherit":{"game/a":"secret mask","game/b":"secret mask"}}`, false},
		{chain, `{"conf_inherit":{"game/a":"game/b","game/b":"secret"},"inherit_options":{"*":{"chain":true}}}`, false},
		{chain, `{"conf_inherit":{"game/a":"secret mask","game/b":"secret mask"},"inherit_options":{"*":{"chain":true}}}`, false},
		{chain, `{"conf_inherit":{"game/a":"game/b","game/b":"mask"},"inherit_options":{"*":{"chain":true}}}`, true},
		{chain, `{"conf_inherit":{"game/a":"game/b","game/b":"secret mask"}}`, true},
	} {
		require.NoError(t, k.set(nil, "_meta.json", c.before))
		err := k.set(lead, "_meta.json", c.text)
		if c.allowed {
			require.NoError(t, err, c.text)
			continue
		}
		require.Equal(t, codes.Forbidden, codes.Of(err), c.text)
		require.ErrorContains(t, err, "secret.json", c.text)
	}
}
