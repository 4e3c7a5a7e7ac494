// Package token keeps the tokens by which programs prove who they are, and the sessions of people
// at the console. A token is a text that is shown once, to its maker; only its digest is
// kept, in the namespace [kv.AccessNamespace], which only the server writes. Sessions are kept
// likewise, so that a restart of the server ends none.
//
// The [Tokens] are a model like those of cluster state: what can be asked of them is a table of
// operations, which every edge offers. Edges verify what peers present by [Tokens.Verify].
package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/access/quota"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
	"confcenter/op"
)

// Limits that cannot be configured.
const (
	maxGroups = 64  // of a token
	maxGroup  = 128 // bytes of a group's name
	maxPage   = 1000
)

// useEvery is how exactly the last use of a token is kept: writing down each would make a read
// as dear as a write.
const useEvery = time.Hour

// Config says how Tokens work. The zero value of a field is its default.
type Config struct {
	Clock     clock.Clock // the machine's
	MaxTokens int64       // 10,000
	// Names is how long names of tokens that have ended are kept from others: as long as the audit has
	// lines about them. 91 days.
	Names time.Duration
	// Waiting is how long what was asked for in a session may wait for another person's approval. 7 days.
	Waiting  time.Duration
	Sessions SessionLimits
}

// Tokens are the tokens of one server. Their methods may be called from any goroutine.
type Tokens struct {
	// set at open
	store embedded.Store
	cfg   Config
	names names
	proofs
	makings

	making sync.Mutex // held while a token or a session is made, so that those of one server need not try again

	mu   sync.Mutex
	used map[string]int64 // guarded by mu: when a token or session was last used, in ms, by its id
	seen map[string]seen  // guarded by mu: the same of sessions, as long as they last

	judge atomic.Pointer[Judge]
	hold  atomic.Pointer[Hold]
	book  atomic.Pointer[quota.Book]
}

// Judge decides what identities may do.
type Judge interface {
	Of(id *access.Identity) *policy.Permits
	Explain(id *access.Identity, v policy.Verb, c policy.Class, name string) policy.Decision
}

// Obey has tokens made and revoked only by those who have all that the token has, as j says.
// Without a judge there is no access control.
func (t *Tokens) Obey(j Judge) { t.judge.Store(&j) }

// mayHandle refuses to give or take what by has not got.
func (t *Tokens) mayHandle(by *access.Actor, whose *access.Identity) error {
	j := t.judge.Load()
	if j == nil || by == nil || by.Identity == nil {
		return nil
	}
	if !(*j).Of(whose).Within((*j).Of(by.Identity)) {
		return codes.Errorf(codes.Forbidden, "%s may do what you may not: you can neither make nor revoke such a token; ask an administrator", whose.Name)
	}
	return nil
}

// Open returns the tokens in a store, which must outlive them.
func Open(store embedded.Store, cfg Config) *Tokens {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.MaxTokens, cfg.Names = cmp.Or(cfg.MaxTokens, 10_000), cmp.Or(cfg.Names, 91*24*time.Hour)
	cfg.Waiting, cfg.Sessions = cmp.Or(cfg.Waiting, 7*24*time.Hour), cfg.Sessions.withDefaults()
	t := &Tokens{store: store, cfg: cfg, used: map[string]int64{}, seen: map[string]seen{}}
	t.names, t.proofs, t.makings = names{store, &t.cfg}, proofs{t}, makings{store}
	return t
}

// record is a token as it is kept.
type record struct {
	Name    string   `json:"name"`
	Groups  []string `json:"groups,omitempty"`
	Digest  string   `json:"digest"` // SHA-256 of the text, in hexadecimal: the text is too random to be guessed
	Made    int64    `json:"made"`   // ms since 1970
	By      string   `json:"by,omitempty"`
	Expires int64    `json:"expires,omitempty"` // ms since 1970
}

// The keys of the namespace: what is kept of a token, and when it was last used.
const (
	tokenPrefix = "token/"
	usedPrefix  = "used/"
)

// The text of a token or session: prefix, id, an underscore and the secret. The prefix lets people
// and programs that look for secrets in the wrong places recognise it.
const (
	tokenText   = "cct_"
	idBytes     = 8
	secretBytes = 32
)

