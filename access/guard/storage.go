package guard

import (
	"confcenter/access/policy"
	"confcenter/storage/field"
)

// Owner needs v with the fields of an owner in player storage, by the four parts of its name.
func (c *Caller) Owner(v policy.Verb, app, region, logic, id []byte) error {
	if c == nil {
		return nil
	}
	c.name = policy.AppendName(c.name[:0], app, region, logic, id)
	if c.Permits.May(v, policy.Storage, c.name) {
		return nil
	}
	return forbidden(v, policy.Storage, shownOwner(string(app), string(region), string(logic))+"/"+string(id))
}

// OwnerOf is Owner with the parts of o.
func (c *Caller) OwnerOf(v policy.Verb, o field.Owner) error {
	if c == nil {
		return nil
	}
	return c.Owner(v, []byte(o.App), []byte(o.Region), []byte(o.Logic), []byte(o.ID))
}

// Owners needs what a list of owners tells, or how many they are: those of a table, and if logic
// is not "" only of that type.
func (c *Caller) Owners(app, region, logic string) error {
	if c == nil {
		return nil
	}
	parts := []string{app, region, ""}
	if logic != "" {
		parts = []string{app, region, logic, ""}
	}
	if c.Permits.Covers(policy.Read, policy.Storage, string(policy.AppendName(nil, parts...))) {
		return nil
	}
	return forbidden(policy.Read, policy.Storage, shownOwner(app, region, logic)+"/*")
}

// Fields needs what a write of fields changes and tells. An increment and a restoration tell
// values, a condition tells versions by failing, and prev what was there before.
func (c *Caller) Fields(w *field.Write) error {
	if err := c.OwnerOf(policy.Write, w.Owner); err != nil {
		return err
	}
	tells := w.Kind == field.Incr || w.Kind == field.Restore
	if tells || w.WantPrev || len(w.Expect) > 0 {
		return c.OwnerOf(policy.Read, w.Owner)
	}
	return nil
}

func shownOwner(app, region, logic string) string {
	if logic == "" {
		return app + "/" + region
	}
	return app + "/" + region + "/" + logic
}
