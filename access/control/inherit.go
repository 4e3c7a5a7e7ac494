package control

import (
	"slices"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/meta"
)

// checkBases refuses to make a document a base of another one, whose readers see its contents, and
// to take away what hides parts of them, to a caller that may not have it inherited and read it. before and contents are
// the texts of [meta.FileName], nil if there is none.
func (c *Control) checkBases(before, contents []byte, by *access.Actor) error {
	was, is := rulesOf(before), rulesOf(contents)
	caller := guard.Caller{Permits: c.Of(by.Identity), Who: by.Identity}
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
				if err := caller.Document(verb, base); err != nil {
					return err
				}
			}
		}
	}
	return nil
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
