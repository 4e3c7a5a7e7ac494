package http

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	jsoniter "github.com/json-iterator/go"

	"confcenter/access"
	"confcenter/access/openid"
	"confcenter/access/token"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/jsontext"
)

// Limits of signing in.
const (
	maxSignIn  = 4 << 10          // bytes of a body
	maxReturn  = 1 << 10          // bytes of the place to be sent to afterwards
	signInTime = 10 * time.Minute // to come back from the provider
)

// sessionRoutes are for people at the console: who they are, signing in and out.
func (g *Gateway) sessionRoutes() []route {
	const path = "/v1/session"
	return []route{
		{method: http.MethodGet, pattern: path, name: "session", bare: true, right: access.Anyone, quiet: true, handle: g.whoIsIt},
		{method: http.MethodPost, pattern: path, name: "session.token", right: access.Anyone, body: maxSignIn, handle: g.signInByToken},
		{method: http.MethodDelete, pattern: path, name: "session.end", right: access.Anyone, handle: g.signOut},
		{method: http.MethodPost, pattern: path + "/openid", name: "session.openid", right: access.Anyone, body: maxSignIn, handle: g.beginOpenID},
		{method: http.MethodGet, pattern: openid.CallbackPath, name: "session.callback", right: access.Anyone, handle: g.finishOpenID},
	}
}

// sessionBody is who the caller is. Times are in ms since 1970.
type sessionBody struct {
	AccessControl bool     `json:"access_control"` // else everyone may do everything
	Name          string   `json:"name,omitempty"`
	Groups        []string `json:"groups,omitempty"`
	ID            string   `json:"id,omitempty"`         // of the session
	Until         int64    `json:"until_ms,omitempty"`   // when it ends unless it is used
	Expires       int64    `json:"expires_ms,omitempty"` // when it ends in any case
	SignIn        []string `json:"sign_in,omitempty"`    // how one can sign in: token, openid
	May           []string `json:"may,omitempty"`        // the rights that they have with anything at all
}

func bodyOf(s *token.Session) *sessionBody {
	return &sessionBody{AccessControl: true, Name: s.Who.Name, Groups: s.Who.Groups, ID: s.ID, Until: s.Until, Expires: s.Expires}
}

// whoIsIt tells who asks. A session that has ended is taken out of the browser.
func (g *Gateway) whoIsIt(w *reply, r *http.Request) error {
	body := &sessionBody{}
	if c := g.edge.Control; c != nil {
		if s := c.SessionOf(w.Rights); s != nil {
			body = bodyOf(s)
		} else if who := w.Rights.Identity(); who != nil {
			body.Name, body.Groups = who.Name, who.Groups
		} else if g.jar.session(r) != "" {
			g.jar.set(w, r, sessionCookie, "", "/", http.SameSiteStrictMode, 0)
		}
		body.AccessControl, body.SignIn = true, []string{"token"}
		if g.cfg.OpenID != nil {
			body.SignIn = append(body.SignIn, "openid")
		}
		if body.Name != "" {
			body.May = w.rights()
		}
	}
	return w.sendStruct(body)
}

// rights are those that the caller has with anything at all, by their names: the console shows
// what there may be something to see of. Whether a request is allowed is decided for that request.
func (w *reply) rights() (names []string) {
	for right := access.Nobody + 1; right.Known(); right++ {
		if right != access.KVEach && w.Rights.Right(right, true) == nil { // that one stands for several
			names = append(names, right.String())
		}
	}
	return names
}

// text reads a body that is an object of one text. It is empty if there is none.
func (w *reply) text(r *http.Request, name string) (string, error) {
	if err := parametersOf(r).end(); err != nil {
		return "", err
	}
	if err := w.read(r); err != nil {
		return "", err
	}
	members, kind, err := jsontext.ScanMessage(nil, w.b)
	if err != nil || kind != jsontext.Object {
		return "", codes.Errorf(codes.BadJSON, "the body is no JSON object")
	}
	for _, m := range members {
		if string(m.Key) != name || m.Kind != jsontext.String {
			return "", codes.Errorf(codes.BadRequest, "the body may have %s, a text, and nothing else", name)
		}
	}
	m, _ := jsontext.Find(members, name)
	return string(jsontext.Unquote(m.Raw)), nil
}

// signsIn refuses what is no sign-in at the console. Another page must not sign anyone in: they
// would not notice that they work in someone else's name.
func (g *Gateway) signsIn(r *http.Request) error {
	switch {
	case g.edge.Control == nil:
		return codes.Errorf(codes.NotImplemented, "this server has no access control: everyone may do everything; start it with --access-control")
	case !ownPage(r):
		return codes.Errorf(codes.Forbidden, "people sign in on the console's own page; programs give their token with each request")
	}
	return nil
}

func (g *Gateway) signInByToken(w *reply, r *http.Request) error {
	if err := g.signsIn(r); err != nil {
		return err
	}
	token, err := w.text(r, "token")
	if err != nil {
		return err
	}
	by, err := w.actor(r)
	if err != nil {
		return err
	}
	s, err := g.edge.Control.SignInToken(r.Context(), by, strings.TrimSpace(token))
	if err != nil {
		g.tarry(w, r, err)
		return err
	}
	if g.edge.Control.SessionOf(w.Rights) != nil { // it was this browser's, and would be forgotten
		_, _ = g.edge.Control.SignOut(r.Context(), by, w.Rights, false)
	}
	g.letIn(w, r, by, s)
	return w.sendStruct(bodyOf(s))
}

