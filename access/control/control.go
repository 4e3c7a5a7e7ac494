// Package control lets peers in. [Control.Admit] turns what a peer can prove – a token, a client
// certificate, where it comes from – into who it is, and that into what the roles allow it, a
// [guard.Caller], by whom every edge asks.
//
// Roles are the documents below [policy.RolePrefix], so that they have a history, a blame and
// a rollback, and can be edited as files. Their own texts count, not what they might inherit.
// An actor that changes one over a connection may neither grant what it lacks nor lift a prohibition
// that it is under: see [Check].
//
// A proof can end, and roles change. Edges that keep callers are told by [Control.Follow], and
// then ask each to [guard.Caller.Renew].
package control

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/confstore/snapshot"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/meta"
	"confcenter/op"
)

// Config is what a Control is made of.
type Config struct {
	Roles  *confstore.Store // where the role documents are kept
	Tokens *token.Tokens
	Store  embedded.Store // of the tokens
	Leases Leases         // of the same store
	Places []Place        // of peers that prove nothing; the first that is right counts
	Quotas *quota.Book    // put in force with the roles; nil: quotas in roles mean nothing
	// RefusalDelay is how long the refusal of a wrong token waits, and MaxDelayed how many do at a time:
	// more are refused at once. Default 0, at once, and 1000.
	RefusalDelay time.Duration
	MaxDelayed   int
	// Administrators are further names, with their kinds, of those who may do everything.
	Administrators []string
	// Revoked reports whether a certificate is revoked. After it has begun to say so of one,
	// call Renew. nil: none is.
	Revoked func(*x509.Certificate) bool
	Clock   clock.Clock // nil: the machine's
	Log     zerolog.Logger
}

// Control decides who gets in, and what they may do. Its methods may be called from any
// goroutine.
type Control struct {
	// set at open
	cfg      Config
	unfollow func()
	end      context.CancelFunc
	changed  chan struct{} // holds one if something has changed
	judge    chan struct{} // holds one if leases are to be judged anew

	wrong    refusals
	running  sync.WaitGroup
	rules    atomic.Pointer[ruling]
	reported string       // what report has logged last; tell's, once it runs
	soonest  atomic.Int64 // when the next certificate or session ends that a peer came in with, in ms; 0: none

	mu        sync.Mutex
	followers map[int]func() // guarded by mu
	next      int            // guarded by mu
}

// ruling is a policy with what is known of its permits.
type ruling struct {
	*policy.Policy
	roles  map[string]*policy.Role   // by document
	nodes  map[string]*snapshot.Node // that they were read from; others are not read again
	stale  []string                  // the documents of those that are broken on disk, so that an older text counts
	unread []string                  // the documents of those that cannot be read
	within sync.Map                  // [2]*policy.Permits → bool
}

// Open begins to follow roles and tokens. Close it before what it was made of.
func Open(cfg Config) *Control {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Administrators = slices.Clone(cfg.Administrators)
	for i, name := range cfg.Administrators {
		cfg.Administrators[i] = policy.Fold(name)
	}
	c := &Control{cfg: cfg, changed: make(chan struct{}, 1), judge: make(chan struct{}, 1), followers: map[int]func(){}}
	c.rules.Store(c.first())
	c.unfollow = cfg.Roles.Follow(func(now *snapshot.Snapshot, names []string) {
		if slices.ContainsFunc(names, isRole) {
			c.take(now)
		}
	})
	c.take(cfg.Roles.Snapshot()) // what has come between the two
	c.report()
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	c.running.Go(func() { c.followTokens(ctx) })
	c.running.Go(func() { c.tell(ctx) })
	c.running.Go(func() { c.watchLeases(ctx) })
	return c
}

// Close ends what Open began.
func (c *Control) Close() {
	c.unfollow()
	c.end()
	c.running.Wait()
}

func isRole(name string) bool { return strings.HasPrefix(name, policy.RolePrefix) }

