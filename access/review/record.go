package review

import (
	"cmp"
	"encoding/json" // our own records, which no peer has written
	"fmt"
	"strconv"
	"strings"
	"time"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kv/embedded"
)

// The keys of the namespace. Numbers have as many digits that their order is that of the keys.
const (
	lastKey      = "last"    // the highest number that was given
	changePrefix = "change/" // NUMBER: a record
	thingsPrefix = "things/" // NUMBER: what the change is about, []Thing
	bodyPrefix   = "body/"   // NUMBER/PART: a part of what is to be done, a body; gone when it is decided
)

const (
	partBytes  = 512 << 10
	mostThings = 512 << 10 // bytes of their JSON
)

func keyOf(prefix string, number int64) string { return fmt.Sprintf("%s%016d", prefix, number) }

func partOf(number int64, part int) string {
	return fmt.Sprintf("%s/%03d", keyOf(bodyPrefix, number), part)
}

// Status is what has become of a change.
type Status string

// The states of a change, in JSON as they are here.
const (
	Pending   Status = "pending"
	Approving Status = "approving" // it has been approved, and is being made
	Approved  Status = "approved"  // and made
	Rejected  Status = "rejected"
	Withdrawn Status = "withdrawn" // by its author
)

func (s Status) decided() bool { return s == Approved || s == Rejected || s == Withdrawn }

// record is what is kept of a change besides what is to be done.
type record struct {
	Number   int64  `json:"number"`
	State    Status `json:"state"`
	By       actor  `json:"by"`
	Made     int64  `json:"made"`    // ms since 1970
	Expires  int64  `json:"expires"` // ms since 1970
	Bytes    int64  `json:"bytes"`
	Parts    int    `json:"parts"`
	Count    int64  `json:"count"`           // of things
	Token    string `json:"token,omitempty"` // by which documents are changed only once
	Decider  *actor `json:"decider,omitempty"`
	Decided  int64  `json:"decided,omitempty"` // ms since 1970
	Revision int64  `json:"revision,omitempty"`

	ends int64       // Expires by the monotonic clock
	mod  kv.Revision // that wrote it
}

// actor is an access.Actor as it is kept.
type actor struct {
	Identity access.Identity `json:"identity"`
	Name     string          `json:"name,omitempty"`
	Author   string          `json:"author,omitempty"`
	Origin   string          `json:"origin,omitempty"`
	Address  string          `json:"address,omitempty"`
	Comment  string          `json:"comment,omitempty"`
	Source   string          `json:"source,omitempty"`
}

func actorOf(by *access.Actor) actor {
	return actor{*by.Identity, by.Name, by.Author, by.Origin, by.Address, by.Comment, by.Source}
}

// approved is the actor of a change that has been approved.
func (r *record) approved() *access.Actor {
	b := &r.By
	return &access.Actor{
		Name: b.Name, Author: b.Author, Origin: b.Origin, Address: b.Address, Comment: b.Comment, Source: b.Source,
		Identity: &b.Identity, Token: r.Token, Approver: r.Decider.Identity.Name,
	}
}

// thing is something that a change is about.
type thing struct {
	NS     string `json:"ns,omitempty"` // of a key; empty: it is a document
	Name   string `json:"name"`         // the document, or the key
	Delete bool   `json:"delete,omitempty"`
	Heir   bool   `json:"heir,omitempty"`  // it only inherits from what is changed
	Link   bool   `json:"link,omitempty"`  // a symlink from there leads to what is changed
	About  string `json:"about,omitempty"` // of a token: whose it is
}

// classOf is the class of a document, with its name in there.
func classOf(document string) (policy.Class, string) {
	if strings.HasPrefix(document, policy.RolePrefix) {
		return policy.Roles, ""
	}
	return policy.Config, document
}

// String is the thing as people are told.
func (t *thing) String() string {
	switch {
	case t.About != "":
		return t.About
	case t.NS == "":
		return "config:" + t.Name
	}
	return "kv:" + t.NS + "/" + t.Name
}

// body is what is to be done.
type body struct {
	Documents []document   `json:"documents,omitempty"`
	Txn       *transaction `json:"txn,omitempty"`
	Token     *kv.Op       `json:"token,omitempty"`
}

// document is a change.Document as it is kept.
type document struct {
	Name string `json:"name"`
	File []byte `json:"file,omitempty"` // absent: it is deleted, or kept
	Keep bool   `json:"keep,omitempty"`
	Base string `json:"base"` // hexadecimal; empty: there was none
}

// transaction is a kv.Txn as it is kept, with what its keys were.
type transaction struct {
	Fences []kv.Fence   `json:"fences,omitempty"`
	If     []kv.Compare `json:"if,omitempty"`
	Then   []kv.Op      `json:"then"`
	// Was has for each key that is written the revision that wrote it last, 0 for an absent one.
	Was []was `json:"was"`
	// Prefixes are those of which all keys are deleted: Then has them one by one.
	Prefixes []prefix `json:"prefixes,omitempty"`
}

type was struct {
	NS  string      `json:"ns"`
	Key string      `json:"key"`
	Mod kv.Revision `json:"mod"`
}

type prefix struct {
	NS   string `json:"ns"`
	Text []byte `json:"text"` // it may end in the middle of a character
}

