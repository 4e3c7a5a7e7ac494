package policy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	. "confcenter/access/policy"
)

// TestARoleBecomesLess says of changes of a role whether they only take away.
func TestARoleBecomesLess(t *testing.T) {
	rules := func(list ...string) string { return `{"rules": [` + strings.Join(list, ",") + `]}` }
	rule := func(effect, who, verbs, what string) string {
		quoted := func(list string) string { return `["` + strings.ReplaceAll(list, " ", `","`) + `"]` }
		return fmt.Sprintf(`{%q: %s, "who": %s, "what": %s}`, effect, quoted(verbs), quoted(who), quoted(what))
	}
	allow := func(who, verbs, what string) string { return rule("allow", who, verbs, what) }
	deny := func(who, verbs, what string) string { return rule("deny", who, verbs, what) }
	some := allow("token:a* group:g", "read write", "kv:n config:game/*")
	for name, c := range map[string]struct {
		before, after string // empty: there is none
		less          bool
	}{
		"nothing changes":                   {rules(some), rules(some), true},
		"a rule goes":                       {rules(some, allow("token:b", "*", "*")), rules(some), true},
		"the role goes":                     {rules(some), "", true},
		"a role comes":                      {"", rules(some), false},
		"a role comes that only denies":     {"", rules(deny("*", "read", "kv:n")), true},
		"a verb goes":                       {rules(some), rules(allow("token:a* group:g", "read", "kv:n config:game/*")), true},
		"a verb comes":                      {rules(some), rules(allow("token:a* group:g", "read write delete", "kv:n config:game/*")), false},
		"all verbs become some":             {rules(allow("token:a", "*", "kv:n")), rules(allow("token:a", "read", "kv:n")), true},
		"who goes":                          {rules(some), rules(allow("group:g", "read write", "kv:n config:game/*")), true},
		"who comes":                         {rules(some), rules(allow("token:a* group:g token:b", "read write", "kv:n config:game/*")), false},
		"many become one of them":           {rules(some), rules(allow("token:a1", "read", "kv:n/k")), true},
		"one becomes many":                  {rules(allow("token:a1", "read", "kv:n")), rules(allow("token:a*", "read", "kv:n")), false},
		"everyone becomes a group":          {rules(allow("*", "read", "kv:n")), rules(allow("group:g", "read", "kv:n")), true},
		"a group becomes everyone":          {rules(allow("group:g", "read", "kv:n")), rules(allow("*", "read", "kv:n")), false},
		"a group becomes one of its tokens": {rules(allow("group:g", "read", "kv:n")), rules(allow("token:a", "read", "kv:n")), false},
		"what becomes a part":               {rules(some), rules(allow("token:a* group:g", "read write", "kv:n/x* config:game/a.json")), true},
		"what becomes more":                 {rules(allow("token:a", "read", "kv:n/x*")), rules(allow("token:a", "read", "kv:n/*")), false},
		"what is another":                   {rules(allow("token:a", "read", "kv:n")), rules(allow("token:a", "read", "kv:m")), false},
		"a rule in two parts":               {rules(some), rules(allow("token:a*", "read", "kv:n"), allow("token:a*", "write", "kv:n")), true},
		"two rules as one":                  {rules(allow("token:a", "read", "kv:n"), allow("token:a", "write", "kv:n")), rules(allow("token:a", "read write", "kv:n")), true},
		"two rules as one for both":         {rules(allow("token:a", "read", "kv:n"), allow("token:b", "write", "kv:n")), rules(allow("token:a token:b", "read write", "kv:n")), false},
		"a prohibition comes":               {rules(some), rules(some, deny("token:a1", "write", "kv:n")), true},
		"a prohibition goes":                {rules(some, deny("token:a1", "write", "kv:n")), rules(some), false},
		"a prohibition goes with the role":  {rules(deny("token:a1", "write", "kv:n")), "", false},
		"a prohibition is wider":            {rules(some, deny("token:a1", "write", "kv:n")), rules(some, deny("token:a*", "*", "kv")), true},
		"a prohibition is narrower":         {rules(some, deny("token:a*", "write", "kv:n")), rules(some, deny("token:a1", "write", "kv:n")), false},
		"a denied right is allowed":         {rules(deny("*", "*", "kv")), rules(deny("*", "*", "kv"), allow("token:a", "read", "kv")), false}, // another role may change
		"something is marked":               {`{"approval":["config:a"]}`, `{"approval":["config:a","kv:n"]}`, true},
		"something is marked no more":       {`{"approval":["config:a","kv:n"]}`, `{"approval":["config:a"]}`, false},
		"a quota is smaller":                {`{"quotas":[{"who":["*"],"watches":2}]}`, `{"quotas":[{"who":["*"],"watches":1}]}`, true},
		"a quota is larger":                 {`{"quotas":[{"who":["*"],"watches":1}]}`, `{"quotas":[{"who":["*"],"watches":2}]}`, false},
		"a quota goes":                      {`{"quotas":[{"who":["*"],"watches":1}]}`, `{}`, false},
		"a quota comes":                     {`{}`, `{"quotas":[{"who":["*"],"watches":1}]}`, true},
		"about":                             {`{"about":"a"}`, `{"about":"b"}`, true},
	} {
		read := func(text string) *Role {
			if text == "" {
				return nil
			}
			return role(t, text)
		}
		require.Equal(t, c.less, read(c.before).Lessens(read(c.after)), name)
	}
}

