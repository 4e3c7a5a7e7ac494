package token

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// sessionPrefix begins the keys of sessions, and sessionText their texts.
const (
	sessionPrefix = "session/"
	sessionText   = "ccs_"
)

// mostEnded is how many sessions end in one transaction, within what one may have.
const mostEnded = 50

// SessionLimits say how long sessions last, and how many there may be. The zero value of a field
// is its default.
type SessionLimits struct {
	Idle time.Duration // without a use: 2 h
	Age  time.Duration // in all: 12 h
	Most int64         // of all identities: 1,000; further ones are refused
	Each int64         // of one identity: 20; the one that was not used for longest gives way
	// Issuer is the provider whose people are let in. Sessions by another are none. Empty: there
	// is none.
	Issuer string
}

func (l SessionLimits) withDefaults() SessionLimits {
	l.Idle, l.Age = cmp.Or(l.Idle, 2*time.Hour), cmp.Or(l.Age, 12*time.Hour)
	l.Most, l.Each = cmp.Or(l.Most, 1000), cmp.Or(l.Each, 20)
	return l
}

// session is a session as it is kept.
type session struct {
	Who     string   `json:"who"`
	Groups  []string `json:"groups,omitempty"`
	Digest  string   `json:"digest"` // as that of a token
	Token   string   `json:"token,omitempty"`
	Issuer  string   `json:"issuer,omitempty"`
	Made    int64    `json:"made"`    // ms since 1970
	Expires int64    `json:"expires"` // ms since 1970
	From    string   `json:"from,omitempty"`

	ends int64 // Expires by the monotonic clock
}

// readSession returns what is kept of a session; nil if it cannot be read.
func readSession(e *kv.Entry) *session {
	s := new(session)
	if json.Unmarshal(e.Value.Data, s) != nil {
		return nil
	}
	s.ends = cmp.Or(e.Ends, s.Expires)
	return s
}

func (s *session) identity(id string) *access.Identity {
	return &access.Identity{Name: s.Who, Groups: s.Groups, Token: s.Token, Session: id, Issuer: s.Issuer}
}

// Start is what a session begins with.
type Start struct {
	Who    *access.Identity
	Token  string // the id of the token that it is made from, without which it ends; empty: none
	Person bool   // the provider vouches for them
}

// Session is one that holds.
type Session struct {
	ID   string
	Who  *access.Identity
	Text string // the secret, of a new one; it is not kept
	// Until is when it ends unless it is used, in ms since 1970.
	Until int64
	// Expires is when it ends in any case.
	Expires int64
}

// OpenSession begins a session. codes.Limit: there are as many as there may be.
func (t *Tokens) OpenSession(ctx context.Context, by *access.Actor, start Start) (*Session, error) {
	limits := t.cfg.Sessions
	now := t.cfg.Clock.Now().UnixMilli()
	id, text := newText(sessionText)
	s := session{Who: start.Who.Name, Groups: start.Who.Groups, Digest: digest(text), Token: start.Token, Made: now, Expires: now + limits.Age.Milliseconds()}
	if by != nil {
		s.From = by.Address
	}
	if start.Person {
		s.Issuer = limits.Issuer
	}
	value, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	put := kv.Op{Kind: kv.OpPut, NS: kv.AccessNamespace, Key: sessionPrefix + id, TTL: limits.Age, Value: kv.Value{Type: kv.JSON, Data: value}}
	t.making.Lock()
	defer t.making.Unlock()
	return judged(func() (*Session, error) {
		unmade := t.Unmade()
		there, err := t.sessions()
		if err != nil {
			return nil, err
		}
		gone, err := there.giveWay(s.Who, limits)
		if err != nil {
			return nil, err
		}
		if _, err := t.end(ctx, by, gone, kv.Txn{If: []kv.Compare{unmade}, Then: []kv.Op{put, putMade(id)}}, ""); err != nil {
			return nil, err
		}
		return &Session{ID: id, Who: s.identity(id), Text: text, Until: min(s.Expires, now+limits.Idle.Milliseconds()), Expires: s.Expires}, nil
	})
}

// giveWay are the sessions that end for another one of who. codes.Limit: there is no room.
func (there *keptSessions) giveWay(who string, limits SessionLimits) ([]kept, error) {
	gone, own := there.ended, []kept(nil)
	for _, k := range there.open {
		if k.Who == who {
			own = append(own, k)
		}
	}
	if int64(len(own)) >= limits.Each {
		slices.SortFunc(own, func(a, b kept) int { return cmp.Compare(a.used, b.used) })
		gone = append(gone, own[:int64(len(own))-limits.Each+1]...)
	} else if int64(len(there.open)) >= limits.Most {
		return nil, codes.Errorf(codes.Limit, "there are %d sessions, which is the limit: log out of those that no one uses, or raise it with --max-sessions", len(there.open))
	}
	return gone, nil
}

