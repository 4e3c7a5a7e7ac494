package serving

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/access/openid"
	"confcenter/internal/settings"
	"confcenter/state/auth"
)

// signInOptions are the settings of people at the console.
type signInOptions struct {
	issuer     string // empty: people sign in by token only
	client     string
	secretFile string
	external   string
	groups     string
	scopes     settings.List
	domains    settings.List
	idle, age  time.Duration
	most       int

	secret string // from the environment
}

// SecretVariable has the client secret. It is no flag: everyone on the machine sees those.
const SecretVariable = Prefix + "_OIDC_CLIENT_SECRET"

func (o *signInOptions) define(f *pflag.FlagSet) {
	o.scopes = settings.List{"email", "profile"}
	f.StringVar(&o.issuer, "oidc-issuer", "", "address of the OpenID provider that people sign in at on the console, as it gives it itself; empty = they sign in by token only")
	f.StringVar(&o.client, "oidc-client-id", "", "what the provider calls this server")
	f.StringVar(&o.secretFile, "oidc-client-secret-file", "", "file with the secret that the provider has given it; or the secret itself in CONFCENTER_OIDC_CLIENT_SECRET")
	f.StringVar(&o.external, "external-url", "", "where browsers reach this server, such as https://conf.example.org; the provider sends people back to "+openid.CallbackPath+" below it")
	f.StringVar(&o.groups, "oidc-groups-claim", "groups", "the claim that has the groups of a person; dots lead into others, as in realm_access.roles")
	f.Var(&o.scopes, "oidc-scopes", "what to ask the provider for besides openid, separated by commas")
	f.Var(&o.domains, "oidc-domains", "domains of e-mail addresses that may sign in, separated by commas; empty = any that the provider has verified")
	f.DurationVar(&o.idle, "session-idle", 2*time.Hour, "a session at the console ends when no one has used it for that long")
	f.DurationVar(&o.age, "session-age", 12*time.Hour, "a session at the console ends after that long in any case")
	f.IntVar(&o.most, "max-sessions", 1000, "sessions at the console at the same time; further ones are refused, and of one person there are at most 20")
}

// check finds settings that no one could sign in with.
func (o *signInOptions) check(accessControl bool, refuse func(format string, args ...any)) {
	if o.idle < time.Minute || o.age < time.Minute {
		refuse("session-idle = %s, session-age = %s: must be at least 1m", o.idle, o.age)
	}
	if o.most < 1 {
		refuse("max-sessions = %d: must be above 0", o.most)
	}
	if o.issuer == "" {
		if o.client != "" || o.secretFile != "" || o.secret != "" || o.external != "" || len(o.domains) > 0 {
			refuse("oidc-client-id, oidc-client-secret-file, oidc-domains and external-url are for --oidc-issuer, which is not set")
		}
		return
	}
	if !accessControl {
		refuse("oidc-issuer is for --access-control, which is not set")
	}
	provider, err := o.open(zerolog.Nop())
	if err != nil {
		refuse("oidc-issuer: %w", err)
		return
	}
	provider.Close()
}

// open is the provider; nil: there is none. It is not asked yet.
func (o *signInOptions) open(log zerolog.Logger) (*openid.Provider, error) {
	if o.issuer == "" {
		return nil, nil
	}
	secret := o.secret
	if o.secretFile != "" {
		text, err := os.ReadFile(o.secretFile)
		if err != nil {
			return nil, fmt.Errorf("the file of the client secret cannot be read: %w", err)
		}
		if len(text) > 4<<10 {
			return nil, fmt.Errorf("oidc-client-secret-file = %s: is no file of a secret: it has %d bytes", o.secretFile, len(text))
		}
		secret = strings.TrimSpace(string(text))
	}
	return openid.Open(openid.Config{
		Issuer: o.issuer, ClientID: o.client, ClientSecret: secret, External: o.external,
		Scopes: o.scopes, Groups: o.groups, Domains: o.domains, Log: log,
	})
}

func (o *signInOptions) limits() auth.SessionLimits {
	return auth.SessionLimits{Idle: o.idle, Age: o.age, Most: int64(o.most), Issuer: o.issuer}
}
