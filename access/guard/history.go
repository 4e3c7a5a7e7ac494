package guard

import (
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/op"
)

// Recalls reports whether the versions of a document may be told of.
func (c *Caller) Recalls(name string) bool { return c.Needs(op.PastOf(nil, name)...) == nil }

// RecallsAll reports whether the versions of every document may be told of.
func (c *Caller) RecallsAll() bool {
	return c.Whole(policy.History, policy.Config) == nil && c.Whole(policy.Read, policy.Config) == nil
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
