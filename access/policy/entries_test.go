package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/access"
	. "confcenter/access/policy"
	"confcenter/codes"
)

// A "*" is short to write and is a pattern for each class.
func TestARoleHasNoMoreEntriesThanItMay(t *testing.T) {
	rules := func(n int, who, what string) string {
		return `{"rules": [` + strings.TrimSuffix(strings.Repeat(`{"who":[`+who+`],"deny":["read"],"what":[`+what+`]},`, n), ",") + `]}`
	}
	for text, entries := range map[string]int{
		rules(10_000, `"token:a"`, `"config:a","kv:b"`):                                                    30_000,
		rules(10, `"token:a","token:b"`, strings.Repeat(`"*",`, 9)+`"*"`):                                  10 * (2 + 13), // what stands twice says nothing more
		`{"approval": ["*","*","kv"], "quotas": [{"who":["*","*"],"watches":1},{"what":["kv"],"keys":1}]}`: 4 + 2 + 1,
	} {
		require.Equal(t, entries, role(t, text).Entries(), "%.80s", text)
	}
	for _, text := range []string{
		rules(10_000, `"token:a"`, `"*"`),
		rules(200, strings.Repeat(`"token:a",`, 500)+`"*"`, `"config"`),
		`{"quotas": [` + strings.TrimSuffix(strings.Repeat(`{"watches":1,"who":[`+strings.Repeat(`"*",`, 99)+`"*"]},`, 999), ",") + `], ` + rules(200, `"*"`, `"kv"`)[1:],
	} {
		_, err := ParseRole("big", []byte(text))
		require.Equal(t, codes.TooLarge, codes.Of(err), "%.80s", text)
		require.ErrorContains(t, err, "the role big")
		require.ErrorContains(t, err, fmt.Sprintf("more than %d entries", MaxEntries))
	}
}

// patterns are n names of the rule i, as a list in JSON without its brackets.
func patterns(n, i int, of func(i, j int) string) string {
	list := make([]string, n)
	for j := range list {
		list[j] = `"` + of(i, j) + `"`
	}
	return strings.Join(list, ",")
}

// largeRoles are two roles with about as many entries as there may be, of rules with so many names each,
// which deny the same, next behind a rule about someone else; and one that denies less.
func largeRoles(t testing.TB, names int, of func(i, j int) string) (old, next, less *Role) {
	rules := func(first string, of func(i, j int) string) *Role {
		var b strings.Builder
		for i := range MaxEntries/(names+1) - 1 {
			fmt.Fprintf(&b, `,{"who":["token:a"],"deny":["read"],"what":[%s]}`, patterns(names, i, of))
		}
		return role(t, `{"rules": [`+first+b.String()[1:]+`]}`)
	}
	other := func(i, j int) string {
		if j == names-1 {
			return "kv:else"
		}
		return of(i, j)
	}
	return rules("", of), rules(`{"who":["token:b"],"deny":["read"],"what":["kv:x"]},`, of), rules("", other)
}

// samples are what rules are about: all about the same, or each about something else.
var samples = map[string]func(i, j int) string{
	"same":  func(_, j int) string { return fmt.Sprintf("kv:%d", j) },
	"other": func(i, j int) string { return fmt.Sprintf("kv:%d", (i+j)%(j+1000)) },
}

func lead(t testing.TB) *Permits {
	return New(role(t, `{"rules": [{"who": ["token:lead"], "allow": ["grant"], "what": ["roles"]}]}`)).Of(&access.Identity{Name: "token:lead"})
}

// An actor that may write roles has them compared where all changes of documents wait their turn.
func BenchmarkLargeRolesAreCompared(b *testing.B) {
	for kind, of := range samples {
		for _, names := range []int{5, 45, 500} {
			old, next, _ := largeRoles(b, names, of)
			permits := lead(b)
			b.Run(fmt.Sprintf("%s/names=%d", kind, names), func(b *testing.B) {
				for b.Loop() {
					old.Lifts(next, permits)
				}
			})
		}
	}
}

// What is compared by an index is what is compared one by one.
func TestAWiderRuleDeniesAllThatANarrowerOneDid(t *testing.T) {
	p := New().Of(&access.Identity{Name: "token:lead"})
	const old = `{"rules": [{"who": ["token:a", "token:b"], "deny": ["read", "write"], "what": ["kv:a", "kv:b*"]}]}`
	filler := strings.Repeat(`{"who": ["token:a", "token:b"], "deny": ["read"], "what": ["kv:a", "kv:b*"]},`, 200)
	for next, lifts := range map[string]bool{
		`{"who": ["token:b", "token:a", "*"], "deny": ["*"], "what": ["kv:b*", "kv:c", "kv:a"]}`:           false,
		`{"who": ["token:b", "token:a"], "deny": ["write"], "what": ["kv:b*", "kv:a"]}`:                    true,
		`{"who": ["token:b"], "deny": ["*"], "what": ["kv:b*", "kv:a"]}`:                                   true,
		`{"who": ["token:b", "token:a"], "deny": ["*"], "what": ["kv:b", "kv:a"]}`:                         true,
		`{"who": ["group:a", "group:b", "token:b"], "deny": ["*"], "what": ["kv:b*", "kv:a"]}`:             true,
		`{"who": ["token:a", "token:b"], "allow": ["write"], "deny": ["read"], "what": ["kv:b*", "kv:a"]}`: true,
	} {
		for _, more := range []string{"", filler} {
			_, _, got := role(t, old).Lifts(role(t, `{"rules": [`+more+next+`]}`), p)
			require.Equal(t, lifts, got, next)
		}
	}
}
