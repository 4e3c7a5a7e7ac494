package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	. "confcenter/access/policy"
	"confcenter/codes"
)

const fleet = `{
	"about": "what programs of the game may see",
	"rules": [
		{"name": "own files", "who": ["token:game-*"], "allow": ["read", "watch"], "what": ["config:game/*", "kv:match"]},
		{"who": ["group:ops", "person:zoe@example.org"], "allow": ["*"], "what": ["*"]},
		{"name": "no secrets", "who": ["*"], "deny": ["read"], "what": ["config:game/secret*", "kv:match/players/%2A"]}
	]
}`

func role(t require.TestingT, text string) *Role {
	r, err := ParseRole("fleet", []byte(text))
	require.NoError(t, err)
	return r
}

func TestARuleSaysWhoMayDoWhat(t *testing.T) {
	p := New(role(t, fleet))
	game := &access.Identity{Name: "token:game-1"}
	ops := &access.Identity{Name: "cert:CN=7", Groups: []string{"ops"}}
	for _, c := range []struct {
		id    *access.Identity
		verb  Verb
		class Class
		name  string
		want  bool
	}{
		{game, Read, Config, "game/a.json", true},
		{game, Write, Config, "game/a.json", false},
		{game, Read, Config, "game", false},
		{game, Read, Config, "other.json", false},
		{game, Read, Config, "game/secret.json", false},
		{game, Watch, Config, "game/secret.json", true},
		{game, Read, KV, "match/1", true},
		{game, Read, KV, "match2/1", false},
		{game, Read, KV, "match/players/%2A", false},
		{game, Read, KV, "match/players/7", true},
		{game, Lock, KV, "match/1", false},
		{&access.Identity{Name: "token:gam"}, Read, Config, "game/a.json", false},
		{&access.Identity{Name: "person:game-1"}, Read, Config, "game/a.json", false},
		{ops, Grant, Roles, "", true},
		{ops, Read, Storage, "1/2/3/4", true},
		{ops, Read, Config, "game/secret.json", false},
		{&access.Identity{Name: "person:zoe@example.org"}, Delete, KV, "a/b", true},
		{&access.Identity{Name: "person:zoe@example.org.evil"}, Delete, KV, "a/b", false},
		{&access.Identity{Name: "token:x", Groups: []string{"op"}}, Delete, KV, "a/b", false},
	} {
		name := nameOf(t, c.class, c.name)
		require.Equal(t, c.want, p.Of(c.id).May(c.verb, c.class, []byte(name)), "%s %s %s %q", c.id.Name, c.verb, c.class, c.name)
		require.Equal(t, c.want, p.Explain(c.id, c.verb, c.class, name).Allowed)
	}
	require.False(t, (*Permits)(nil).May(Read, Config, []byte("a.json")))
	require.False(t, (*Permits)(nil).Covers(Read, Config, ""))
	require.False(t, (*Permits)(nil).Some(Read, Config))
}

func TestAPersonIsTheSameInUpperAndLowerCase(t *testing.T) {
	p := New(role(t, `{
		"rules": [
			{"who": ["person:Zoe@Example.org"], "allow": ["read"], "what": ["config"]},
			{"who": ["person:Zo*"], "deny": ["read"], "what": ["config:secret.json"]},
			{"who": ["token:Zoe"], "allow": ["read"], "what": ["config"]}],
		"quotas": [{"who": ["person:ZOE@example.org"], "watches": 3}]}`))
	zoe := &access.Identity{Name: "person:zoe@example.org"}
	require.True(t, p.Of(zoe).May(Read, Config, []byte("a.json")))
	require.False(t, p.Of(zoe).May(Read, Config, []byte("secret.json")))
	require.EqualValues(t, 3, p.Quota(zoe).Most[Watches])
	require.False(t, p.Of(&access.Identity{Name: "token:zoe"}).May(Read, Config, []byte("a.json")), "programs are called what they are called")
	_, err := ParseRole("x", []byte("{\"rules\": [{\"who\": [\"person:\u212Aate@example.org\"], \"allow\": [\"read\"], \"what\": [\"config\"]}]}"))
	require.ErrorContains(t, err, "another one in lower case")
}

