package guard

import (
	"strings"

	"confcenter/kv"
)

// flowIndex is the namespace of what concerns all scopes, see [confcenter/models/flow].
const flowIndex = kv.FlowPrefix + ".index"

// scopeOf is the scope whose namespace that is; ok is false if it is none's alone.
func scopeOf(ns string) (scope string, ok bool) {
	scope, ok = strings.CutPrefix(ns, kv.FlowPrefix)
	return scope, ok && !strings.HasPrefix(scope, ".")
}
