package quota

import (
	"net/url"
	"strings"

	"confcenter/access/policy"
	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// Namespaces are those of the state store, and quotas have names for them as rules do: a table of
// player storage is storage:APP/REGION, a scope of cluster state is flow:SCOPE, and the bench has
// one. What else the server keeps there is its own and has no quota.

// placeOf is what roles call a namespace; ok is false if it has no quota.
func placeOf(ns string) (c policy.Class, parts []string, ok bool) {
	if table, stored := strings.CutPrefix(ns, field.Prefix); stored {
		app, region, ok := field.ParseTable(table)
		return policy.Storage, []string{app, region}, ok
	}
	if scope, flows := strings.CutPrefix(ns, kv.FlowPrefix); flows {
		return policy.Flow, []string{scope}, !strings.HasPrefix(scope, ".")
	}
	if ns == kv.BenchNamespace {
		return policy.Bench, nil, true
	}
	return policy.KV, []string{ns}, kv.Guarded(ns) == ""
}

// quotaOf is the quota of a namespace.
func quotaOf(p *policy.Policy, ns string) *policy.Quota {
	c, parts, ok := placeOf(ns)
	if !ok {
		return nil
	}
	return p.QuotaOf(c, parts...)
}

// shown is a namespace as roles call it.
func shown(ns string) string {
	c, parts, ok := placeOf(ns)
	if !ok || c == policy.KV {
		return "kv:" + ns
	}
	text := c.String()
	for i, part := range parts {
		text += string(":/"[i]) + url.PathEscape(part)
	}
	return text
}

// NamespaceOf is the namespace that roles call so. codes.BadRequest: there is none.
func NamespaceOf(text string) (string, error) {
	c, parts, err := policy.ParseNamespace(text)
	if err != nil {
		return "", err
	}
	ns := kv.BenchNamespace
	switch c {
	case policy.KV:
		ns = parts[0]
	case policy.Storage:
		ns = field.Owner{App: parts[0], Region: parts[1]}.Namespace()
	case policy.Flow:
		ns = kv.FlowPrefix + parts[0]
	}
	if place, _, ok := placeOf(ns); !ok || place != c {
		return "", codes.Errorf(codes.BadRequest, "%.80q is kept by the server for itself, and has no quota", text)
	}
	return ns, nil
}