func nameOf(t require.TestingT, class Class, text string) string {
	if text == "" {
		return ""
	}
	name, err := ParseName(class, text)
	require.NoError(t, err)
	return name
}

func TestADecisionIsExplained(t *testing.T) {
	p := New(role(t, fleet))
	game := &access.Identity{Name: "token:game-1"}
	require.Equal(t, Decision{Allowed: true, By: []Reason{{Rule: `fleet, rule 1 "own files"`, What: "config:game/*"}}}, p.Explain(game, Read, Config, "game/a.json"))
	require.Equal(t, Decision{By: []Reason{{Rule: `fleet, rule 3 "no secrets"`, What: "config:game/secret*", Deny: true}}}, p.Explain(game, Read, Config, "game/secret.json"))
	require.Equal(t, Decision{}, p.Explain(game, Write, Config, "game/a.json"))
}

func TestIdentitiesOfTheSameRulesShareTheirPermits(t *testing.T) {
	p := New(role(t, fleet))
	require.Same(t, p.Of(&access.Identity{Name: "token:game-1"}), p.Of(&access.Identity{Name: "token:game-2"}))
	require.NotSame(t, p.Of(&access.Identity{Name: "token:game-1"}), p.Of(&access.Identity{Name: "token:game-1", Groups: []string{"ops"}}))
}

func TestRolesThatSayNothingClearAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                          "not valid JSON",
		`[]`:                         "expected an object, not array",
		`{"rule": []}`:               `"rule" means nothing here`,
		`{"rules": [], "rules": []}`: `"rules" stands twice`,
		`{"rules": {}}`:              "rules: expected an array, not object",
		`{"about": 1, "rules": []}`:  "about: expected a string, not number",
		`{"rules": [{"who": ["*"], "what": ["*"]}]}`:                                                                      "rules: rule 1: neither allow nor deny has a verb",
		`{"rules": [{"who": ["*"], "allow": ["read"]}]}`:                                                                  "rule 1: what is missing",
		`{"rules": [{"what": ["*"], "allow": ["read"]}]}`:                                                                 "rule 1: who is missing",
		`{"rules": [{"who": ["*"], "what": ["*"], "allow": ["reed"]}]}`:                                                   `rule 1: allow: there is no verb "reed"; there are read, watch`,
		`{"rules": [{"who": ["*"], "what": ["*"], "allow": "read"}]}`:                                                     "allow: expected an array, not string",
		`{"rules": [{"who": [1], "what": ["*"], "allow": ["read"]}]}`:                                                     "who: expected a string, not number",
		`{"rules": [{"who": ["game-1"], "what": ["*"], "allow": ["read"]}]}`:                                              `"game-1" names no one`,
		`{"rules": [{"who": ["token:"], "what": ["*"], "allow": ["read"]}]}`:                                              "names no one",
		`{"rules": [{"who": ["token:a*b"], "what": ["*"], "allow": ["read"]}]}`:                                           "has no *",
		`{"rules": [{"who": ["group:a*"], "what": ["*"], "allow": ["read"]}]}`:                                            "the whole name of one group",
		`{"rules": [{"who": ["*"], "what": ["conf:a"], "allow": ["read"]}]}`:                                              `there is no class "conf"; there are config, kv`,
		`{"rules": [{"who": ["*"], "what": ["config:"], "allow": ["read"]}]}`:                                             "the name is missing",
		`{"rules": [{"who": ["*"], "what": ["config:a*b"], "allow": ["read"]}]}`:                                          "a * can only be at the end; in a name write %2A",
		`{"rules": [{"who": ["*"], "what": ["config:100%.json"], "allow": ["read"]}]}`:                                    "for a % write %25",
		`{"rules": [{"who": ["*"], "what": ["config:a%00"], "allow": ["read"]}]}`:                                         "no control characters",
		`{"rules": [{"who": ["*"], "what": ["kv:a/"], "allow": ["read"]}]}`:                                               "a part of the name is empty",
		`{"rules": [{"who": ["*"], "what": ["kv:/a"], "allow": ["read"]}]}`:                                               "a part of the name is empty",
		`{"rules": [{"who": ["*"], "what": ["log:x"], "allow": ["read"]}]}`:                                               "nothing in this class has a name",
		`{"rules": [{"who": ["*"], "what": ["config:a"], "allow": ["lock"]}]}`:                                            "nothing in config can be done by lock; there are read, watch",
		`{"rules": [{"who": ["*"], "what": ["config:` + strings.Repeat("a", MaxPattern) + `"], "allow": ["read"]}]}`:      "the limit is 4096",
		`{"rules": [{"who": ["token:` + strings.Repeat("a", MaxName) + `"], "what": ["*"], "allow": ["read"]}]}`:          "the limit is 512",
		`{"rules": [{"who": [` + strings.Repeat(`"*",`, MaxWho) + `"*"], "what": ["*"], "allow": ["read"]}]}`:             "who: more than 1000 entries",
		`{"rules": [{"who": ["*"], "what": [` + strings.Repeat(`"config",`, MaxWhat) + `"config"], "allow": ["read"]}]}`:  "what: more than 1000 entries",
		`{"rules": [` + strings.Repeat(`{"who":["*"],"what":["kv"],"allow":["read"]},`, MaxRules) + `{}]}`:                "rules: more than 20000 entries",
		`{"rules": [{"who": ["*"], "what": ["*"], "allow": ["read"], "unless": ["x"]}]}`:                                  `"unless" means nothing here; there are allow, deny, name, what, who`,
		`{"rules": [{"name": "` + strings.Repeat("n", MaxText+1) + `", "who": ["*"], "what": ["*"], "allow": ["read"]}]}`: "name: it has 1001 bytes, and the limit is 1000",
		`{"rules": [{"name": "a\u001b[31m", "who": ["*"], "what": ["*"], "allow": ["read"]}]}`:                            "name: it has control characters",
		`{"about": "` + strings.Repeat("n", MaxAbout+1) + `"}`:                                                            "about: it has 10001 bytes",
	} {
		_, err := ParseRole("fleet", []byte(text))
		require.ErrorContains(t, err, want, "%.200s", text)
		require.ErrorContains(t, err, "role fleet")
	}
}

