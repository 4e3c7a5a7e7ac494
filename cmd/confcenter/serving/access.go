package serving

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/openid"
	"confcenter/access/policy"
	"confcenter/access/review"
	"confcenter/access/secret"
	"confcenter/access/token"
	"confcenter/internal/admission"
	"confcenter/internal/atomicfile"
	"confcenter/internal/settings"
	"confcenter/kv"
	"confcenter/server"
	"confcenter/server/http"
	"confcenter/server/tcp/gate"
)

// accessOptions are the settings of access control.
type accessOptions struct {
	On             bool          `flag:"access-control" doc:"let in only those who prove who they are, and to what the roles in --conf/_access allow; the first start makes a token for an administrator, in a file in --data"`
	Places         settings.List `flag:"listen-as" doc:"names for peers that can prove nothing, separated by commas: LISTENER=NAME, NETWORK=NAME or LISTENER@NETWORK=NAME, where LISTENER is listen, tls-listen, http or http-tls; the first that is right counts, and roles call them listener:NAME"`
	Administrators settings.List `flag:"administrators" doc:"who may do everything besides those with an administrator's token, separated by commas: cert:SUBJECT or person:ADDRESS"`
	RefusalDelay   time.Duration `flag:"refusal-delay" default:"250ms" doc:"the refusal of a wrong token is sent that much later, at most 1s; 0: at once. No one with a valid one waits"`
	SignIn         signInOptions
	Reviews        reviewOptions
}

// reviewOptions are the settings of changes that wait for another person.
type reviewOptions struct {
	Most int           `flag:"max-reviews" default:"1000" doc:"changes that wait for another person's approval at the same time; further ones are refused, and of one author at most 100 wait"`
	Keep time.Duration `flag:"review-keep" default:"168h" doc:"a change that no one has decided expires after that long, and a decision is forgotten"`
}

func (o *reviewOptions) check(refuse func(format string, args ...any)) {
	if o.Most < 1 {
		refuse("max-reviews = %d: must be above 0", o.Most)
	}
	if o.Keep < time.Minute || o.Keep > kv.MaxTTL {
		refuse("review-keep = %s: must be from 1m to %s", o.Keep, kv.MaxTTL)
	}
}

func (o *reviewOptions) config() review.Config {
	return review.Config{MaxChanges: int64(o.Most), Keep: o.Keep}
}

// listenerNames are what --listen-as calls the listeners: their settings.
var listenerNames = []string{gate.PlainListener, gate.TLSListener, http.PlainListener, http.TLSListener}

