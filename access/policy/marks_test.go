package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/access"
	. "confcenter/access/policy"
	"confcenter/codes"
)

func TestRolesMarkWhatNeedsApproval(t *testing.T) {
	m := New(role(t, fleet), role(t, `{"approval": ["config:live/*", "config:one.json", "kv:live/limits*", "kv:whole"]}`)).Marks()
	for what, want := range map[string]struct {
		class Class
		name  string
		has   bool
		among bool // something whose name begins so
	}{
		"below a pattern":                 {Config, "live/a.json", true, true},
		"the beginning of a pattern":      {Config, "li", false, true},
		"beside it":                       {Config, "lively.json", false, false},
		"the one":                         {Config, "one.json", true, true},
		"more than the one":               {Config, "one.json5", false, false},
		"all documents":                   {Config, "", false, true},
		"a key":                           {KV, "live\x00limits/a", true, true},
		"a namespace":                     {KV, "live\x00", false, true},
		"another key":                     {KV, "live\x00other", false, false},
		"a key of a namespace that is":    {KV, "whole\x00x", true, true},
		"a namespace that begins like it": {KV, "wholesale\x00x", false, false},
		"roles":                           {Roles, "", true, true},
		"what cannot be marked":           {Storage, "live\x00limits", false, false},
	} {
		require.Equal(t, want.has, m.Has(want.class, []byte(want.name)), what)
		require.Equal(t, want.among, m.Among(want.class, want.name), what)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Has(Config, []byte("live/a.json")) }))
}

// A person who may make roles or tokens would be two persons at will.
func TestWhereAnythingIsMarkedRolesAre(t *testing.T) {
	require.True(t, New(role(t, `{"approval": ["kv:a"]}`)).Marks().Has(Roles, nil))
	for _, nothing := range []*Policy{New(), New(role(t, fleet)), New(role(t, `{"approval": []}`))} {
		require.Nil(t, nothing.Marks())
		require.False(t, nothing.Marks().Has(Roles, nil))
		require.False(t, nothing.Marks().Among(KV, ""))
	}
	all := New(MarkEverything()).Marks()
	require.True(t, all.Has(Config, []byte("a")))
	require.True(t, all.Has(KV, []byte("a\x00b")))
	require.True(t, all.Has(Roles, nil))
	require.False(t, all.Has(Flow, nil))
}

func TestMarksThatSayNothingClearAreRefused(t *testing.T) {
	for text, why := range map[string]string{
		`{"approval": "config"}`:                          "expected an array",
		`{"approval": [1]}`:                               "expected a string",
		`{"approval": ["storage:a"]}`:                     "cannot wait for approval",
		`{"approval": ["flow"]}`:                          "cannot wait for approval",
		`{"approval": ["roles:x"]}`:                       "has a name",
		`{"approval": ["config:a*b"]}`:                    "only be at the end",
		`{"approval": ["config:"]}`:                       "name is missing",
		`{"approval": ["config"], "approval": ["roles"]}`: "stands twice",
		`{"aproval": ["config"]}`:                         "means nothing",
	} {
		_, err := ParseRole("x", []byte(text))
		require.ErrorContains(t, err, why, text)
		require.NotEqual(t, codes.Internal, codes.Of(err))
	}
}

// Who takes a mark back approves of all changes to come.
func TestNobodyTakesAMarkBackWhoMayNotApprove(t *testing.T) {
	old := role(t, `{"approval": ["config:live/*", "kv:live"]}`)
	may := func(text string) *Permits {
		return New(role(t, text)).Of(&access.Identity{Name: "token:a"})
	}
	grants := may(`{"rules": [{"who": ["*"], "allow": ["grant"], "what": ["roles"]}]}`)
	approves := may(`{"rules": [{"who": ["*"], "allow": ["approve"], "what": ["config:live/*"]}]}`)
	for text, what := range map[string]string{
		`{"approval": ["config:live/*", "kv:live"]}`:           "",
		`{"approval": ["kv:live", "config:live/*", "config"]}`: "",
		`{"approval": ["config:live/a*", "kv:live"]}`:          "config:live/*",
		`{"approval": ["config:live/*"]}`:                      "kv:live",
		`{"rules": []}`:                                        "config:live/*",
	} {
		got, v, ok := old.Lifts(role(t, text), grants)
		require.Equal(t, what != "", ok, text)
		if ok {
			require.Equal(t, what, got)
			require.Equal(t, Approve, v)
		}
		got, _, ok = old.Lifts(role(t, text), approves)
		require.Equal(t, ok, what == "kv:live" || text == `{"rules": []}`, text)
		if ok {
			require.Equal(t, "kv:live", got)
		}
	}
	_, _, ok := old.Lifts(nil, grants)
	require.True(t, ok, "to remove the role is the same")
}

// A person who marks something makes everyone wait, administrators included.
func TestNobodyMarksWhatTheyMayNotApprove(t *testing.T) {
	old := role(t, `{"approval": ["config:live/*"]}`)
	approves := New(role(t, `{"rules": [{"who": ["*"], "allow": ["approve"], "what": ["config:game/*", "config:live/a"]}]}`)).Of(&access.Identity{Name: "token:a"})
	for text, what := range map[string]string{
		`{"approval": ["config:live/*"]}`:                   "",
		`{"approval": ["config:game/a*", "config:live/*"]}`: "",
		`{"rules": []}`: "",
		`{"approval": ["config:live/*", "config:live/a*"]}`:  "config:live/a*",
		`{"approval": ["config:live/*", "*"]}`:               "*",
		`{"approval": ["config:live/*", "roles", "kv:a/b"]}`: "roles",
	} {
		got, ok := role(t, text).Marks(old, approves)
		require.Equal(t, what != "", ok, text)
		require.Equal(t, what, got, text)
	}
	_, ok := role(t, `{"approval": ["config:live/*"]}`).Marks(nil, approves)
	require.True(t, ok)
	_, ok = (*Role)(nil).Marks(old, approves)
	require.False(t, ok, "a role that is removed marks nothing")
}

func TestWhatIsAmongMarksHasOneOfThem(t *testing.T) {
	met := 0
	rapid.Check(t, func(t *rapid.T) {
		var marks []string
		for _, name := range rapid.SliceOfN(text, 1, 5).Draw(t, "marks") {
			marks = append(marks, fmt.Sprintf(`"config:%s%s"`, name, rapid.SampledFrom([]string{"", "*"}).Draw(t, "many")))
		}
		m := New(role(t, `{"approval": [`+strings.Join(marks, ",")+`]}`)).Marks()
		prefix, rest := text.Draw(t, "prefix"), text.Draw(t, "rest")
		if m.Has(Config, []byte(prefix+rest)) {
			met++
			require.True(t, m.Among(Config, prefix))
		}
	})
	require.Positive(t, met)
}