// kept is a session with its id and its last use, in ms.
type kept struct {
	session
	id   string
	used int64
}

// keptSessions are all that are written down.
type keptSessions struct{ open, ended []kept }

// sessions are those there are. There are never many more than the limit.
func (t *Tokens) sessions() (all keptSessions, err error) {
	for e, err := range embedded.Each(t.store.List, kv.List{NS: kv.AccessNamespace, Prefix: sessionPrefix, Limit: maxPage}) {
		if err != nil {
			return all, err
		}
		s := readSession(e)
		if s == nil {
			continue
		}
		k := kept{session: *s, id: strings.TrimPrefix(e.Key, sessionPrefix)}
		if _, holds := t.holds(k.id, &k.session); holds {
			k.used = max(k.Made, t.lastUse(k.id))
			all.open = append(all.open, k)
		} else {
			all.ended = append(all.ended, k)
		}
	}
	return all, nil
}

// end ends sessions, after what more does, in the first of its transactions. codes.Conflict: the conditions
// of that do not hold. The audit calls it do; empty: it is told what is done to the keys.
func (t *Tokens) end(ctx context.Context, by *access.Actor, gone []kept, more kv.Txn, do string) (at kv.Revision, err error) {
	for len(gone) > 0 || len(more.Then) > 0 {
		part := gone[:min(len(gone), mostEnded)]
		gone = gone[len(part):]
		txn := more
		more = kv.Txn{}
		txn.Must, txn.System, txn.Lessens, txn.Actor = true, true, do != "", by
		for _, k := range part {
			if do != "" {
				txn.Note = append(txn.Note, access.Event{Kind: access.EventLogout, Do: do, What: []string{k.Who, "session:" + k.id}})
			}
			for _, key := range [...]string{sessionPrefix + k.id, usedPrefix + k.id} {
				txn.Then = append(txn.Then, kv.Op{Kind: kv.OpDelete, NS: kv.AccessNamespace, Key: key})
			}
		}
		result, err := t.store.Txn(ctx, &txn)
		if err != nil {
			return 0, err
		}
		at = result.Revision
		t.forget(part)
	}
	return at, nil
}

func (t *Tokens) forget(gone []kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range gone {
		delete(t.used, k.id)
		delete(t.seen, k.id)
	}
}

// errSession is the same whatever is wrong with a session.
var errSession error = codes.Errorf(codes.NotIdentified, "the session has ended; sign in again")

// VerifySession returns the session whose text that is. It answers from memory.
// codes.NotIdentified: there is none, or it has ended.
func (t *Tokens) VerifySession(text string) (*Session, error) {
	id := idOf(sessionText, text)
	if id == "" {
		return nil, errSession
	}
	s := t.session(id)
	if s == nil || !sameDigest(s.Digest, text) {
		return nil, errSession
	}
	until, holds := t.holds(id, s)
	if !holds {
		return nil, errSession
	}
	return &Session{ID: id, Who: s.identity(id), Until: until, Expires: s.Expires}, nil
}

