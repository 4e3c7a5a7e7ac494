package guard

import (
	"confcenter/access/policy"
	"confcenter/kv"
	"confcenter/meta"
	"confcenter/op"
)

// All needs each of the things that a question is about. The first that is not allowed is the refusal.
func (c *Caller) All(things []op.Thing) error {
	if c == nil {
		return nil
	}
	for i := range things {
		if err := c.May(&things[i]); err != nil {
			return err
		}
	}
	return nil
}

// May needs one of the things that a question is about.
func (c *Caller) May(t *op.Thing) error {
	switch {
	case c == nil:
		return nil
	case t.Parts() == 0 && t.Class == policy.KV:
		return c.administers(t.Do, "*") // tokens are among all keys
	case t.Parts() == 0:
		return c.Whole(t.Do, t.Class)
	case t.Class == policy.KV && t.Do == policy.Lease && t.Extent == op.Any:
		return c.Leases()
	case t.Class == policy.KV && t.Extent == op.Any:
		return c.List(&kv.List{NS: t.Part(0), Prefix: t.Part(1)})
	case t.Class == policy.KV && t.Extent == op.Every:
		return c.Keys(t.Do, t.Part(0), t.Part(1))
	case t.Class == policy.KV:
		return c.key(t)
	case t.Class == policy.Config && t.Extent == op.Every:
		return c.Documents(t.Do, t.Part(0))
	case t.Class == policy.Config:
		c.name = meta.AppendComplete(c.name[:0], t.Part(0))
		return c.document(t.Do)
	case t.Extent == op.Every:
		if c.Permits.Covers(t.Do, t.Class, string(t.AppendName(nil))) {
			return nil
		}
		return forbidden(t.Do, t.Class, shown(t)+"*")
	}
	c.name = t.AppendName(c.name[:0])
	if c.Permits.May(t.Do, t.Class, c.name) {
		return nil
	}
	return forbidden(t.Do, t.Class, shown(t))
}

func (c *Caller) key(t *op.Thing) error {
	if ns := t.Part(0); len(ns) > 0 && ns[0] == '@' && kv.Guarded(ns) != "" {
		return c.owned(t.Do, ns, t.Part(1), true)
	}
	c.name = t.AppendName(c.name[:0])
	if c.Permits.May(t.Do, policy.KV, c.name) {
		return nil
	}
	return forbidden(t.Do, policy.KV, shown(t))
}

// shown is the name of a thing as people are told.
func shown(t *op.Thing) string {
	if t.Class != policy.Storage {
		name := t.Part(0)
		for i := 1; i < t.Parts(); i++ {
			name += "/" + t.Part(i)
		}
		return name
	}
	return shownOwner(t.Part(0), t.Part(1), t.Part(2)) + "/" + t.Part(3)
}