func newText(prefix string) (id, text string) {
	random := make([]byte, idBytes+secretBytes)
	_, _ = rand.Read(random) // it never fails
	id = hex.EncodeToString(random[:idBytes])
	return id, prefix + id + "_" + base64.RawURLEncoding.EncodeToString(random[idBytes:])
}

// idOf is the id in a text with that prefix; empty if it is none.
func idOf(prefix, text string) string {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok || len(rest) != 2*idBytes+1+base64.RawURLEncoding.EncodedLen(secretBytes) || rest[2*idBytes] != '_' {
		return ""
	}
	return rest[:2*idBytes]
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func sameDigest(kept, text string) bool {
	return subtle.ConstantTimeCompare([]byte(kept), []byte(digest(text))) == 1
}

// errToken is the same whatever is wrong with a token.
var errToken error = codes.Errorf(codes.NotIdentified, "the token is unknown, revoked or expired; ask an administrator for a new one")

// Wrong reports whether a token or session was refused because it is no one's.
func Wrong(err error) bool { return errors.Is(err, errToken) || errors.Is(err, errSession) }

// Verify returns whose token text is, and its id. It answers from memory, without waiting, so that it
// may be called on an event loop. codes.NotIdentified: it is no one's.
func (t *Tokens) Verify(text string) (who *access.Identity, id string, err error) {
	if id = idOf(tokenText, text); id == "" {
		return nil, "", errToken
	}
	r := t.record(id)
	if r == nil || !sameDigest(r.Digest, text) {
		return nil, "", errToken
	}
	t.use(id)
	who = r.identity()
	who.Token = id
	return who, id, nil
}

// use notes that a token or session is used now.
func (t *Tokens) use(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[id] = t.cfg.Clock.Now().UnixMilli()
}

func (r *record) identity() *access.Identity {
	return &access.Identity{Name: policy.ByToken + r.Name, Groups: r.Groups}
}

// Valid reports whether the token with that id still is.
func (t *Tokens) Valid(id string) bool { return t.record(id) != nil }

// record returns what is kept of a valid token.
func (t *Tokens) record(id string) *record {
	var r record
	e := t.store.Get(kv.AccessNamespace, tokenPrefix+id)
	if e == nil || json.Unmarshal(e.Value.Data, &r) != nil || over(e, t.cfg.Clock) {
		return nil
	}
	return &r
}

// over reports whether a key's time is over, though the store may not have got to it because its disk is
// sick.
func over(e *kv.Entry, c clock.Clock) bool {
	if e.Ends != 0 {
		return e.Ends <= c.Steady().UnixMilli()
	}
	return e.Expires != 0 && e.Expires <= c.Now().UnixMilli()
}

// MakeAsk asks for a token.
type MakeAsk struct {
	Name   string   `json:"name" arg:"1" doc:"whose it is to be: roles call them token:NAME"`
	Groups []string `json:"groups,omitempty" doc:"that they belong to: roles call them group:NAME"`
	TTL    int64    `json:"ttl,omitempty" doc:"ms until it expires; left out: never"`
}

// Made is a new token.
type Made struct {
	ID      string `json:"id" doc:"by which it is listed and revoked"`
	Text    string `json:"text" doc:"the token: it is shown only here, and no one can find it out again"`
	Expires int64  `json:"expires,omitempty" doc:"when, in ms since 1970"`
	Held    int64  `json:"held,omitempty" doc:"it is of no use before another person approves of this change; absent: no one has to"`
}

// Make makes a token.
func (t *Tokens) Make(ctx context.Context, by *access.Actor, q *MakeAsk) (*Made, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	t.making.Lock()
	defer t.making.Unlock()
	return judged(func() (*Made, error) {
		unmade := t.Unmade()
		if err := t.mayMake(ctx, by, &access.Identity{Name: policy.ByToken + q.Name, Groups: q.Groups}); err != nil {
			return nil, err
		}
		there, err := count(t.store, tokenPrefix)
		if err == nil && there >= t.cfg.MaxTokens {
			err = codes.Errorf(codes.Limit, "there are %d tokens, which is the limit: revoke those that no one uses", there)
		}
		if err != nil {
			return nil, err
		}
		if err := t.names.room(by); err != nil {
			return nil, err
		}
		id, text := newText(tokenText)
		now := t.cfg.Clock.Now().UnixMilli()
		r := record{Name: q.Name, Groups: q.Groups, Digest: digest(text), Made: now, By: cmp.Or(by.Who(), by.String())}
		if q.TTL != 0 {
			r.Expires = now + q.TTL
		}
		value, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: tokenPrefix + id, Expires: r.Expires, Value: kv.Value{Type: kv.JSON, Data: value}}
		made := &Made{ID: id, Text: text, Expires: r.Expires}
		if made.Held, err = t.held(ctx, by, &put); made.Held > 0 || err != nil {
			return made, err
		}
		put.TTL, put.Expires = time.Duration(q.TTL)*time.Millisecond, 0
		txn := &kv.Txn{If: []kv.Compare{unmade}, Then: t.Ops(&put), Must: true, System: true, Actor: by, Note: noteOf("make", id, &r)}
		if _, err := t.store.Txn(ctx, txn); err != nil {
			return nil, err
		}
		return made, nil
	})
}