// take puts the roles of a snapshot in force. A role that cannot be read keeps the one before.
func (c *Control) take(now *snapshot.Snapshot) {
	before := c.rules.Load()
	if before != nil && before.roles == nil && c.first() != nil { // still broken
		c.rules.Store(&ruling{Policy: before.Policy, stale: stale(now)})
		return
	}
	r := &ruling{roles: map[string]*policy.Role{}, nodes: map[string]*snapshot.Node{}, stale: stale(now)}
	for _, name := range now.Names() {
		node := now.Node(name)
		if !isRole(name) || !node.Live() {
			continue
		}
		if r.nodes[name] = node; before != nil && before.nodes[name] == node && before.roles[name] != nil {
			r.roles[name] = before.roles[name]
			continue
		}
		text, _ := node.Contents(false)
		role, err := policy.ParseRole(roleName(name), text)
		switch {
		case err == nil:
			r.roles[name] = role
		case before != nil && before.roles[name] != nil:
			r.roles[name] = before.roles[name]
			fallthrough
		default: // it was written before there was access control
			r.unread = append(r.unread, name)
			c.cfg.Log.Error().Err(err).Str("role", name).Msg("a role cannot be read")
		}
	}
	r.Policy = policy.New(slices.Collect(maps.Values(r.roles))...)
	c.rules.Store(r)
	c.cfg.Quotas.Set(r.Policy)
	c.poke()
}

// roleName is what people call the role of a document.
func roleName(document string) string {
	return strings.TrimSuffix(strings.TrimPrefix(document, policy.RolePrefix), ".json")
}

// Renew has callers renew what they may do, soon: something outside has changed.
func (c *Control) Renew() { c.poke() }

func (c *Control) poke() { clock.Nudge(c.changed) }

// again is how long a watch that has failed is left alone.
const again = 200 * time.Millisecond

// followTokens notices tokens and sessions that are ended.
func (c *Control) followTokens(ctx context.Context) {
	for ctx.Err() == nil {
		if w, err := c.cfg.Store.Watch(ctx, kv.Filter{NS: kv.AccessNamespace}, 0); err == nil {
			for err == nil {
				c.poke()
				_, err = w.Next(ctx)
			}
			w.Stop()
		}
		c.wait(ctx, again, nil)
	}
}

// wait waits for a time, for wake, or for the end.
func (c *Control) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) (woken bool) {
	timer := c.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return false
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// Callers are asked to renew a breath after a change, so that it is not often, and who has taken their
// own right away has the answer by then; and at the latest a rest after a certificate or a session
// has ended.
const (
	breath = 100 * time.Millisecond
	rest   = 500 * time.Millisecond
)

// tell tells the followers of changes, and of certificates and sessions that end.
func (c *Control) tell(ctx context.Context) {
	for set := c.setBy(); ; {
		woken := c.wait(ctx, rest, c.changed)
		if woken {
			c.wait(ctx, breath, nil)
		}
		if ctx.Err() != nil {
			return
		}
		if c.rules.Load().roles == nil {
			c.take(c.cfg.Roles.Snapshot()) // a broken role may just have been removed
		}
		c.report()
		at := c.soonest.Load()
		if now := c.setBy(); (now - set).Abs() > rest { // what was to come at a time of day comes at another
			set, woken = now, true
		}
		if !woken && (at == 0 || at > c.cfg.Clock.Now().UnixMilli()) {
			continue
		}
		c.soonest.CompareAndSwap(at, 0) // those who stay say when theirs ends
		c.mu.Lock()
		all := slices.Collect(maps.Values(c.followers))
		c.mu.Unlock()
		for _, fn := range all {
			fn()
		}
		clock.Nudge(c.judge)
	}
}

// setBy is how far the time of day has been set since the process began.
func (c *Control) setBy() time.Duration {
	return c.cfg.Clock.Now().Round(0).Sub(c.cfg.Clock.Steady().Round(0)) // without the readings that no one sets
}

// Follow calls fn whenever callers are to renew what they may do, from a goroutine that it must
// not hold up, until cancel. The nil Control calls nothing.
func (c *Control) Follow(fn func()) (cancel func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.next
	c.next++
	c.followers[n] = fn
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.followers, n)
	}
}

// Proof is what a peer has to say for itself.
type Proof struct {
	Token       string            // as it was presented; empty: none was
	Session     string            // likewise; it counts if there is no token
	Certificate *x509.Certificate // verified; nil: none
	Listener    string            // where it came in, by the name of its setting
	Address     netip.Addr        // of the peer; the zero Addr is a unix socket
}

