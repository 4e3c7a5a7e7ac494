// Package guardtest makes callers with rights for the tests of the edges.
package guardtest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	"confcenter/access/guard"
	"confcenter/access/policy"
	"confcenter/access/secret"
)

// Caller is token:a, who may do what rules say: "read kv:a/*" allows to read, and "-read kv:a/b" denies it.
func Caller(t require.TestingT, rules ...string) *guard.Caller {
	list := make([]string, len(rules))
	for i, rule := range rules {
		effect := "allow"
		if denied, ok := strings.CutPrefix(rule, "-"); ok {
			effect, rule = "deny", denied
		}
		verb, what, _ := strings.Cut(rule, " ")
		list[i] = fmt.Sprintf(`{"who": ["token:a"], %q: [%q], "what": [%q]}`, effect, verb, what)
	}
	role, err := policy.ParseRole("test", []byte(`{"rules": [`+strings.Join(list, ",")+`]}`))
	require.NoError(t, err)
	who := &access.Identity{Name: "token:a"}
	return &guard.Caller{Permits: policy.New(role).Of(who), Who: who}
}

// Ring has one key, by which values of tests are sealed.
func Ring() *secret.Ring {
	k := secret.Key{ID: "k", Made: 1}
	copy(k.Key[:], "a key of tests")
	return secret.NewRing([]secret.Key{k})
}

// Sealed is JSON with the values sealed that ask for it, as in a place called origin.
func Sealed(t require.TestingT, origin, text string) string {
	sealed, err := Ring().Seal(origin, []byte(text))
	require.NoError(t, err)
	return string(sealed)
}