func (q *MakeAsk) check() error {
	if err := policy.CheckIdentity(policy.ByToken + q.Name); err != nil {
		return err
	}
	if len(q.Groups) > maxGroups {
		return codes.Errorf(codes.TooLarge, "there are %d groups, and the limit is %d", len(q.Groups), maxGroups)
	}
	for _, g := range q.Groups {
		if len(g) > maxGroup || policy.CheckName(g) != nil {
			return codes.Errorf(codes.BadRequest, "the group %.40q: give it 1 to %d bytes, of letters, digits, . _ - / : @ + and single blanks between them", g, maxGroup)
		}
	}
	if q.TTL < 0 || q.TTL > kv.MaxTTL.Milliseconds() {
		return codes.Errorf(codes.BadTTL, "ttl of %d ms is out of range: the limits are 1 and %d", q.TTL, kv.MaxTTL.Milliseconds())
	}
	return nil
}

// ListAsk asks for tokens.
type ListAsk struct {
	After string `json:"after,omitempty" doc:"the id of the last one before"`
	Limit int64  `json:"limit,omitempty" doc:"how many at most: 1,000"`
}

// Listed are tokens, by their ids.
type Listed struct {
	Tokens []Token `json:"tokens" doc:"a line for each"`
	Next   string  `json:"next,omitempty" doc:"ask again after this one; empty: there are no more"`
	Note   string  `json:"note,omitempty" doc:"why they are of no use: there is no access control; absent: there is"`
}

// Token is what is told of a token.
type Token struct {
	ID      string   `json:"id" doc:"by which it is revoked"`
	Name    string   `json:"name" doc:"whose it is"`
	Groups  []string `json:"groups,omitempty" doc:"that they belong to"`
	Made    int64    `json:"made" doc:"when, in ms since 1970"`
	By      string   `json:"by,omitempty" doc:"who made it"`
	Expires int64    `json:"expires,omitempty" doc:"when, in ms since 1970; 0: never"`
	Used    int64    `json:"used,omitempty" doc:"when it was last presented, in ms since 1970, before the server's last start to the hour; 0: never"`
}

// List lists the tokens.
func (t *Tokens) List(_ context.Context, _ *access.Actor, q *ListAsk) (*Listed, error) {
	if q.Limit < 0 || q.Limit > maxPage {
		return nil, codes.Errorf(codes.BadRequest, "limit %d is out of range: the limits are 0 and %d", q.Limit, maxPage)
	}
	l := kv.List{NS: kv.AccessNamespace, Prefix: tokenPrefix, Limit: int(cmp.Or(q.Limit, maxPage))}
	if q.After != "" {
		l.After = tokenPrefix + q.After
	}
	page, err := t.store.List(l)
	if err != nil {
		return nil, err
	}
	answer := new(Listed)
	if t.judge.Load() == nil {
		answer.Note = "this server has no access control, so tokens open nothing; start it with --access-control"
	}
	for _, e := range page.Entries {
		id := strings.TrimPrefix(e.Key, tokenPrefix)
		r := t.record(id)
		if r == nil { // it has just ended
			continue
		}
		answer.Tokens = append(answer.Tokens, Token{ID: id, Name: r.Name, Groups: r.Groups, Made: r.Made, By: r.By, Expires: r.Expires, Used: t.lastUse(id)})
	}
	if page.More {
		answer.Next = strings.TrimPrefix(page.Entries[len(page.Entries)-1].Key, tokenPrefix)
	}
	return answer, nil
}

