// Package guard knows what a request needs: it names each thing that a request would read or
// change, or learn something of, and asks [policy.Permits] about it. Only the edge, server/edge, asks here,
// so that there is one answer for all ways to the same data; what answers are filtered by has an [op.May].
//
// A request is judged by the names in it, before anything is looked up. So whether something
// exists makes no difference to what is refused.
package guard

import (
	"errors"
	"fmt"
	"strings"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/op"
)

// Caller is who makes a request. It does not change, so any goroutine may ask it. The nil Caller is anyone
// where there is no access control, and may do everything.
type Caller struct {
	// Permits is what the caller may do; nil: nothing.
	Permits *policy.Permits
	// Who is who it was proved to be; nil: no one in particular.
	Who *access.Identity
	// Pass is by what the caller got in; nil: it does not end.
	Pass Pass
}

// longName is the longest name that is looked for without allocating.
const longName = 256

// Pass is a proof, which can end or come to be worth something else. It is safe for use by several
// goroutines.
type Pass interface {
	// Renew returns what the pass allows now. ok is false if it has ended, or does not allow
	// all that it had.
	Renew(had *policy.Permits) (now *policy.Permits, ok bool)
}

// Renew returns the caller with what its pass allows now. ok is false if that is no longer all it might do
// before: then what depends on it must end, and the peer come again.
func (c *Caller) Renew() (now *Caller, ok bool) {
	if c == nil || c.Pass == nil {
		return c, true
	}
	permits, ok := c.Pass.Renew(c.Permits)
	if permits == c.Permits {
		return c, ok
	}
	return &Caller{Permits: permits, Who: c.Who, Pass: c.Pass}, ok
}

// Covers reports whether the caller may do now all that another one might.
func (c *Caller) Covers(other *Caller) bool {
	_, ok := c.Pass.Renew(other.Permits)
	return ok
}

// Identity is who the caller is; nil without access control.
func (c *Caller) Identity() *access.Identity {
	if c == nil {
		return nil
	}
	return c.Who
}

// forbidden is the refusal. It is the same whether or not the thing exists.
func forbidden(v policy.Verb, c policy.Class, what string) error {
	if what == "" {
		what = c.String()
	} else {
		what = c.String() + ":" + what
	}
	return &codes.Error{
		Code: codes.Forbidden,
		Text: fmt.Sprintf("you may not %s %.200q; ask an administrator for a role that allows it", v, what),
		Err:  &access.Denial{Do: v.String(), What: what},
	}
}

// May is what the caller may do.
func (c *Caller) May() op.May {
	if c == nil {
		return nil
	}
	return func(t op.Thing) error { return c.may(&t) }
}

// Right needs a right that a row of the command or route table names. With named it is enough to
// have it with something, because the request's handler asks for each name in it.
func (c *Caller) Right(right access.Right, named bool) error {
	if c == nil {
		return nil
	}
	class, v, ok := policy.Of(right)
	switch {
	case right == access.KVEach && named && !c.Permits.Some(policy.All, policy.KV):
		return forbidden(policy.Read, policy.KV, "")
	case right == access.KVEach && !named:
		return c.allOf(policy.KV)
	case right == access.KVLease && named, right == access.KVLock && named:
		return c.leases()
	case (right == access.ReviewRead || right == access.ReviewWrite) && c.Who == nil:
		return codes.Errorf(codes.Forbidden, "you may not review changes without saying who you are; give a token")
	case right == access.ClientsSend && named && c.Permits.Some(policy.Delete, policy.Clients): // a message can be to hang up
		return nil
	case right == access.StatusProfile && !c.Who.Administrator():
		return onlyAdministrators("profile", class.String(), "profile the server")
	case right == access.HistoryWrite && !c.Who.Administrator():
		return onlyAdministrators("delete", policy.Config.String(), "remove versions for good")
	case !ok, named && c.Permits.Some(v, class):
		return nil
	}
	return c.whole(v, class)
}

// allOf needs every verb with everything in a class.
func (c *Caller) allOf(class policy.Class) error {
	for v := policy.Verb(1); v <= policy.All; v <<= 1 {
		if v&class.Verbs() == 0 {
			continue
		}
		if err := c.whole(v, class); err != nil {
			return err
		}
	}
	return nil
}

// whole needs v with everything in a class. All documents include the roles.
func (c *Caller) whole(v policy.Verb, class policy.Class) error {
	err := c.covers(v, class)
	if err == nil && class == policy.Config {
		err = c.covers(ofRoles(v), policy.Roles)
	}
	return err
}

// covers is whole for documents without the roles.
func (c *Caller) covers(v policy.Verb, class policy.Class) error {
	if !c.Permits.Covers(v, class, "") {
		return forbidden(v, class, "")
	}
	return nil
}

// ofRoles is what is needed of the class of roles to do v with their documents.
func ofRoles(v policy.Verb) policy.Verb {
	if v&policy.Roles.Verbs() != 0 {
		return v
	}
	return policy.Grant
}