// letIn gives a new session to the browser.
func (g *Gateway) letIn(w *reply, r *http.Request, by *access.Actor, s *token.Session) {
	g.jar.set(w, r, sessionCookie, s.Text, "/", http.SameSiteStrictMode, 0)
	w.Audit.Note(access.Event{Kind: access.EventLogin, By: &access.Actor{Identity: s.Who, Origin: by.Origin, Address: by.Address}, Do: "sign in", What: []string{"session:" + s.ID}})
}

// signOut ends the caller's session, or all that they have.
func (g *Gateway) signOut(w *reply, r *http.Request) error {
	p := parametersOf(r)
	all := p.flag("all")
	if err := p.end(); err != nil {
		return err
	}
	if err := g.signsIn(r); err != nil {
		return err
	}
	if w.Rights.Identity() == nil {
		return codes.Errorf(codes.NotIdentified, "you are not signed in")
	}
	by, err := w.actor(r)
	if err != nil {
		return err
	}
	n, err := g.edge.Control.SignOut(r.Context(), by, w.Rights, all)
	if err != nil {
		return err
	}
	g.jar.set(w, r, sessionCookie, "", "/", http.SameSiteStrictMode, 0)
	return w.sendCount(n)
}

// attempt is a way to the provider, which its browser keeps.
type attempt struct {
	openid.Attempt
	Return string `json:"return"`
	Until  int64  `json:"until"` // in ms, by the monotonic clock
}

// attempts seals what browsers keep, so that no one can make one up. The key is new with each start:
// a person who is at the provider just then begins again.
type attempts struct {
	cipher.AEAD
	clock clock.Clock
}

func newAttempts(c clock.Clock) attempts {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has a length that is good
	}
	sealed, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // likewise
	}
	return attempts{sealed, c}
}

// seal has an attempt end some time from now.
func (a attempts) seal(one attempt) (string, error) {
	one.Until = a.clock.Steady().Add(signInTime).UnixMilli()
	text, err := jsoniter.ConfigCompatibleWithStandardLibrary.Marshal(one)
	return base64.RawURLEncoding.EncodeToString(a.Seal(nil, nil, text, nil)), err
}

// open is the zero attempt if the text is none, or too old.
func (a attempts) open(text string) (one attempt) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return attempt{}
	}
	plain, err := a.Open(nil, nil, sealed, nil)
	if err != nil || jsoniter.ConfigCompatibleWithStandardLibrary.Unmarshal(plain, &one) != nil || one.Until <= a.clock.Steady().UnixMilli() {
		return attempt{}
	}
	return one
}

// localPlace is a place in the console, or empty. No one is sent anywhere else: it becomes the
// part of the console's address behind the number sign.
func localPlace(text string) string {
	if !strings.HasPrefix(text, "#/") || len(text) > maxReturn || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return ""
	}
	return text
}

// beginOpenID says where a person has to go to sign in at the provider. The answer is a cookie as
// well, which comes back with them: no other browser can finish what this one has begun.
func (g *Gateway) beginOpenID(w *reply, r *http.Request) error {
	if err := g.signsIn(r); err != nil {
		return err
	}
	place, err := w.text(r, "return")
	if err != nil {
		return err
	}
	provider := g.cfg.OpenID
	if provider == nil {
		return codes.Errorf(codes.NotImplemented, "this server knows of no OpenID provider; start it with --oidc-issuer")
	}
	var body struct {
		Location string `json:"location"`
	}
	if external := provider.External(); !strings.EqualFold(external.Host, r.Host) {
		body.Location = external.String() + consolePath // the provider sends people there, and so must the cookie
		return w.sendStruct(&body)
	}
	to, own, err := provider.Begin(r.Context())
	if err != nil {
		return err
	}
	sealed, err := g.attempts.seal(attempt{Attempt: own, Return: localPlace(place)})
	if err != nil {
		return err
	}
	g.jar.set(w, r, attemptCookie, sealed, openid.CallbackPath, http.SameSiteLaxMode, signInTime)
	body.Location = to
	return w.sendStruct(&body)
}

// finishOpenID lets in a person who comes back from the provider, and sends them to the console,
// or there to learn why not. The request comes from another site's page, so neither it nor the one
// after it has the session's cookie; those that the console makes itself have it.
func (g *Gateway) finishOpenID(w *reply, r *http.Request) error {
	by, err := w.actor(r)
	if err != nil {
		return err
	}
	own := g.attempts.open(g.jar.find(r, attemptCookie))
	g.jar.set(w, r, attemptCookie, "", openid.CallbackPath, http.SameSiteLaxMode, 0)
	s, err := g.personOf(r.Context(), by, own, r)
	place := own.Return
	if err != nil {
		w.Refused(w.by(r), w.route.name, err)
		place = "#/signin/" + codes.Of(err).Name()
	} else {
		g.letIn(w, r, by, s)
	}
	h := w.Header()
	h["Cache-Control"] = noStore
	h.Set("Referrer-Policy", "no-referrer") // the address has a code
	h.Set("Location", "../.."+consolePath+place)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// personOf begins a session for a person who comes back from the provider.
func (g *Gateway) personOf(ctx context.Context, by *access.Actor, own attempt, r *http.Request) (*token.Session, error) {
	if g.edge.Control == nil || g.cfg.OpenID == nil {
		return nil, codes.Errorf(codes.NotImplemented, "this server knows of no OpenID provider")
	}
	person, err := g.cfg.OpenID.Finish(ctx, own.Attempt, r.URL.Query())
	if err != nil {
		return nil, err
	}
	return g.edge.Control.SignInPerson(ctx, by, person.Address, person.Groups)
}
