package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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

// Whoever may write roles has them compared where all changes of documents wait their turn.
func TestLargeRolesAreComparedQuickly(t *testing.T) {
	p := New(role(t, `{"rules": [{"who": ["token:lead"], "allow": ["grant"], "what": ["roles"]}]}`)).Of(&access.Identity{Name: "token:lead"})
	large := func(rules, names int, of func(i, j int) string, format, last string) *Role {
		var b strings.Builder
		for i := range rules {
			what := make([]string, names)
			for j := range names {
				what[j] = `"` + of(i, j) + `"`
			}
			fmt.Fprintf(&b, format+",", strings.Join(what, ","))
		}
		return role(t, `{"`+strings.Replace(last, "%s", strings.TrimSuffix(b.String(), ","), 1)+`}`)
	}
	const denies, limits = `{"who":["token:a"],"deny":["read"],"what":[%s]}`, `{"what":[%s],"keys":5}`
	same := func(_, j int) string { return fmt.Sprintf("kv:%d", j) }
	other := func(i, j int) string { return fmt.Sprintf("kv:%d", (i+j)%(j+1000)) }
	quick := func(what string, compare func()) {
		t.Helper()
		start := time.Now()
		compare()
		require.Less(t, time.Since(start), 3*time.Second, what)
	}
	for _, c := range []struct{ rules, names int }{{95, 500}, {1000, 45}, {8000, 5}} {
		for _, of := range []func(i, j int) string{same, other} {
			old := large(c.rules, c.names, of, denies, `rules": [%s]`)
			next := large(c.rules, c.names, of, denies, `rules": [{"who":["token:b"],"deny":["read"],"what":["kv:x"]},%s]`)
			changed := large(c.rules, c.names, func(i, j int) string {
				if j == c.names-1 {
					return "kv:else"
				}
				return of(i, j)
			}, denies, `rules": [%s]`)
			quick("lifts", func() {
				_, _, lifts := old.Lifts(next, p)
				require.False(t, lifts)
				_, _, lifts = old.Lifts(changed, p)
				require.True(t, lifts)
			})
		}
	}
	for _, of := range []func(i, j int) string{same, other} {
		old, next := large(450, 100, of, limits, `quotas": [%s]`), large(450, 100, of, limits, `quotas": [%s]`)
		quick("loosens", func() {
			_, loosens := old.Loosens(next)
			require.False(t, loosens)
		})
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
