package guard

import (
	"strings"

	"confcenter/access/policy"
	"confcenter/access/secret"
	"confcenter/kv"
	"confcenter/meta"
	"confcenter/op"
)

// Needs refuses the first of things that the caller may not do.
func (c *Caller) Needs(things ...op.Thing) error {
	if c == nil {
		return nil
	}
	for i := range things {
		if err := c.may(&things[i]); err != nil {
			return err
		}
	}
	return nil
}

// Sees reports whether the caller may do a thing: what they may not is left out of an answer, as if it were
// not there.
func (c *Caller) Sees(t op.Thing) bool { return c == nil || c.may(&t) == nil }

func (c *Caller) may(t *op.Thing) error {
	switch {
	case t.Parts() == 0 && t.Class == policy.KV:
		return c.administers(t.Do, "*") // tokens are among all keys
	case t.Parts() == 0 && t.Extent == op.Any:
		return c.covers(t.Do, t.Class) // the documents that are no roles
	case t.Parts() == 0:
		return c.whole(t.Do, t.Class)
	case t.Class == policy.KV && t.Do == policy.Lease && t.Extent == op.Any:
		return c.leases()
	case t.Class == policy.KV && t.Extent == op.Any:
		return c.some(t)
	case t.Class == policy.KV:
		return c.keys(t)
	case t.Class == policy.Config && t.Extent == op.Every:
		return c.documents(t.Do, t.Part(0))
	case t.Class == policy.Config:
		return c.document(t.Do, t.Part(0))
	}
	return c.named(t)
}

// named needs a thing by its name alone.
func (c *Caller) named(t *op.Thing) error {
	var room [longName]byte
	name := t.AppendName(room[:0])
	switch {
	case t.Extent == op.One && c.Permits.May(t.Do, t.Class, name):
	case t.Extent == op.Every && c.Permits.Covers(t.Do, t.Class, string(name)):
	default:
		return forbidden(t.Do, t.Class, shown(t))
	}
	return nil
}

// keys needs a key, or all that begin so. Those of the server's own namespaces are their owner's.
func (c *Caller) keys(t *op.Thing) error {
	if ns := t.Part(0); len(ns) > 0 && ns[0] == '@' && kv.Guarded(ns) != "" {
		return c.owned(t.Do, ns, t.Part(1), t.Extent == op.One)
	}
	return c.named(t)
}

// document needs v with a document.
func (c *Caller) document(v policy.Verb, name string) error {
	var room [longName]byte
	complete := meta.AppendComplete(room[:0], name)
	switch {
	case policy.IsRole(complete):
		return c.whole(ofRoles(v), policy.Roles)
	case c.Permits.May(v, policy.Config, complete):
		return nil
	}
	return forbidden(v, policy.Config, string(complete))
}

// shown is the name of a thing as people are told.
func shown(t *op.Thing) string {
	name := t.Part(0)
	for i := 1; i < t.Parts(); i++ {
		if t.Class == policy.Storage && i == 2 && t.Part(2) == "" { // owners of any type
			continue
		}
		name += "/" + t.Part(i)
	}
	switch {
	case t.Extent == op.One:
		return name
	case t.Class == policy.Storage && t.Parts() == 3:
		return name + "/*"
	}
	return name + "*"
}

// Reveals reports whether the caller may know a value that was sealed there: config:NAME or
// kv:NAMESPACE/KEY. It is a
// right to where a value comes from, wherever it is read.
func (c *Caller) Reveals(origin string) bool {
	if c == nil {
		return true
	}
	if name, ok := strings.CutPrefix(origin, secret.OfDocument); ok {
		return c.Sees(op.Document(policy.Reveal, name))
	}
	ns, key, ok := secret.KeyOf(origin)
	return ok && c.Sees(op.Key(policy.Reveal, ns, key))
}