// Admit returns what a peer may do. A proof that does not hold is refused, even if it would have
// got in without. Of several the first counts, in the order of Proof: a program that gives a token
// means it, and a person has signed in on purpose. codes.NotIdentified.
func (c *Control) Admit(p *Proof) (*guard.Caller, error) {
	pass := &pass{control: c, cert: p.Certificate}
	switch {
	case p.Token != "":
		who, id, err := c.cfg.Tokens.Verify(p.Token)
		if err != nil {
			return nil, err
		}
		pass.who, pass.token = who, id
	case p.Session != "":
		session, err := c.cfg.Tokens.VerifySession(p.Session)
		if err != nil {
			return nil, err
		}
		pass.who, pass.session = session.Who, session
	case p.Certificate != nil:
		name, err := subjectOf(p.Certificate)
		if err != nil {
			return nil, err
		}
		pass.who = &access.Identity{Name: name, Certificate: p.Certificate.Raw}
	default:
		name := c.placeOf(p)
		if name == "" {
			return nil, codes.Errorf(codes.NotIdentified, "this server has to know who you are: give a token (client.Config.Token, --token-file, CONFCENTER_TOKEN; over HTTP Authorization: Bearer)")
		}
		pass.who = &access.Identity{Name: name}
	}
	pass.who = c.known(pass.who)
	permits, ok := pass.Renew(nil)
	if !ok {
		return nil, codes.Errorf(codes.NotIdentified, "the token, session or certificate has ended or was revoked; get a new one")
	}
	return &guard.Caller{Permits: permits, Who: pass.who, Pass: pass}, nil
}

// once are the types that a subject's text has once at most: of several it would have the last, and of
// those that are no texts none.
var once = [...]string{"2.5.4.3", "2.5.4.5"} // the common name and the serial number

// subjectOf is the name of whom a certificate is about. A subject of which its text would leave out
// something is refused, or it could pass for another one. codes.NotIdentified.
func subjectOf(cert *x509.Certificate) (string, error) {
	seen := map[string]bool{}
	for i := range cert.Subject.Names {
		a := &cert.Subject.Names[i]
		kind := a.Type.String()
		_, text := a.Value.(string)
		if strings.HasPrefix(kind, "2.5.4.") && !text || seen[kind] && slices.Contains(once[:], kind) {
			return "", codes.Errorf(codes.NotIdentified, "the subject of the certificate cannot be a name, because it has %s more than once or not as a text", kind)
		}
		seen[kind] = true
	}
	name := policy.ByCert + cert.Subject.String()
	if err := policy.CheckIdentity(name); err != nil {
		return "", codes.Errorf(codes.NotIdentified, "the subject of the certificate cannot be a name: %w", err)
	}
	return name, nil
}

// Vouches reports whether the certificate that someone was proved by, some time ago, is good still: it
// has neither ended nor been revoked. It is true of who was proved by something else.
func (c *Control) Vouches(id *access.Identity) bool {
	if id.Certificate == nil {
		return true
	}
	cert, err := x509.ParseCertificate(id.Certificate)
	return err == nil && c.good(cert)
}

// good reports whether a certificate has neither ended nor been revoked.
func (c *Control) good(cert *x509.Certificate) bool {
	return cert.NotAfter.UnixMilli() > c.cfg.Clock.Now().UnixMilli() && (c.cfg.Revoked == nil || !c.cfg.Revoked(cert))
}

// pass implements [guard.Pass].
type pass struct {
	control *Control
	who     *access.Identity
	token   string            // its id; empty: it was not by a token
	session *token.Session    // nil: it was not by one
	cert    *x509.Certificate // that was shown, beside whatever counts; nil: none was
}

// Renew implements [guard.Pass].
func (p *pass) Renew(had *policy.Permits) (now *policy.Permits, ok bool) {
	c := p.control
	if p.token != "" && !c.cfg.Tokens.Valid(p.token) {
		return nil, false
	}
	if p.session != nil {
		until, ok := c.cfg.Tokens.SessionUntil(p.session.ID)
		if !ok {
			return nil, false
		}
		c.remind(until)
	}
	if p.cert != nil {
		if !c.good(p.cert) {
			return nil, false
		}
		c.remind(p.cert.NotAfter.UnixMilli())
	}
	r := c.rules.Load()
	now = r.Of(p.who)
	pair := [2]*policy.Permits{had, now}
	within, known := r.within.Load(pair)
	if !known {
		within, _ = r.within.LoadOrStore(pair, had.Within(now))
	}
	return now, within.(bool)
}

// remind has the followers told at a time, in ms, or before.
func (c *Control) remind(at int64) {
	for {
		soonest := c.soonest.Load()
		if soonest != 0 && soonest <= at {
			return
		}
		if c.soonest.CompareAndSwap(soonest, at) {
			return
		}
	}
}

// Explain says what an identity may do, and by which rules.
func (c *Control) Explain(id *access.Identity, v policy.Verb, class policy.Class, name string) policy.Decision {
	d := c.rules.Load().Explain(c.known(id), v, class, name)
	if err := c.Trouble(); err != nil {
		d.Trouble = err.Error()
	}
	return d
}

// Of is what an identity may do now.
func (c *Control) Of(id *access.Identity) *policy.Permits { return c.rules.Load().Of(c.known(id)) }