// TestALessRoleGivesNoOneAnything: of random pairs of roles those that are said to become less allow
// no one anything that was not allowed before, whatever a third role says.
func TestALessRoleGivesNoOneAnything(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	some := func(from ...string) string { return from[random.IntN(len(from))] }
	draw := func(most int) string {
		var list []string
		for range random.IntN(most + 1) {
			list = append(list, fmt.Sprintf(`{%q: [%q, %q], "who": [%q, %q], "what": [%q, %q]}`, some("allow", "allow", "allow", "deny"), some("read", "write", "*"), some("read", "delete"),
				some("token:a", "token:ab", "group:g"), some("*", "token:a*", "group:h", "token:b"), some("kv:n", "kv:n/*", "kv:n/a*", "kv"), some("kv:n/ab", "kv:m*", "kv:n/a")))
		}
		return `{"rules": [` + strings.Join(list, ",") + `]}`
	}
	whos := []access.Identity{{Name: "token:a"}, {Name: "token:ab", Groups: []string{"g"}}, {Name: "token:b", Groups: []string{"g", "h"}}, {Name: "token:c"}, {Name: "cert:CN=c", Groups: []string{"h"}}}
	less := 0
	for range 1500 {
		before, after, third := role(t, draw(3)), role(t, draw(2)), role(t, draw(2))
		if !before.Lessens(after) {
			continue
		}
		less++
		for i := range whos {
			was, is := New(before, third).Of(&whos[i]), New(after, third).Of(&whos[i])
			require.True(t, is.Within(was), "%+v\n%+v", before, after)
			for _, name := range []string{"n\x00a", "n\x00ab", "n\x00abc", "n\x00b", "m\x00k", "o\x00k"} {
				for v := Verb(1); v <= Grant; v <<= 1 {
					require.True(t, was.May(v, KV, []byte(name)) || !is.May(v, KV, []byte(name)), "%+v\n%+v", before, after)
				}
			}
		}
	}
	require.Greater(t, less, 50)
}

// TestALargeRoleIsComparedInTime: what would take too long is not said to be less.
func TestALargeRoleIsComparedInTime(t *testing.T) {
	large := func(skip int, what string) *Role {
		var list []string
		for i := range 2_000 {
			if i != skip {
				list = append(list, fmt.Sprintf(`{"who": ["token:a%d"], "allow": ["read"], "what": ["kv:n%d%s"]}`, i, i, what))
			}
		}
		return role(t, `{"rules": [`+strings.Join(list, ",")+`]}`)
	}
	require.True(t, large(-1, "").Lessens(large(500, "")))
	require.False(t, large(500, "").Lessens(large(-1, "")))
	require.False(t, large(-1, "").Lessens(large(-1, "/x*")), "it is less, but there is too much to compare")
}
