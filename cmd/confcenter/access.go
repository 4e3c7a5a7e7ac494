package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/access"
	"confcenter/access/control"
	"confcenter/access/openid"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/access/seal"
	"confcenter/confstore"
	"confcenter/confstore/change"
	"confcenter/gateway"
	"confcenter/internal/atomicfile"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/server/gate"
	"confcenter/state/auth"
	"confcenter/state/host"
	"confcenter/state/review"
	"confcenter/state/secret"
)

// accessOptions are the settings of access control.
type accessOptions struct {
	on             bool
	places         list
	administrators list
	refusalDelay   time.Duration
	signIn         signInOptions
	reviews        reviewOptions
}

// reviewOptions are the settings of changes that wait for another person.
type reviewOptions struct {
	most int
	keep time.Duration
}

func (o *reviewOptions) define(f *pflag.FlagSet) {
	f.IntVar(&o.most, "max-reviews", 1000, "changes that wait for another person's approval at the same time; further ones are refused, and of one author at most 100 wait")
	f.DurationVar(&o.keep, "review-keep", 7*24*time.Hour, "a change that no one has decided expires after that long, and a decision is forgotten")
}

func (o *reviewOptions) check(refuse func(format string, args ...any)) {
	if o.most < 1 {
		refuse("max-reviews = %d: must be above 0", o.most)
	}
	if o.keep < time.Minute || o.keep > kv.MaxTTL {
		refuse("review-keep = %s: must be from 1m to %s", o.keep, kv.MaxTTL)
	}
}

func (o *reviewOptions) config(documents review.Documents, pool *memory.Pool) review.Config {
	return review.Config{Documents: documents, Memory: pool, MaxChanges: int64(o.most), Keep: o.keep}
}

// listenerNames are what --listen-as calls the listeners: their settings.
var listenerNames = []string{gate.PlainListener, gate.TLSListener, gateway.PlainListener, gateway.TLSListener}

func (o *accessOptions) define(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "access-control", false, "let in only those who prove who they are, and to what the roles in --conf/_access allow; the first start makes a token for an administrator, in a file in --data")
	f.Var(&o.places, "listen-as", "names for peers that can prove nothing, separated by commas: LISTENER=NAME, NETWORK=NAME or LISTENER@NETWORK=NAME, where LISTENER is listen, tls-listen, http or http-tls; the first that is right counts, and roles call them listener:NAME")
	f.Var(&o.administrators, "administrators", "who may do everything besides those with an administrator's token, separated by commas: cert:SUBJECT or person:ADDRESS")
	f.DurationVar(&o.refusalDelay, "refusal-delay", 250*time.Millisecond, "the refusal of a wrong token is sent that much later, at most 1s; 0: at once. No one with a valid one waits")
	o.signIn.define(f)
	o.reviews.define(f)
}

// parsed are the places that the settings name.
func (o *accessOptions) parsed() (places []control.Place, err error) {
	for _, text := range o.places {
		p, err := control.ParsePlace(text, listenerNames)
		if err != nil {
			return nil, err
		}
		places = append(places, p)
	}
	return places, nil
}