func TestNamesAreOfOneThing(t *testing.T) {
	for text, want := range map[string]string{"a%2Fb/c/d": "a/b\x00c/d", "a/%2A": "a\x00*"} {
		name, err := ParseName(KV, text)
		require.NoError(t, err)
		require.Equal(t, want, name)
	}
	require.Equal(t, "a/b\x00c/d", string(AppendName(nil, "a/b", "c/d")))
	for _, text := range []string{"a", "a*", "a/*", "*", ""} {
		_, err := ParseName(KV, text)
		require.Equal(t, codes.BadRequest, codes.Of(err), text)
	}
}

func TestEveryRightIsAClassAndAVerbOfIt(t *testing.T) {
	for r := access.Anyone; r.Known(); r++ {
		class, verb, ok := Of(r)
		if !ok {
			require.Contains(t, []access.Right{access.Anyone, access.Nobody, access.KVEach, access.ReviewRead, access.ReviewWrite}, r)
			continue
		}
		require.Equal(t, verb, class.Verbs()&verb, r)
	}
}

// texts are names and patterns that have much in common.
var text = rapid.StringMatching(`[ab]{1,4}(/[ab]{0,2})?`)

func drawRole(t *rapid.T, label string) *Role {
	var b strings.Builder
	b.WriteString(`{"rules": [`)
	for i := range rapid.IntRange(0, 8).Draw(t, label) {
		if i > 0 {
			b.WriteString(",")
		}
		who := rapid.SampledFrom([]string{"*", "token:a", "token:*", "token:b*", "group:g", "group:h", "cert:a"}).Draw(t, "who")
		verb := rapid.SampledFrom([]string{"read", "write", "*"}).Draw(t, "verb")
		effect := rapid.SampledFrom([]string{"allow", "allow", "deny"}).Draw(t, "effect")
		what := rapid.SampledFrom([]string{"*", "config", "config:" + text.Draw(t, "name") + "*", "config:" + text.Draw(t, "name")}).Draw(t, "what")
		fmt.Fprintf(&b, `{"who": [%q], %q: [%q], "what": [%q]}`, who, effect, verb, what)
	}
	b.WriteString(`]}`)
	return role(t, b.String())
}

