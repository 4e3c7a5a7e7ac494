package guard

import (
	"strings"

	"confcenter/access/policy"
	"confcenter/kv"
)

// flowIndex is the namespace of what concerns all scopes, see [confcenter/state/flow].
const flowIndex = kv.FlowPrefix + ".index"

// scopeOf is the scope whose namespace that is; ok is false if it is none's alone.
func scopeOf(ns string) (scope string, ok bool) {
	scope, ok = strings.CutPrefix(ns, kv.FlowPrefix)
	return scope, ok && !strings.HasPrefix(scope, ".")
}

// Scope needs v with a scope of cluster state.
func (c *Caller) Scope(v policy.Verb, scope string) error {
	if c.may(v, policy.Flow, scope) {
		return nil
	}
	return forbidden(v, policy.Flow, scope)
}

// Client reports whether the caller may do v with a connected program, by the name that it gave. A
// program that is hidden is answered like one that does not exist, so there
// is no refusal that names it.
func (c *Caller) Client(v policy.Verb, name string) bool { return c.may(v, policy.Clients, name) }

// may decides in a class whose names have one part.
func (c *Caller) may(v policy.Verb, class policy.Class, name string) bool {
	if c == nil {
		return true
	}
	c.name = append(c.name[:0], name...)
	return c.Permits.May(v, class, c.name)
}