// check finds settings that nobody could get in with; certificates: clients may show theirs.
func (o *accessOptions) check(certificates bool, refuse func(format string, args ...any)) {
	if _, err := o.parsed(); err != nil {
		refuse("listen-as: %w", err)
	}
	for _, name := range o.administrators {
		kind, _, _ := strings.Cut(name, ":")
		switch err := policy.CheckIdentity(name); {
		case err != nil:
			refuse("administrators: %w", err)
		case kind+":" == policy.AsPerson && o.on && o.signIn.issuer == "":
			refuse("administrators: no one can be %s without --oidc-issuer, where people sign in; set it, or use an administrator's token", name)
		case kind+":" == policy.ByCert && o.on && !certificates:
			refuse("administrators: no one can be %s without --tls-client-ca, of whose authorities certificates are; set it, or use an administrator's token", name)
		case kind+":" != policy.AsPerson && kind+":" != policy.ByCert:
			refuse("administrators: %s: name cert:SUBJECT or person:ADDRESS; for a token that may do everything: confcenter auth token NAME --groups %s", name, policy.Administrators)
		}
	}
	if o.refusalDelay < 0 || o.refusalDelay > time.Second {
		refuse("refusal-delay = %s: must be 0 to 1s", o.refusalDelay)
	}
	o.signIn.check(o.on, refuse)
	o.reviews.check(refuse)
	if !o.on && (len(o.places) > 0 || len(o.administrators) > 0) {
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

// gatekeeper decides who gets in.
type gatekeeper struct {
	control  *control.Control // nil: there is no access control
	provider *openid.Provider // that people sign in at; nil: none
	secrets  gateway.Secrets
	notes    access.Notes // of the audit; nil: there is none
	open     []string     // the addresses that other machines reach although there is none
	close    func()
}

// openControl opens access control, if it is on, on stores that are open.
func (o *options) openControl(state *state, store *confstore.Store, certs certificates, log zerolog.Logger) (gatekeeper, error) {
	var notes access.Notes
	if state.models.Audit().On() {
		notes = state.models.Audit().Note
	}
	if !o.access.on {
		return gatekeeper{notes: notes, secrets: state.models.Secret(), open: o.reachable(), close: func() {}}, nil
	}
	places, err := o.access.parsed()
	if err != nil {
		return gatekeeper{}, err
	}
	tokens := state.models.Tokens()
	if err := ensureAdministrator(tokens, o.data, log); err != nil {
		return gatekeeper{}, err
	}
	provider, err := o.access.signIn.open(log)
	if err != nil {
		return gatekeeper{}, err
	}
	quotas := quota.New(clock.Real())
	quotas.MeasureBy(state.store.Quotas())
	state.store.Quotas().Obey(quotas)
	cfg := control.Config{Roles: store, Tokens: tokens, Store: state.models.Store(), Leases: state.store, Places: places, Administrators: o.access.administrators, RefusalDelay: o.access.refusalDelay, Quotas: quotas, Log: log}
	if certs.files != nil {
		cfg.Revoked = certs.files.Revoked
	}
	c := control.Open(cfg)
	if certs.files != nil {
		certs.files.Follow(c.Renew)
	}
	tokens.Obey(c)
	tokens.Count(quotas)
	state.models.Secret().Guard()
	return gatekeeper{control: c, notes: notes, provider: provider, secrets: state.models.Secret(), close: func() {
		c.Close()
		if provider != nil {
			provider.Close()
		}
	}}, nil
}

// tokenFile is the file in --data with the first administrator's token.
const tokenFile = "administrator.token"

// ensureAdministrator makes a token for an administrator if there is none, for otherwise nobody
// could make one: those whom the settings name need a provider or certificates that work. Whoever
// reads the data directory has everything in any case.
func ensureAdministrator(tokens *auth.Tokens, data string, log zerolog.Logger) error {
	ctx := context.Background()
	for q := (auth.ListAsk{}); ; {
		page, err := tokens.List(ctx, nil, &q)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(page.Tokens, func(t auth.Token) bool { return slices.Contains(t.Groups, policy.Administrators) }) {
			return nil
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	made, err := tokens.Make(ctx, &access.Actor{Origin: access.Server}, &auth.MakeAsk{Name: "administrator", Groups: []string{policy.Administrators}})
	if err != nil {
		return err
	}
	root, err := atomicfile.OS().OpenRoot(data)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := atomicfile.Write(root, tokenFile, []byte(made.Text+"\n"), atomicfile.Attr{Perm: 0o600}); err != nil {
		return err
	}
	log.Warn().Str("file", filepath.Join(data, tokenFile)).Str("id", made.ID).
		Msg("a token for an administrator was made: make others with it, then revoke it and remove the file")
	return nil
}

// later is what the documents ask about their changes. It opens after them.
type later struct {
	control atomic.Pointer[control.Control]
	secrets atomic.Pointer[secret.Keys]
	reviews atomic.Pointer[review.Reviews]
}

// know has the documents obey from now on; c is nil without access control.
func (r *later) know(c *control.Control, models *host.Host, documents *confstore.Store) {
	r.control.Store(c)
	models.Secret().Over(documents)
	r.secrets.Store(models.Secret())
	if c == nil {
		return
	}
	reviews := models.Reviews()
	reviews.Obey(c)
	models.Tokens().Await(reviews.HoldToken)
	r.reviews.Store(reviews)
}

// ring has the keys of sealed values.
func (r *later) ring() *seal.Ring {
	if keys := r.secrets.Load(); keys != nil {
		return keys.Ring()
	}
	return nil
}

// Marked implements confstore.Approval.
func (r *later) Marked(name string) bool {
	reviews := r.reviews.Load()
	return reviews != nil && reviews.Marked(name)
}

// Hold implements confstore.Approval. Nothing is marked before there is somebody to hold it.
func (r *later) Hold(h *change.Held) error { return r.reviews.Load().Hold(h) }

func (r *later) check(name string, before, contents []byte, by *access.Actor) error {
	return r.control.Load().Check(name, before, contents, by)
}

func (r *later) lessens(name string, before, contents []byte) bool {
	return r.control.Load().Lessens(name, before, contents)
}

func (r *later) mayChange(name string, deletes bool, by *access.Actor) error {
	return r.control.Load().MayChange(name, deletes, by)
}

// reachable are the addresses that other machines reach.
func (o *options) reachable() (list []string) {
	for _, address := range []string{o.listen, o.http.listen, o.tls.listen, o.http.tls} {
		if address == "" {
			continue // it is off
		}
		if open, _ := openAddress(address); open {
			list = append(list, address)
		}
	}
	return list
}

// warn tells of addresses and files that are less safe than they could be.
func (o *options) warn(log zerolog.Logger) {
	for setting, path := range map[string]string{"tls-key": o.tls.files.Key, "oidc-client-secret-file": o.access.signIn.secretFile} {
		if path != "" && othersRead(path) {
			log.Warn().Str("file", path).Str("setting", setting).Msg("everyone on this machine can read the file, and so stand in for this server: chmod 600 it")
		}
	}
	for _, address := range o.reachable() {
		secure := address == o.tls.listen || address == o.http.tls
		if o.access.on && secure {
			continue
		}
		line := log.Warn().Str("address", address)
		switch {
		case o.access.on:
			line.Msg("there is no TLS at this address: anyone on the way can read tokens and everything else, and use them (--tls-listen, --http-tls)")
		case secure && o.tls.files.ClientCA != "":
			line.Msg("OPEN ACCESS: everyone with a certificate of --tls-client-ca may read and write every configuration; there are no permissions (--allow-open)")
		default:
			line.Msg("OPEN ACCESS: anyone who reaches this address may read and write every configuration; there is no authentication (--allow-open)")
		}
	}
	if open, _ := openAddress(o.http.listen); open && len(o.http.hosts) == 0 {
		log.Warn().Str("address", o.http.listen).Msg("HTTP is reachable by IP address only: requests to a host name are refused unless --http-host lists it")
	}
}