var drawIdentity = rapid.Custom(func(t *rapid.T) *access.Identity {
	return &access.Identity{
		Name:   rapid.SampledFrom([]string{"token:a", "token:b", "token:bb", "cert:a", "person:a"}).Draw(t, "identity"),
		Groups: rapid.SliceOfN(rapid.SampledFrom([]string{"g", "h", "i"}), 0, 2).Draw(t, "groups"),
	}
})

func TestPermitsDecideAsTheRulesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New(drawRole(t, "rules"), drawRole(t, "more rules"))
		id := drawIdentity.Draw(t, "id")
		permits := p.Of(id)
		verb := rapid.SampledFrom([]Verb{Read, Write, History}).Draw(t, "asked")
		for range 20 {
			name := text.Draw(t, "asked for")
			require.Equal(t, p.Explain(id, verb, Config, name).Allowed, permits.May(verb, Config, []byte(name)), name)
			if permits.May(verb, Config, []byte(name)) {
				require.True(t, permits.Some(verb, Config))
			}
		}
	})
}

func TestWhatIsCoveredIsAllowedForEveryName(t *testing.T) {
	covered := 0
	rapid.Check(t, func(t *rapid.T) {
		p := New(drawRole(t, "rules")).Of(drawIdentity.Draw(t, "id"))
		prefix := text.Draw(t, "prefix")
		if !p.Covers(Read, Config, prefix) {
			return
		}
		covered++
		for _, rest := range append([]string{"", "x", "/", "\xff"}, rapid.SliceOfN(text, 20, 20).Draw(t, "rest")...) {
			require.True(t, p.May(Read, Config, []byte(prefix+rest)), "%q", prefix+rest)
		}
	})
	require.Positive(t, covered)
}

func TestAPrefixIsCoveredByAPatternForManyOnly(t *testing.T) {
	p := New(role(t, `{"rules": [
		{"who": ["token:a"], "allow": ["read"], "what": ["config:a*", "config:b", "config:c*"]},
		{"who": ["token:a"], "deny": ["read"], "what": ["config:aab", "config:ca*"]},
		{"who": ["token:a"], "deny": ["write"], "what": ["config:a*"]}]}`)).Of(&access.Identity{Name: "token:a"})
	for prefix, want := range map[string]bool{"a": false, "aa": false, "aab": false, "aac": true, "ab": true, "b": false, "": false, "c": false, "cb": true, "ca": false, "cab": false} {
		require.Equal(t, want, p.Covers(Read, Config, prefix), prefix)
	}
}

func TestNobodyGrantsWhatTheyLack(t *testing.T) {
	p := New(role(t, `{"rules": [{"who": ["token:lead"], "allow": ["read", "grant"], "what": ["config:game/*", "roles"]}]}`)).Of(&access.Identity{Name: "token:lead"})
	for text, want := range map[string]string{
		`{"rules": [{"who": ["token:x"], "allow": ["read"], "what": ["config:game/a/*", "config:game/b.json"]}]}`: "",
		`{"rules": [{"who": ["token:x"], "deny": ["*"], "what": ["*"]}]}`:                                         "",
		`{"rules": [{"who": ["token:x"], "allow": ["read"], "what": ["config:game*"]}]}`:                          "config:game*: read",
		`{"rules": [{"who": ["token:x"], "allow": ["read", "write"], "what": ["config:game/*"]}]}`:                "config:game/*: write",
		`{"rules": [{"who": ["token:x"], "allow": ["*"], "what": ["*"]}]}`:                                        "*: read",
	} {
		what, verb, ok := role(t, text).Exceeds(p)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, what+": "+verb.String())
		}
	}
}