// parsed are the places that the settings name.
func (o *accessOptions) parsed() (places []control.Place, err error) {
	for _, text := range o.Places {
		p, err := control.ParsePlace(text, listenerNames)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// check finds settings that no one could get in with; certificates: clients may show theirs.
func (o *accessOptions) check(certificates bool, refuse func(format string, args ...any)) {
	if _, err := o.parsed(); err != nil {
		refuse("listen-as: %w", err)
	}
	for _, name := range o.Administrators {
		kind, _, _ := strings.Cut(name, ":")
		switch err := policy.CheckIdentity(name); {
		case err != nil:
			refuse("administrators: %w", err)
		case kind+":" == policy.AsPerson && o.On && o.SignIn.Issuer == "":
			refuse("administrators: no one can be %s without --oidc-issuer, where people sign in; set it, or use an administrator's token", name)
		case kind+":" == policy.ByCert && o.On && !certificates:
			refuse("administrators: no one can be %s without --tls-client-ca, of whose authorities certificates are; set it, or use an administrator's token", name)
		case kind+":" != policy.AsPerson && kind+":" != policy.ByCert:
			refuse("administrators: %s: name cert:SUBJECT or person:ADDRESS; for a token that may do everything: confcenter auth token NAME --groups %s", name, policy.Administrators)
		}
	}
	if o.RefusalDelay < 0 || o.RefusalDelay > time.Second {
		refuse("refusal-delay = %s: must be 0 to 1s", o.RefusalDelay)
	}
	o.SignIn.check(o.On, refuse)
	o.Reviews.check(refuse)
	if !o.On && (len(o.Places) > 0 || len(o.Administrators) > 0) {
		refuse("listen-as and administrators are for --access-control, which is not set")
	}
}

// closed refuses names for peers of a listener that is off.
func (o *accessOptions) closed(listener string, refuse func(format string, args ...any)) {
	places, _ := o.parsed() // check has seen to the error
	for _, p := range places {
		if p.Listener == listener {
			refuse("listen-as: %s is for --%s, which is off: no one comes in there", p.Name, listener)
		}
	}
}

// openFronts opens what lets peers into a server that is open, and says where they come in.
func (o *Options) openFronts(srv *server.Server, limiter *admission.Limiter, version string, log zerolog.Logger) (f server.Fronts, err error) {
	if f.Certificates, err = o.openCertificates(log); err != nil {
		return f, err
	}
	if f.Certificates != nil {
		srv.Own(f.Certificates.Close)
	}
	f.TCP = o.tcp
	f.TCP.Connections, f.TCP.TLSListen, f.TCP.SlowRequest = limiter, o.tls.listen, o.http.SlowRequest
	if web := o.http.Config; !o.http.off() {
		web.Version = version
		f.HTTP, f.SpareHTTP = &web, !o.http.given && web.TLSListen == ""
	}
	if !o.access.On {
		if f.HTTP != nil {
			f.HTTP.Open = o.reachable()
		}
		return f, nil
	}
	places, err := o.access.parsed()
	if err != nil {
		return f, err
	}
	if err := ensureAdministrator(srv.Models.Tokens(), o.data, log); err != nil {
		return f, err
	}
	provider, err := o.access.SignIn.open(log)
	if err != nil {
		return f, err
	}
	if provider != nil {
		srv.Own(func() error { provider.Close(); return nil })
	}
	if f.HTTP != nil {
		f.HTTP.OpenID = provider
	}
	f.Control = &control.Config{Places: places, Administrators: o.access.Administrators, RefusalDelay: o.access.RefusalDelay}
	return f, nil
}

// TokenFile is the file in --data with the first administrator's token.
const TokenFile = "administrator.token"

// ensureAdministrator makes a token for an administrator if there is none, for otherwise no one
// could make one: those whom the settings name need a provider or certificates that work. Anyone
// who can read the data directory has everything in any case.
func ensureAdministrator(tokens *token.Tokens, data string, log zerolog.Logger) error {
	ctx := context.Background()
	for q := (token.ListAsk{}); ; {
		page, err := tokens.List(ctx, nil, &q)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Tokens, func(t token.Token) bool { return slices.Contains(t.Groups, policy.Administrators) }) {
			return nil
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	made, err := tokens.Make(ctx, &access.Actor{Origin: access.Server}, &token.MakeAsk{Name: "administrator", Groups: []string{policy.Administrators}})
	if err != nil {
		return err
	}
	root, err := atomicfile.OS().OpenRoot(data)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := atomicfile.Write(root, TokenFile, []byte(made.Text+"\n"), atomicfile.Attr{Perm: 0o600}); err != nil {
		return err
	}
	log.Warn().Str("file", filepath.Join(data, TokenFile)).Str("id", made.ID).
		Msg("a token for an administrator was made: make others with it, then revoke it and remove the file")
	return nil
}

// reachable are the addresses that other machines reach.
func (o *Options) reachable() (list []string) {
	for _, address := range []string{o.tcp.Listen, o.http.Listen, o.tls.listen, o.http.TLSListen} {
		if address == "" {
			continue // it is off
		}
		if open, _ := OpenAddress(address); open {
			list = append(list, address)
		}
	}
	return list
}

// warn tells of addresses and files that are less safe than they could be.
func (o *Options) warn(log zerolog.Logger) {
	for setting, path := range map[string]string{"tls-key": o.tls.files.Key, "oidc-client-secret-file": o.access.SignIn.SecretFile} {
		if path != "" && OthersRead(path) {
			log.Warn().Str("file", path).Str("setting", setting).Msg("everyone on this machine can read the file, and so stand in for this server: chmod 600 it")
		}
	}
	for _, address := range o.reachable() {
		secure := address == o.tls.listen || address == o.http.TLSListen
		if o.access.On && secure {
			continue
		}
		line := log.Warn().Str("address", address)
		switch {
		case o.access.On:
			line.Msg("there is no TLS at this address: anyone on the way can read tokens and everything else, and use them (--tls-listen, --http-tls)")
		case secure && o.tls.files.ClientCA != "":
			line.Msg("OPEN ACCESS: everyone with a certificate of --tls-client-ca may read and write every configuration; there are no permissions (--allow-open)")
		default:
			line.Msg("OPEN ACCESS: anyone who reaches this address may read and write every configuration; there is no authentication (--allow-open)")
		}
	}
	if open, _ := OpenAddress(o.http.Listen); open && len(o.http.Hosts) == 0 {
		log.Warn().Str("address", o.http.Listen).Msg("HTTP is reachable by IP address only: requests to a host name are refused unless --http-host lists it")
	}
}

// signInOptions are the settings of people at the console.
type signInOptions struct {
	Issuer     string        `flag:"oidc-issuer" doc:"address of the OpenID provider that people sign in at on the console, as it gives it itself; empty = they sign in by token only"`
	Client     string        `flag:"oidc-client-id" doc:"what the provider calls this server"`
	SecretFile string        `flag:"oidc-client-secret-file" doc:"file with the secret that the provider has given it; or the secret itself in CONFCENTER_OIDC_CLIENT_SECRET"`
	External   string        `flag:"external-url" doc:"where browsers reach this server, such as https://conf.example.org; the provider sends people back to /v1/session/callback below it"`
	Groups     string        `flag:"oidc-groups-claim" default:"groups" doc:"the claim that has the groups of a person; dots lead into others, as in realm_access.roles"`
	Scopes     settings.List `flag:"oidc-scopes" default:"email,profile" doc:"what to ask the provider for besides openid, separated by commas"`
	Domains    settings.List `flag:"oidc-domains" doc:"domains of e-mail addresses that may sign in, separated by commas; empty = any that the provider has verified"`
	Idle       time.Duration `flag:"session-idle" default:"2h" doc:"a session at the console ends when no one has used it for that long"`
	Age        time.Duration `flag:"session-age" default:"12h" doc:"a session at the console ends after that long in any case"`
	Most       int           `flag:"max-sessions" default:"1000" doc:"sessions at the console at the same time; further ones are refused, and of one person there are at most 20"`

	secret string // from the environment
}

// SecretVariable has the client secret. It is no flag: everyone on the machine sees those.
const SecretVariable = Prefix + "_OIDC_CLIENT_SECRET"

// check finds settings that no one could sign in with.
func (o *signInOptions) check(accessControl bool, refuse func(format string, args ...any)) {
	if o.Idle < time.Minute || o.Age < time.Minute {
		refuse("session-idle = %s, session-age = %s: must be at least 1m", o.Idle, o.Age)
	}
	if o.Most < 1 {
		refuse("max-sessions = %d: must be above 0", o.Most)
	}
	if o.Issuer == "" {
		if o.Client != "" || o.SecretFile != "" || o.secret != "" || o.External != "" || len(o.Domains) > 0 {
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
	if o.Issuer == "" {
		return nil, nil
	}
	secret := o.secret
	if o.SecretFile != "" {
		text, err := os.ReadFile(o.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("the file of the client secret cannot be read: %w", err)
		}
		if len(text) > 4<<10 {
			return nil, fmt.Errorf("oidc-client-secret-file = %s: is no file of a secret: it has %d bytes", o.SecretFile, len(text))
		}
		secret = strings.TrimSpace(string(text))
	}
	return openid.Open(openid.Config{
		Issuer: o.Issuer, ClientID: o.Client, ClientSecret: secret, External: o.External,
		Scopes: o.Scopes, Groups: o.Groups, Domains: o.Domains, Log: log,
	})
}

func (o *signInOptions) limits() token.SessionLimits {
	return token.SessionLimits{Idle: o.Idle, Age: o.Age, Most: int64(o.Most), Issuer: o.Issuer}
}

// KeyVariable has the secret key. It is no flag: everyone on the machine sees those.
const KeyVariable = Prefix + "_SECRET_KEY"

// secretOptions are where the secret key comes from.
type secretOptions struct {
	File    string `flag:"secret-key-file" doc:"file, readable by its owner only, of the secret key by which sealed values are encrypted: 32 random bytes in hexadecimal or base64, as openssl rand -hex 32 prints them; further lines may have older keys; read again when it changes; or the variable CONFCENTER_SECRET_KEY has the key"`
	Command string `flag:"secret-key-command" doc:"command of the shell that prints the secret key, instead of --secret-key-file; run at the start, and by confcenter secret rotate"`
	text    string // of the variable; never printed
}

func (o *secretOptions) check(refuse func(format string, args ...any)) {
	given := 0
	for _, from := range []string{o.File, o.Command, o.text} {
		if from != "" {
			given++
		}
	}
	if given > 1 {
		refuse("the secret key comes from one of secret-key-file, secret-key-command and %s; give one", KeyVariable)
	}
}

// keyEvery is how often the file of the secret key is read.
const keyEvery = time.Second

// config is that of the data keys; what the command has to say to people goes to the log.
func (o *secretOptions) config(log zerolog.Logger) (cfg secret.Config) {
	switch {
	case o.File != "":
		cfg.Source, cfg.Every = secret.FromFile(o.File), keyEvery
	case o.Command != "":
		cfg.Source = secret.FromCommand(o.Command, log)
	case o.text != "":
		cfg.Source = secret.FromText(KeyVariable, o.text)
	}
	return cfg
}