// puts are the operations that keep a change, which fail with codes.OutOfBounds if its number or a higher one
// was given before. The record is the first.
func (r *shelf) puts(rec *record, things []thing, encoded []byte) ([]kv.Op, error) {
	list, err := json.Marshal(things)
	switch {
	case err != nil:
		return nil, err
	case len(list) > mostThings:
		return nil, codes.Errorf(codes.TooLarge, "the change needs approval, and is about %d things, which is too much to be held; nothing was changed: make several of it", len(things))
	}
	left := r.left(rec)
	ops := []kv.Op{r.put(rec), putText(keyOf(thingsPrefix, rec.Number), list, left)}
	for part := range rec.Parts {
		end := min((part+1)*partBytes, len(encoded))
		op := putText(partOf(rec.Number, part), encoded[part*partBytes:end], left)
		op.Value.Type = kv.Bytes
		ops = append(ops, op)
	}
	before := rec.Number - 1
	return append(ops,
		kv.Op{Kind: kv.OpIncr, NS: kv.ReviewNamespace, Key: lastKey, Max: &before}, // by nothing: a condition that no branch depends on
		kv.Op{Kind: kv.OpPut, NS: kv.ReviewNamespace, Key: lastKey, Value: kv.IntValue(rec.Number)}), nil
}

func putText(key string, text []byte, left time.Duration) kv.Op {
	return kv.Op{Kind: kv.OpPut, NS: kv.ReviewNamespace, Key: key, Value: kv.JSONValue(text), TTL: left}
}

func (r *shelf) put(rec *record) kv.Op {
	text, err := json.Marshal(rec)
	if err != nil {
		panic(err) // it has nothing but texts and numbers
	}
	return putText(keyOf(changePrefix, rec.Number), text, r.left(rec))
}

// left is how long a change is kept still.
func (r *shelf) left(rec *record) time.Duration {
	return time.Duration(max(1, rec.ends-r.clock.Steady().UnixMilli())) * time.Millisecond
}

// until is when a change expires, in ms since 1970, as the time of day is set now.
func (r *shelf) until(rec *record) int64 { return r.clock.Now().Add(r.left(rec)).UnixMilli() }

// tokenLeft is how long a token that is held would last if it were made now. Its time began when it was
// asked for, as that of the change did.
func (r *shelf) tokenLeft(rec *record, put *kv.Op) time.Duration {
	return time.Duration(put.Expires-rec.Expires)*time.Millisecond + r.left(rec)
}

// token is what makes a token now.
func (r *shelf) token(rec *record, b *body) (*kv.Op, error) {
	put := *b.Token
	if put.Expires == 0 {
		return &put, nil
	}
	if put.TTL, put.Expires = r.tokenLeft(rec, &put), 0; put.TTL <= 0 {
		return nil, codes.Errorf(codes.Conflict, "change %d cannot be made any more: the token would have ended by now; ask for another", rec.Number)
	}
	return &put, nil
}

// drops are the operations that remove what is to be done.
func (r *record) drops() (ops []kv.Op) {
	for part := range r.Parts {
		ops = append(ops, kv.Op{Kind: kv.OpDelete, NS: kv.ReviewNamespace, Key: partOf(r.Number, part)})
	}
	return ops
}

// shelf is where changes are kept.
type shelf struct {
	// set at open
	store embedded.Store
	clock clock.Clock
}

// record returns the record of a number; nil: there is none.
func (r *shelf) record(number int64) (*record, error) {
	e := r.store.Get(kv.ReviewNamespace, keyOf(changePrefix, number))
	if e == nil {
		return nil, nil
	}
	rec, err := recordOf(e)
	if err == nil && rec.ends <= r.clock.Steady().UnixMilli() {
		return nil, nil
	}
	return rec, err
}

// recordOf reads a record. Of keys and tokens the change is the transaction that wrote it.
func recordOf(e *kv.Entry) (*record, error) {
	rec := new(record)
	err := decode(e, rec)
	rec.ends, rec.mod = cmp.Or(e.Ends, rec.Expires), e.Mod
	if rec.State == Approved && rec.Revision == 0 {
		rec.Revision = int64(e.Mod)
	}
	return rec, err
}

func decode(e *kv.Entry, into any) error {
	if err := json.Unmarshal(e.Value.Data, into); err != nil {
		return codes.Errorf(codes.Internal, "%s in %s: %w", e.Key, e.NS, err)
	}
	return nil
}

// eachRecord calls fn for each record behind a number, until it returns false.
func (r *shelf) eachRecord(after int64, fn func(*record) bool) error {
	l := kv.List{NS: kv.ReviewNamespace, Prefix: changePrefix, After: keyOf(changePrefix, after)}
	for e, err := range embedded.Each(r.store.List, l) {
		if err != nil {
			return err
		}
		rec, err := recordOf(e)
		if err != nil {
			return err
		}
		if rec.ends > r.clock.Steady().UnixMilli() && !fn(rec) {
			break
		}
	}
	return nil
}

// readLast is the highest number that was given.
func (r *shelf) readLast() int64 {
	e := r.store.Get(kv.ReviewNamespace, lastKey)
	if e == nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(e.Value.Data), 10, 64)
	return n
}

// things are what a change is about.
func (r *shelf) things(rec *record) (list []thing, err error) {
	e := r.store.Get(kv.ReviewNamespace, keyOf(thingsPrefix, rec.Number))
	if e == nil {
		return nil, gone(rec.Number)
	}
	err = decode(e, &list)
	return list, err
}

// body is what is to be done.
func (r *shelf) body(rec *record) (*body, error) {
	var text []byte
	for part := range rec.Parts {
		e := r.store.Get(kv.ReviewNamespace, partOf(rec.Number, part))
		if e == nil {
			return nil, gone(rec.Number)
		}
		text = append(text, e.Value.Data...)
	}
	b := new(body)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, codes.Errorf(codes.Internal, "what is held as change %d: %w", rec.Number, err)
	}
	return b, nil
}

// gone is also for those who may not know that there is such a change.
func gone(number int64) error {
	return codes.Errorf(codes.NotFound, "there is no change %d to review: it has expired, or never was; list them to see which there are", number)
}
