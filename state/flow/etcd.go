package flow

import (
	"cmp"
	"encoding/base64"

	"confcenter/internal/jsontext"
	"confcenter/kv"
)

// Etcd is an entry of a scope in the form in which cloudflow keeps it in etcd: the key with the
// scope before it, and the value as indented JSON in base64.
func Etcd(scope string, e *kv.Entry) (key, value string) {
	indented := jsontext.AppendIndent(nil, toJSON(e.Value), "  ")
	return cmp.Or(scope, DefaultScope) + "." + e.Key, base64.StdEncoding.EncodeToString(indented)
}
