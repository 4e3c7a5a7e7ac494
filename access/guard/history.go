package guard

import (
	"cmp"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
)

// Past needs what the versions of a document tell.
func (c *Caller) Past(name string) error {
	for _, v := range [...]policy.Verb{policy.History, policy.Read} {
		if err := c.Document(v, name); err != nil {
			return err
		}
	}
	return nil
}

// Recalls reports whether the versions of a document may be told of.
func (c *Caller) Recalls(name string) bool { return c.Past(name) == nil }

// RecallsAll reports whether the versions of every document may be told of.
func (c *Caller) RecallsAll() bool {
	return c.Whole(policy.History, policy.Config) == nil && c.Whole(policy.Read, policy.Config) == nil
}

// List needs what a page of keys tells. Of what is known of documents a page has what the caller may
// know, and there has to be something: see [Caller.Page].
func (c *Caller) List(l *kv.List) error {
	err := c.Keys(policy.Read, l.NS, l.Prefix)
	if err != nil && l.NS == kv.ConfigNamespace {
		for _, class := range [...]policy.Class{policy.Config, policy.Roles} {
			if c.Permits.Some(policy.History, class) && c.Permits.Some(policy.Read, class) {
				return nil
			}
		}
	}
	return err
}

// Page is a page of a list that List has let through, or the number of its keys. What is known of
// documents that the caller may not know is neither in it nor counted.
func (c *Caller) Page(view kv.View, l kv.List) (kv.Page, error) {
	if l.NS != kv.ConfigNamespace || c.Keys(policy.Read, l.NS, l.Prefix) == nil {
		return view.List(l)
	}
	limit, most, count := cmp.Or(min(l.Limit, kv.MaxList), kv.MaxList), cmp.Or(l.MaxBytes, kv.MaxPage), l.CountOnly
	if l.Limit, l.CountOnly = kv.MaxList, false; count {
		l.After = ""
	}
	told := kv.Page{Revision: view.Revision()}
	for bytes, more := 0, true; more; {
		page, err := view.List(l)
		if err != nil {
			return kv.Page{}, err
		}
		more = page.More
		for _, e := range page.Entries {
			l.After = e.Key
			switch {
			case c.Key(policy.Read, []byte(e.NS), []byte(e.Key)) != nil:
				continue
			case count:
				told.Count++
				continue
			case len(told.Entries) == limit || bytes >= most:
				told.More = true
				return told, nil
			}
			told.Entries, told.Count, bytes = append(told.Entries, e), told.Count+1, bytes+e.Size()
		}
	}
	return told, nil
}

// Bases needs to read each document that another one inherits from. The refusal names none of
// them, since their names are told only to those who may read them.
func (c *Caller) Bases(name string, bases []string) error {
	for _, base := range bases {
		if !c.Names(base) {
			return codes.Errorf(codes.Forbidden, "you may not read all that %.200q inherits from; ask an administrator for a role that allows it", name)
		}
	}
	return nil
}

// EveryDocument needs to change, delete and look back on all documents but roles, which are left
// alone by what is done to all documents at once: see [LeftAlone].
func (c *Caller) EveryDocument() error {
	if c == nil {
		return nil
	}
	for _, v := range [...]policy.Verb{policy.Read, policy.Write, policy.Delete, policy.History} {
		if !c.Permits.Covers(v, policy.Config, "") {
			return forbidden(v, policy.Config, "")
		}
	}
	return nil
}

// LeftAlone reports whether a document is left as it is by what is done to all at once: roles are
// changed only by name.
func LeftAlone(name string) bool { return isRole(name) }

// isRole reports whether a document is a role. On some file systems another spelling is the same
// file.
func isRole[T string | []byte](name T) bool {
	return len(name) >= len(policy.RolePrefix) && name[0] == policy.RolePrefix[0] && strings.EqualFold(string(name[:len(policy.RolePrefix)]), policy.RolePrefix)
}