// documents needs v with all documents whose names begin with prefix.
func (c *Caller) documents(v policy.Verb, prefix string) error {
	switch {
	case strings.HasPrefix(prefix, policy.RolePrefix):
		return c.whole(ofRoles(v), policy.Roles)
	case !c.Permits.Covers(v, policy.Config, prefix):
		return forbidden(v, policy.Config, prefix+"*")
	case strings.HasPrefix(policy.RolePrefix, prefix):
		return c.whole(ofRoles(v), policy.Roles)
	}
	return nil
}

// owned needs v with what the owner of a guarded namespace has under a key, or with whole unset under
// all that begin so. Keys are not the owner's names, but for those of scopes and documents, so most
// need v with everything that the owner has. A right to keys is no right to what owners keep in them.
func (c *Caller) owned(v policy.Verb, ns, key string, whole bool) error {
	if ns == kv.AccessNamespace || ns == kv.ReviewNamespace { // digests of tokens are in what is held, too
		return c.administers(v, ns)
	}
	if scope, ok := scopeOf(ns); ok {
		return c.Needs(op.Scope(v, scope))
	}
	class, _ := ownerOf(ns)
	if class == policy.Config && v == policy.Read {
		if err := c.owned(policy.History, ns, key, whole); err != nil {
			return err
		}
	}
	switch name, ok := strings.CutPrefix(key, kv.DocumentPrefix); {
	case !ok || ns != kv.ConfigNamespace:
		return c.whole(v, class)
	case whole:
		return c.document(v, name)
	default:
		return c.documents(v, name)
	}
}

// administers needs to be an administrator, for what no role allows.
func (c *Caller) administers(v policy.Verb, what string) error {
	if c.Who.Administrator() {
		return nil
	}
	what = policy.KV.String() + ":" + what
	return onlyAdministrators(v.String(), what, fmt.Sprintf("%s %.200q", v, what))
}

// onlyAdministrators is the refusal of what no role allows.
func onlyAdministrators(do, what, text string) error {
	return &codes.Error{Code: codes.Forbidden, Text: "you may not " + text + "; only administrators may", Err: &access.Denial{Do: do, What: what}}
}

// ownerOf is the class of what is kept in a guarded namespace; ok is false if it is not guarded.
func ownerOf(ns string) (class policy.Class, ok bool) {
	switch kv.GuardedRoot(ns) {
	case "":
		return policy.KV, false
	case kv.LandingNamespace, kv.StorageRoot:
		return policy.Storage, true
	case kv.FlowRoot:
		return policy.Flow, true
	case kv.BenchNamespace:
		return policy.Bench, true
	case kv.AuditNamespace:
		return policy.Audit, true
	case kv.ConfigNamespace:
		return policy.Config, true
	}
	return policy.Roles, true
}

// leases needs to have a use for leases: keys that may have one, or locks. Which of them a caller may use is
// another question, see [Caller.Lease].
func (c *Caller) leases() error {
	if c.Permits.Some(policy.Lease|policy.Lock, policy.KV) || c.Permits.Some(policy.Write, policy.Flow) || c.Permits.Some(policy.Write, policy.Bench) {
		return nil
	}
	return forbidden(policy.Lease, policy.KV, "")
}

// Lease needs to be the owner of a lease, which a store has told about, or an administrator. Ids of
// leases can be guessed: one that is another's is answered like one that does not exist.
func (c *Caller) Lease(l kv.Lease, err error) error {
	switch {
	case c == nil || err != nil:
		return err
	case c.Who == nil || !c.Who.Has(l.Owner):
		return kv.NoLease(l.ID)
	}
	return nil
}

// Holds reports whether the caller may still have a lease with its keys.
func (c *Caller) Holds(h *kv.Holding) bool {
	for _, f := range h.Held {
		if !c.Sees(op.Key(policy.Lease, f.NS, f.Key)) && !c.Sees(op.Key(policy.Lock, f.NS, f.Key)) && !c.hasForModel(f.NS, f.Key) {
			return false
		}
	}
	return c.Sees(op.Leases(""))
}

// hasForModel reports whether the caller may write to a model, which gives a key a lease.
func (c *Caller) hasForModel(ns, key string) bool {
	scope, ok := scopeOf(ns)
	if ns == flowIndex { // its keys are WHAT.SCOPE and so on
		_, scope, _ = strings.Cut(key, ".")
		scope, _, _ = strings.Cut(scope, ".")
		ok = true
	}
	if ok {
		return c.Sees(op.Scope(policy.Write, scope))
	}
	class, owned := ownerOf(ns)
	return owned && c.Permits.Some(policy.Write, class)
}

// Told is what the caller may be told of an error: who holds a lock only if they may read it.
func (c *Caller) Told(err error) error {
	taken := (*kv.Taken)(nil)
	if !errors.As(err, &taken) || c.Sees(op.Key(policy.Read, taken.NS, taken.Key)) {
		return err
	}
	return &kv.Taken{NS: taken.NS, Key: taken.Key, Revision: taken.Revision}
}