func TestNobodyLiftsAProhibitionOfWhatTheyLack(t *testing.T) {
	lead := New(role(t, `{"rules": [{"who": ["token:lead"], "allow": ["*"], "what": ["config:game/*", "roles"]}]}`)).Of(&access.Identity{Name: "token:lead"})
	old := role(t, `{"rules": [
		{"who": ["token:lead"], "deny": ["read"], "what": ["config:secret/*"]},
		{"who": ["*"], "deny": ["write"], "what": ["config:game/old/*"]}]}`)
	for text, want := range map[string]string{
		`{"rules": [{"who": ["token:lead", "token:b"], "deny": ["read", "write"], "what": ["config:secret/*"]}]}`: "",
		`{"rules": [{"who": ["token:b"], "deny": ["read"], "what": ["config:secret/*"]}]}`:                        "config:secret/*: read",
		`{"rules": [{"who": ["token:lead"], "deny": ["read"], "what": ["config:secret/a*"]}]}`:                    "config:secret/*: read",
		`{"rules": [{"who": ["token:lead"], "deny": ["write"], "what": ["config:secret/*"]}]}`:                    "config:secret/*: read",
		`{"rules": []}`: "config:secret/*: read",
	} {
		what, verb, ok := old.Lifts(role(t, text), lead)
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, what+": "+verb.String())
		}
	}
	_, _, ok := old.Lifts(nil, lead)
	require.True(t, ok, "to remove the role is the same")
	_, _, ok = (*Role)(nil).Lifts(nil, lead)
	require.False(t, ok)
}

func TestAdministratorsMayDoEverything(t *testing.T) {
	p := New(role(t, `{"rules": [{"who": ["*"], "deny": ["*"], "what": ["*"]}]}`))
	id := &access.Identity{Name: "token:root", Groups: []string{"x", Administrators}}
	require.True(t, p.Of(id).Covers(Grant, Roles, ""))
	require.True(t, p.Of(id).May(Reveal, Config, []byte("a")))
	require.True(t, p.Explain(id, Grant, Roles, "").Allowed)
	require.False(t, p.Of(&access.Identity{Name: "token:root"}).May(Read, Config, []byte("a")))
	require.True(t, p.Of(&access.Identity{Name: "token:root"}).Within(p.Of(id)))
	require.False(t, p.Of(id).Within(p.Of(&access.Identity{Name: "token:root"})))
	require.False(t, p.Of(id).Within(nil))
	require.True(t, (*Permits)(nil).Within(nil))
}

func TestWhatIsWithinAllowsNothingMore(t *testing.T) {
	within, beyond := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		id := drawIdentity.Draw(t, "id")
		p, q := New(drawRole(t, "rules")).Of(id), New(drawRole(t, "other rules")).Of(id)
		require.True(t, p.Within(p))
		is := p.Within(q)
		more := false
		for range 30 {
			name := []byte(text.Draw(t, "name"))
			for _, v := range []Verb{Read, Write, History} {
				more = more || p.May(v, Config, name) && !q.May(v, Config, name)
			}
		}
		if is {
			within++
			require.False(t, more)
		}
		if more {
			beyond++
		}
	})
	require.Positive(t, within)
	require.Positive(t, beyond)
}

// A name is shown in histories beside what people say, and must not pass for another one.
func TestNamesOfTokensArePlain(t *testing.T) {
	for _, name := range []string{"a", "game-1", "ops team", "a.b_c/d:e@f+7", "\u5f20\u4e09", "\u0939\u093f\u0928", "CppCloud@x"} {
		require.NoError(t, CheckName(name), name)
		require.NoError(t, CheckIdentity(ByToken+name), name)
	}
	for _, name := range []string{"", " a", "a ", "a  b", "a,b", "a, approved by person:b", `a"b`, "a'b", "a(b)", "a\u200bb", "a\u202eb", "a\u00a0b", "a\u2028b", "a\u034fb", "a\u3164b", "a\ufe0fb", "a\xffb", "a\nb", "a=b"} {
		require.Equal(t, codes.BadRequest, codes.Of(CheckName(name)), "%q", name)
		require.Error(t, CheckIdentity(ByToken+name), "%q", name)
	}
	for name, good := range map[string]bool{
		"cert:CN=a\\, b,O=x": true, "cert:CN=\u0646\u200c\u0647": true, "listener:a b=c": true, "person:o'b+c@example.org": true,
		"person:zoe, approved by person:b@c": false, "person:a b@c": false, "person:a\u200b@c": false, "listener:a\u202eb": false,
	} {
		require.Equal(t, good, CheckIdentity(name) == nil, "%q", name)
	}
	role(t, `{"rules": [{"who": ["token:ops *", "token:game-*", "group:CN=a, b"], "allow": ["read"], "what": ["kv"]}]}`)
}

