package control

import (
	"slices"

	"confcenter/access"
	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/meta"
	"confcenter/op"
)

// checkBases refuses to make a document a base of another one, whose readers see its contents, and
// to take away what hides parts of them, to a caller that may not have it inherited and read it. before and contents are
// the texts of [meta.FileName], nil if there is none.
func (c *Control) checkBases(before, contents []byte, by *access.Actor) error {
	was, is := rulesOf(before), rulesOf(contents)
	may := c.MayOf(by.Identity)
	for _, name := range is.Names() {
		old, _ := was.Bases(name)
		if was.Deep(name) != is.Deep(name) {
			old = nil // then it shows other parts of its bases
		}
		bases, _ := is.Bases(name)
		for i, base := range bases {
			if shownBefore(base, old, bases[i+1:]) {
				continue
			}
			for _, verb := range []policy.Verb{policy.Inherit, policy.Read} { // or it could be read where it is inherited
				if err := may.Needs(op.Document(verb, base)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// MayChange refuses to change a document, or with deletes to delete it, to an actor who may not. The
// edges ask about the names in a request; this is asked about others that a file has. The nil Control
// refuses nothing.
func (c *Control) MayChange(name string, deletes bool, by *access.Actor) error {
	if c == nil || by.Proved() == nil {
		return nil
	}
	may := c.MayOf(by.Identity)
	err := may.Needs(op.Change(nil, name, deletes)...)
	if err == nil {
		return nil
	}
	other := "another name"
	if may.Names(name) {
		other = "the name " + name
	}
	return &codes.Error{Code: codes.Forbidden, Text: "a symlink gives the file " + other + " as well, by which you may not change it; nothing was changed: ask an administrator", Err: err}
}

// shownBefore reports whether base was among the old bases, and nothing that hid members of it is
// gone or weaker now; stronger are those that override it.
func shownBefore(base string, old, stronger []string) bool {
	i := slices.Index(old, base)
	return i >= 0 && !slices.ContainsFunc(old[i+1:], func(hid string) bool { return !slices.Contains(stronger, hid) })
}

// rulesOf is what a text says; that of one that cannot be read is nothing.
func rulesOf(text []byte) *meta.Meta {
	if text == nil {
		return nil
	}
	rules, _, err := meta.Parse(text)
	if err != nil {
		return nil
	}
	return rules
}