// UseSession puts off the end of a session that holds.
func (t *Tokens) UseSession(id string) {
	if _, ok := t.SessionUntil(id); !ok {
		return
	}
	t.use(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[id] = seen{t.cfg.Clock.Steady().UnixMilli(), max(t.seen[id].day, t.cfg.Clock.Now().UnixMilli())}
}

// seen is when a session was last used here, in ms.
type seen struct {
	steady int64 // by the monotonic clock
	day    int64 // by the time of day; what is written down that is later is of another server
}

// SessionUntil is when the session with that id ends unless it is used, in ms since 1970. ok is
// false if it has ended.
func (t *Tokens) SessionUntil(id string) (until int64, ok bool) {
	s := t.session(id)
	if s == nil {
		return 0, false
	}
	return t.holds(id, s)
}

// session is what is kept of a session, which may have ended.
func (t *Tokens) session(id string) *session {
	e := t.store.Get(kv.AccessNamespace, sessionPrefix+id)
	if e == nil {
		return nil
	}
	return readSession(e)
}

// holds reports whether a session has not ended, and until when it does not.
func (t *Tokens) holds(id string, s *session) (until int64, ok bool) {
	t.mu.Lock()
	here, known := t.seen[id]
	t.mu.Unlock()
	used := t.lastUse(id)
	if known { // else that clock began with the process, as the time of day at which uses before it were written down
		used = here.steady + max(0, used-here.day)
	}
	made := s.ends - (s.Expires - s.Made)
	left := min(s.ends, max(made, used)+t.cfg.Sessions.Idle.Milliseconds()) - t.cfg.Clock.Steady().UnixMilli()
	until = t.cfg.Clock.Now().UnixMilli() + left
	switch {
	case left <= 0, s.Token != "" && !t.Valid(s.Token), s.Issuer != "" && s.Issuer != t.cfg.Sessions.Issuer:
		return 0, false
	}
	return until, true
}

// SessionsAsk asks for sessions.
type SessionsAsk struct {
	Who   string `json:"who,omitempty" doc:"only theirs, by the name that roles have"`
	After string `json:"after,omitempty" doc:"the id of the last one before"`
	Limit int64  `json:"limit,omitempty" doc:"how many at most: 1,000"`
}

// SessionsAnswer are sessions, by their ids.
type SessionsAnswer struct {
	Sessions []OneSession `json:"sessions" doc:"a line for each"`
	Next     string       `json:"next,omitempty" doc:"ask again after this one; empty: there are no more"`
}

// OneSession is what is told of a session.
type OneSession struct {
	ID      string   `json:"id" doc:"by which it is ended"`
	Who     string   `json:"who" doc:"whose it is"`
	Groups  []string `json:"groups,omitempty" doc:"that they belonged to when they signed in"`
	Made    int64    `json:"made" doc:"when they did, in ms since 1970"`
	From    string   `json:"from,omitempty" doc:"the address that they did from"`
	Used    int64    `json:"used" doc:"when it was last used, in ms since 1970"`
	Expires int64    `json:"expires" doc:"when it ends in any case, in ms since 1970"`
	Token   string   `json:"token,omitempty" doc:"the id of the token that it was made from"`
}

// Sessions lists the sessions at the console.
func (t *Tokens) Sessions(_ context.Context, _ *access.Actor, q *SessionsAsk) (*SessionsAnswer, error) {
	if q.Limit < 0 || q.Limit > maxPage {
		return nil, codes.Errorf(codes.BadRequest, "limit %d is out of range: the limits are 0 and %d", q.Limit, maxPage)
	}
	all, err := t.sessions()
	if err != nil {
		return nil, err
	}
	answer := new(SessionsAnswer)
	for _, k := range all.open {
		if q.Who != "" && k.Who != policy.Fold(q.Who) || k.id <= q.After {
			continue
		}
		if int64(len(answer.Sessions)) == cmp.Or(q.Limit, maxPage) {
			answer.Next = answer.Sessions[len(answer.Sessions)-1].ID
			break
		}
		answer.Sessions = append(answer.Sessions, OneSession{ID: k.id, Who: k.Who, Groups: k.Groups, Made: k.Made, From: k.From, Used: k.used, Expires: k.Expires, Token: k.Token})
	}
	return answer, nil
}

// EndAsk names sessions.
type EndAsk struct {
	ID  string `json:"id,omitempty" doc:"of one session"`
	Who string `json:"who,omitempty" doc:"whose sessions, all of them, by the name that roles have"`
}

// Ended says that sessions are of no use any more.
type Ended struct {
	Count    int64 `json:"count" doc:"how many they were"`
	Revision int64 `json:"revision" doc:"of the state store, from which on they are"`
}

// End ends sessions: one, or all of one identity. codes.NotFound: there is none.
func (t *Tokens) End(ctx context.Context, by *access.Actor, q *EndAsk) (*Ended, error) {
	if (q.ID == "") == (q.Who == "") {
		return nil, codes.Errorf(codes.BadRequest, "name either one session by its id, or whose sessions are to end")
	}
	return t.endThose(ctx, by, "end", true, func(k *kept) (bool, error) {
		if q.ID != "" && k.id != q.ID || q.Who != "" && k.Who != policy.Fold(q.Who) {
			return false, nil
		}
		return true, t.mayHandle(by, k.identity(k.id))
	})
}

// EndOwnSessions ends a session of who, or with an empty id all of them: then what was asked for in them
// counts for nothing, as if others had ended them. codes.NotFound: there is none.
func (t *Tokens) EndOwnSessions(ctx context.Context, by *access.Actor, who *access.Identity, id string) (*Ended, error) {
	return t.endThose(ctx, by, "sign out", id == "", func(k *kept) (bool, error) {
		return k.Who == who.Name && (id == "" || k.id == id), nil
	})
}

// endThose ends sessions, which are of one name. disown: what was asked for in them counts for nothing.
func (t *Tokens) endThose(ctx context.Context, by *access.Actor, do string, disown bool, those func(*kept) (bool, error)) (*Ended, error) {
	t.making.Lock()
	defer t.making.Unlock()
	return judged(func() (*Ended, error) {
		all, err := t.sessions()
		if err != nil {
			return nil, err
		}
		var gone []kept
		for i := range all.open {
			switch is, err := those(&all.open[i]); {
			case err != nil:
				return nil, err
			case is:
				gone = append(gone, all.open[i])
			}
		}
		if len(gone) == 0 {
			return nil, codes.Errorf(codes.NotFound, "there is no such session; list them to find its id")
		}
		var more kv.Txn
		if disown {
			more = t.disown(gone)
		}
		at, err := t.end(ctx, by, gone, more, do)
		if err != nil {
			return nil, err
		}
		return &Ended{Count: int64(len(gone)), Revision: int64(at)}, nil
	})
}