// MayOf is what an identity may do now.
func (c *Control) MayOf(id *access.Identity) op.May { return c.caller(id).May() }

func (c *Control) caller(id *access.Identity) *guard.Caller {
	return &guard.Caller{Permits: c.Of(id), Who: id}
}

// Marks are what changes only with another person's approval.
func (c *Control) Marks() *policy.Marks { return c.rules.Load().Marks() }

// Quotas counts what callers use; nil: nothing does.
func (c *Control) Quotas() *quota.Book {
	if c == nil {
		return nil
	}
	return c.cfg.Quotas
}

// known is an identity with the groups that the settings give it.
func (c *Control) known(id *access.Identity) *access.Identity {
	if !slices.Contains(c.cfg.Administrators, id.Name) {
		return id
	}
	known := *id
	known.Groups = append(slices.Clip(id.Groups), policy.Administrators)
	return &known
}

// Check refuses a role that cannot be understood, and its change by an actor that may not make it:
// contents, nil if it is removed, takes the place of before, nil if there was none. Those who can
// change files may change roles, and so may the server. In the same way it refuses to let an actor
// make documents bases of others if it may not have them inherited. Other documents are not checked.
// The nil Control, of a server without access control, refuses only what cannot be understood.
func (c *Control) Check(name string, before, contents []byte, by *access.Actor) error {
	if name == meta.FileName && c != nil && by.Proved() != nil {
		return c.checkBases(before, contents, by)
	}
	if !isRole(name) {
		return nil
	}
	var next *policy.Role
	if contents != nil {
		var err error
		if next, err = policy.ParseRole(roleName(name), contents); err != nil {
			return err
		}
	}
	if c == nil || by == nil || by.Identity == nil {
		return nil
	}
	if err := c.hasRoom(name, next); err != nil {
		return err
	}
	if c.known(by.Identity).Administrator() {
		return nil
	}
	permits := c.Of(by.Identity)
	if next != nil {
		if what, v, ok := next.Exceeds(permits); ok {
			return lacks("allows", what, v)
		}
	}
	old, _ := policy.ParseRole(roleName(name), before) // what cannot be read says nothing
	if what, v, ok := old.Lifts(next, permits); ok {
		return lacks("no longer denies", what, v)
	}
	what, ok := next.Marks(old, permits)
	if !ok && next.HasMarks() && c.Marks() == nil && !permits.May(policy.Approve, policy.Roles, nil) {
		what, ok = policy.Roles.String(), true // which the first mark of all marks as well
	}
	if ok {
		return codes.Errorf(codes.Forbidden, "the role %s marks %.200q, which you may not approve yourself; nothing was changed: ask an administrator", roleName(name), what)
	}
	if which, ok := old.Loosens(next); ok {
		return codes.Errorf(codes.Forbidden, "%s would allow more than before, or be gone; nothing was changed: only administrators loosen quotas", which)
	}
	return nil
}

// Lessens reports whether a change of a role only takes rights away, so that nothing must keep it from
// being made: contents, nil if it is removed, takes the place of before, nil if there was none. It is
// false of all that is no role, or cannot be understood, and of the nil Control.
func (c *Control) Lessens(name string, before, contents []byte) bool {
	if c == nil || !isRole(name) {
		return false
	}
	var roles [2]*policy.Role
	for i, text := range [...][]byte{before, contents} {
		if text == nil {
			continue
		}
		var err error
		if roles[i], err = policy.ParseRole(roleName(name), text); err != nil {
			return false
		}
	}
	return roles[0].Lessens(roles[1])
}

// hasRoom refuses a role that grows if all have more entries than they may. Those who write to the
// directory are trusted with the server's memory, so files count, but are not refused.
func (c *Control) hasRoom(name string, next *policy.Role) error {
	r := c.rules.Load()
	all := next.Entries()
	if all <= r.roles[name].Entries() {
		return nil
	}
	for other, role := range r.roles {
		if other != name {
			all += role.Entries()
		}
	}
	if all > policy.MaxAllEntries {
		return codes.Errorf(codes.Limit, "all roles would have %d entries in who and what, and the limit is %d; nothing was changed: name beginnings or groups in the role %s, or remove roles that no one needs", all, policy.MaxAllEntries, roleName(name))
	}
	return nil
}

func lacks(does, what string, v policy.Verb) error {
	return codes.Errorf(codes.Forbidden, "the role %s %s with %.200q, which you may not do yourself; nothing was changed: ask an administrator", does, fmt.Sprint(v), what)
}