func TestDecidingAllocatesNothing(t *testing.T) {
	p := manyRules(t, 1000)
	name := []byte("config/500/file.json")
	require.Zero(t, testing.AllocsPerRun(100, func() { p.May(Read, Config, name) }))
}

func manyRules(t require.TestingT, n int) *Permits {
	return manyRulesPolicy(t, n).Of(&access.Identity{Name: "token:a"})
}

func manyRulesPolicy(t require.TestingT, n int) *Policy {
	var b strings.Builder
	b.WriteString(`{"rules": [`)
	for i := range n {
		fmt.Fprintf(&b, `{"who": ["token:a"], "allow": ["read"], "what": ["config:config/%d/*"]},`, i)
	}
	b.WriteString(`{"who": ["token:b"], "allow": ["read"], "what": ["*"]}]}`)
	return New(role(t, b.String()))
}

func BenchmarkMay(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		p := manyRules(b, n)
		name := []byte("config/5/file.json")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if !p.May(Read, Config, name) {
					b.Fatal("refused")
				}
			}
		})
	}
}

func FuzzParseRole(f *testing.F) {
	f.Add([]byte(fleet), "game/a.json")
	f.Add([]byte(`{"rules": [{"who": ["*"], "allow": ["*"], "what": ["kv:a%2Fb/c*"]}]}`), "a\x00b")
	f.Add([]byte(`{"approval": ["config:game/*", "kv:a%2Fb/c*", "roles", "*"]}`), "game/a.json")
	f.Add([]byte(limited), "match")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		r, err := ParseRole("fuzz", text)
		if err != nil {
			require.NotEqual(t, codes.Internal, codes.Of(err))
			return
		}
		p, id := New(r), &access.Identity{Name: "token:game-1", Groups: []string{"ops"}}
		for _, q := range []*Quota{p.Quota(id), p.QuotaOf(KV, name)} {
			require.True(t, q == nil || slices.Max(q.Most[:]) > 0 && slices.Min(q.Most[:]) >= 0)
		}
		_, looser := r.Loosens(r)
		require.False(t, looser)
		for _, c := range []Class{Config, KV, Roles} {
			require.Equal(t, p.Explain(id, Read, c, name).Allowed, p.Of(id).May(Read, c, []byte(name)))
			require.True(t, !p.Marks().Has(c, []byte(name)) || p.Marks().Among(c, name[:len(name)/2]) && p.Marks().Has(Roles, nil))
		}
	})
}

// Over HTTP the caller is looked up with each request.
func TestWhoeverComesAgainIsLookedUpAtOnce(t *testing.T) {
	p := New(role(t, fleet))
	id := func(groups ...string) *access.Identity {
		return &access.Identity{Name: "token:game-1", Groups: groups}
	}
	first := p.Of(id())
	require.NotSame(t, first, p.Of(id("ops")))
	require.NotSame(t, p.Of(id("ops")), p.Of(id("ops\nx")))
	for i := range 2 * MostKnown {
		p.Of(&access.Identity{Name: fmt.Sprint("token:game-", i)})
	}
	require.LessOrEqual(t, Known(p), MostKnown)
	require.Same(t, first, p.Of(id()), "there are no others of the same rules")
	game := id()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { p.Of(game) }), 2.0)
}

func BenchmarkOf(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		p := manyRulesPolicy(b, n)
		id := &access.Identity{Name: "token:a", Groups: []string{"x", "y"}}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Of(id)
			}
		})
	}
}