// all are the tokens, page by page; the last may be an error instead.
func (t *Tokens) all(ctx context.Context) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		for q := (ListAsk{}); ; {
			page, err := t.List(ctx, nil, &q)
			if err != nil {
				yield(Token{}, err)
				return
			}
			for i := range page.Tokens {
				if !yield(page.Tokens[i], nil) {
					return
				}
			}
			if q.After = page.Next; q.After == "" {
				return
			}
		}
	}
}

// Identities are those who have a valid token, by [KeyOf].
func (t *Tokens) Identities(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for there, err := range t.all(ctx) {
		if err != nil {
			return nil, err
		}
		all[KeyOf(&access.Identity{Name: policy.ByToken + there.Name, Groups: there.Groups})] = true
	}
	return all, nil
}

// KeyOf is the same for two identities if these are worth the same.
func KeyOf(id *access.Identity) string {
	return id.Name + "\n" + strings.Join(slices.Sorted(slices.Values(id.Groups)), "\n")
}

// noteOf is what the audit says of a token. One that has ended has no name any more.
func noteOf(do, id string, r *record) []access.Event {
	e := access.Event{Kind: access.EventToken, Do: do, What: []string{"id:" + id}}
	if r != nil {
		e.What = []string{policy.ByToken + r.Name, "id:" + id}
	}
	return []access.Event{e}
}

// lastUse is when a token was last used, as is known here or written down, in ms; 0: never.
func (t *Tokens) lastUse(id string) int64 {
	t.mu.Lock()
	at := t.used[id]
	t.mu.Unlock()
	kept := int64(0)
	if e := t.store.Get(kv.AccessNamespace, usedPrefix+id); e != nil {
		_ = json.Unmarshal(e.Value.Data, &kept)
	}
	return max(at, kept)
}

// Run writes down from time to time when tokens and sessions were last used, until the context
// ends. After a restart sessions end earlier by as much, which is a quarter of their idle time.
func (t *Tokens) Run(ctx context.Context) error {
	for {
		if clock.Within(t.cfg.Clock, min(useEvery, t.cfg.Sessions.Idle/4), ctx.Done()) {
			return ctx.Err()
		}
		if err := t.keepUses(ctx); err != nil {
			return err
		}
	}
}

// keepUses writes down the last uses that are not written down yet, and forgets them.
func (t *Tokens) keepUses(ctx context.Context) error {
	t.mu.Lock()
	used := t.used
	t.used = map[string]int64{}
	t.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(used)) {
		key, expires := tokenPrefix+id, int64(0)
		if r := t.record(id); r != nil {
			expires = r.Expires
		} else if s := t.session(id); s != nil {
			key, expires = sessionPrefix+id, s.Expires
		} else {
			continue
		}
		put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: usedPrefix + id, Expires: expires, Value: kv.Value{Type: kv.Int, Data: strconv.AppendInt(nil, used[id], 10)}}
		there := kv.Compare{NS: kv.AccessNamespace, Key: key, Target: kv.CompareVersion, Relation: kv.Greater}
		if _, err := t.store.Txn(ctx, &kv.Txn{If: []kv.Compare{there}, Then: []kv.Op{put}, System: true}); err != nil {
			t.keepInMind(used)
			return err
		}
	}
	return nil
}

// Used implements state.User.
func (t *Tokens) Used(_ context.Context) ([]op.Used, error) {
	tokens, err1 := count(t.store, tokenPrefix)
	sessions, err2 := count(t.store, sessionPrefix)
	names, most, err3 := t.names.count()
	return []op.Used{
		{What: "tokens", N: tokens, Limit: t.cfg.MaxTokens}, {What: "sessions", N: sessions, Limit: t.cfg.Sessions.Most},
		{What: "names", N: names, Limit: most},
	}, cmp.Or(err1, err2, err3)
}

// count is how many keys have a prefix.
func count(store embedded.Store, prefix string) (int64, error) {
	page, err := store.List(kv.List{NS: kv.AccessNamespace, Prefix: prefix, CountOnly: true})
	return page.Count, err
}

// keepInMind takes back uses that could not be written down.
func (t *Tokens) keepInMind(used map[string]int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, at := range used {
		t.used[id] = max(t.used[id], at)
	}
}
