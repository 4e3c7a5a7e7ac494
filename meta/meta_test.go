package meta_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// parse fails the test if text has problems.
func parse(t testing.TB, text string) *meta.Meta {
	t.Helper()
	m, problems, err := meta.Parse([]byte(text))
	require.NoError(t, err)
	require.Empty(t, problems)
	return m
}

// always and never are answers for Check.
func always(string) bool { return true }
func never(string) bool  { return false }

// A program has the first of the sections for its tag, its address and "default", of which it is not
// known here which are its.
func TestWhatAProfileTakesAway(t *testing.T) {
	profiles := func(text string) *meta.Meta {
		m, _, err := meta.Parse([]byte(`{"app_profile":` + text + `}`))
		require.NoError(t, err)
		return m
	}
	was := profiles(`{"default":{"a":"one","b":"two.json"},"tag":{"a":"three"}}`)
	for text, want := range map[string][]string{
		`{"default":{"a":"one.json","b":"two"},"tag":{"a":"three.json"}}`:                           nil,
		`{"default":{"a":"one","b":"two","c":"more"},"tag":{"a":"three","c":"more"}}`:               nil,
		`{"default":{"a":"one","b":"two"},"tag":{"a":"three"},"more":{"a":"one"}}`:                  {"three.json"},
		`{"default":{"a":"one","b":"two"},"tag":{"a":"three","b":"four"}}`:                          {"two.json"},
		`{"default":{"a":"one","b":"two"}}`:                                                         {"three.json"},
		`{"default":{"a":"four","b":"two"},"tag":{"a":"three"}}`:                                    {"one.json"},
		`{"default":{"a":"one","b":"two"},"tag":{"a":"three"},"1.2.3.4":{"a":"four"}}`:              {"one.json", "three.json"},
		`{"default":{"a":"one","b":"two","d":"new"},"tag":{"a":"three"},"1.2.3.4":{"d":"another"}}`: nil,
		`{}`: {"one.json", "three.json", "two.json"},
	} {
		require.Equal(t, want, was.TakenAway(profiles(text)), text)
	}
	require.Equal(t, []string{"one.json", "three.json", "two.json"}, was.TakenAway(nil))
	require.Empty(t, (*meta.Meta)(nil).TakenAway(was))
}

func TestComplete(t *testing.T) {
	for name, want := range map[string]string{
		"app1-dev":      "app1-dev.json",
		"app1-dev.json": "app1-dev.json",
		"dir/app":       "dir/app.json",
		"x.json.bak":    "x.json.bak.json",
		"X.JSON":        "X.JSON.json",
		".json":         ".json",
		"":              "",
	} {
		require.Equal(t, want, meta.Complete(name), name)
	}
}

func TestNoMetaAtAll(t *testing.T) {
	empty := parse(t, `{}`)
	for name, m := range map[string]*meta.Meta{"nil": nil, "zero": {}, "empty object": empty} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, m.Names())
			bases, ok := m.Bases("app1.json")
			require.False(t, ok)
			require.Empty(t, bases)
			require.False(t, m.Deep("app1.json"))
			require.Empty(t, m.Check(never))
			require.Zero(t, m.Profile("tag", "127.0.0.1", "app1"))
		})
	}
}

func TestParseFails(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"comment":         "{} # no",
		"missing comma":   `{"a":1 "b":2}`,
		"trailing comma":  `{"a":1,}`,
		"byte order mark": "\ufeff{}",
		"array":           `[]`,
		"string":          `"conf_inherit"`,
		"null":            `null`,
		"too deep":        strings.Repeat(`{"a":`, jsontext.MaxDepth+1) + "1" + strings.Repeat("}", jsontext.MaxDepth+1),
	} {
		t.Run(name, func(t *testing.T) {
			m, problems, err := meta.Parse([]byte(text))
			require.Nil(t, m)
			require.Empty(t, problems)
			require.ErrorContains(t, err, meta.FileName)
		})
	}
}

func TestSyntaxErrorKeepsItsPlace(t *testing.T) {
	_, _, err := meta.Parse([]byte("{\n  x}"))
	var syntax *jsontext.SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.Equal(t, 4, syntax.Offset)
}

func TestMetaKeepsNothingOfTheText(t *testing.T) {
	text := []byte(`{"conf_inherit":{"a.json":"b.json"},"app_profile":{"default":{"app1":"c.json"}}}`)
	m, _, err := meta.Parse(text)
	require.NoError(t, err)
	for i := range text {
		text[i] = 'x'
	}
	bases, ok := m.Bases("a.json")
	require.True(t, ok)
	require.Equal(t, []string{"b.json"}, bases)
	require.Equal(t, "c.json", m.Profile("", "", "app1").MainConf)
}

// Reference section 2: for each of the three values separately, section by tag,
// else by address, else "default".
func TestProfile(t *testing.T) {
	m := parse(t, `{"app_profile":{
		"tag1":           {"_rack":40, "app1":"app1-dev.json"},
		"192.168.228.10": {"_idc":1, "_rack":2, "app1":"app1-ip.json", "app2":"app2-test.json", "Web-Ctrl":"web"},
		"default":        {"_idc":0, "app1":"app1-default.json", "app3":"missing.json"},
		"other":          {}
	}}`)
	const ip = "192.168.228.10"
	for _, test := range []struct {
		name         string
		tag, ip, svr string
		want         meta.Profile
	}{
		{"tag first, rest from the address", "tag1", ip, "app1", meta.Profile{MainConf: "app1-dev.json", IDC: 1, Rack: 40, HasIDC: true, HasRack: true}},
		{"tag without the svrname", "tag1", ip, "app2", meta.Profile{MainConf: "app2-test.json", IDC: 1, Rack: 40, HasIDC: true, HasRack: true}},
		{"tag and default", "tag1", "10.0.0.1", "app1", meta.Profile{MainConf: "app1-dev.json", IDC: 0, Rack: 40, HasIDC: true, HasRack: true}},
		{"address", "", ip, "app1", meta.Profile{MainConf: "app1-ip.json", IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
		{"unknown tag", "nobody", ip, "app1", meta.Profile{MainConf: "app1-ip.json", IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
		{"empty section of the tag", "other", ip, "app1", meta.Profile{MainConf: "app1-ip.json", IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
		{"default, idc zero is a value", "", "10.0.0.1", "app1", meta.Profile{MainConf: "app1-default.json", HasIDC: true}},
		{"nothing for the svrname", "", "10.0.0.1", "app9", meta.Profile{HasIDC: true}},
		{"svrname is case-sensitive", "", ip, "web-ctrl", meta.Profile{IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
		{"as it is spelled", "", ip, "Web-Ctrl", meta.Profile{MainConf: "web", IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
		{"tag may name any section", "default", ip, "app1", meta.Profile{MainConf: "app1-default.json", IDC: 0, Rack: 2, HasIDC: true, HasRack: true}},
		{"a file that does not exist", "", "", "app3", meta.Profile{MainConf: "missing.json", HasIDC: true}},
		{"reserved member as svrname", "", ip, "_idc", meta.Profile{IDC: 1, Rack: 2, HasIDC: true, HasRack: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, m.Profile(test.tag, test.ip, test.svr))
		})
	}
}

// A value of the wrong type is no hit: the next section is asked.
func TestProfileValuesOfTheWrongType(t *testing.T) {
	for _, wrong := range []string{`1`, `null`, `true`, `["a.json"]`, `{}`, `""`} {
		m, problems, err := meta.Parse([]byte(`{"app_profile":{"t":{"app1":` + wrong + `},"default":{"app1":"d.json"}}}`))
		require.NoError(t, err)
		require.Equal(t, []meta.Problem{{Name: "t", Text: `the main configuration of "app1" must be a file name`}}, said(problems))
		require.Equal(t, "d.json", m.Profile("t", "", "app1").MainConf, wrong)
	}
	for _, wrong := range []string{`"1"`, `1.0`, `1e2`, `2147483648`, `null`, `true`, `[1]`} {
		m, problems, err := meta.Parse([]byte(`{"app_profile":{"t":{"_idc":` + wrong + `},"default":{"_idc":-7}}}`))
		require.NoError(t, err)
		require.Equal(t, []meta.Problem{{Name: "t", Text: `"_idc" must be a whole number inside 32 bits`}}, said(problems))
		require.Equal(t, meta.Profile{IDC: -7, HasIDC: true}, m.Profile("t", "", "app1"), wrong)
	}
}

// Each kind of mistake is reported where it is, and everything else stays in force.
func TestProblems(t *testing.T) {
	const rest = `"conf_inherit":{"ok.json":"base.json"},`
	for name, test := range map[string]struct{ text, about, says string }{
		"parts":             {`{"conf_inherit":[],"app_profile":{}}`, meta.FileName, "conf_inherit"},
		"options part":      {`{` + rest + `"inherit_options":7}`, meta.FileName, "inherit_options"},
		"profile part":      {`{` + rest + `"app_profile":"x"}`, meta.FileName, "app_profile"},
		"part twice":        {`{` + rest + `"conf_inherit":{}}`, meta.FileName, `"conf_inherit" stands twice`},
		"entry twice":       {`{"conf_inherit":{"ok.json":"base.json","ok.json":"other.json"}}`, meta.FileName, `"ok.json" stands twice`},
		"entry completed":   {`{"conf_inherit":{"ok":"other.json","ok.json":"base.json"}}`, "ok.json", "with and without .json"},
		"entry a list":      {`{"conf_inherit":{"ok.json":"base.json","a.json":["b.json"]}}`, "a.json", "one string"},
		"entry null":        {`{"conf_inherit":{"ok.json":"base.json","a.json":null}}`, "a.json", "one string"},
		"entry no name":     {`{"conf_inherit":{"ok.json":"base.json","":"b.json"}}`, meta.FileName, "empty"},
		"entry control":     {`{"conf_inherit":{"ok.json":"base.json","a\u0000":"b.json"}}`, meta.FileName, "control"},
		"entry not UTF-8":   {"{\"conf_inherit\":{\"ok.json\":\"base.json\",\"\xff.json\":\"b.json\"}}", meta.FileName, "UTF-8"},
		"base with a tab":   {`{"conf_inherit":{"ok.json":"base.json a.json\tb.json"}}`, "ok.json", "tab"},
		"base with a comma": {`{"conf_inherit":{"ok.json":"base.json a.json,b.json"}}`, "ok.json", "comma"},
		"comma and blank":   {`{"conf_inherit":{"ok.json":"a.json, base.json"}}`, "ok.json", "comma"},
		"short and comma":   {`{"conf_inherit":{"ok.json":"a, base.json"}}`, "ok.json", "comma"},
		"section":           {`{` + rest + `"app_profile":{"default":"a.json"}}`, "default", "object"},
		"section no name":   {`{` + rest + `"app_profile":{"":{}}}`, meta.FileName, "without a name"},
		"section twice":     {`{` + rest + `"app_profile":{"a":{},"a":{}}}`, meta.FileName, `"a" stands twice`},
		"svrname twice":     {`{` + rest + `"app_profile":{"a":{"s":"x","s":"y"}}}`, "a", `"s" stands twice`},
		"options of a file": {`{` + rest + `"inherit_options":{"ok.json":"deep"}}`, "ok.json", "object"},
		"options of all":    {`{` + rest + `"inherit_options":{"*":true}}`, meta.FileName, "object"},
		"merge unknown":     {`{` + rest + `"inherit_options":{"*":{"merge":"Deep"}}}`, meta.FileName, "merge"},
		"merge no string":   {`{` + rest + `"inherit_options":{"*":{"merge":1}}}`, meta.FileName, "merge"},
		"chain no bool":     {`{` + rest + `"inherit_options":{"ok":{"chain":"true"}}}`, "ok.json", "chain"},
	} {
		t.Run(name, func(t *testing.T) {
			m, problems, err := meta.Parse([]byte(test.text))
			require.NoError(t, err)
			require.Len(t, problems, 1)
			require.Equal(t, test.about, problems[0].Name)
			require.Contains(t, problems[0].Text, test.says)
			if name != "parts" {
				bases, ok := m.Bases("ok.json")
				require.True(t, ok)
				require.Equal(t, []string{"base.json"}, bases)
				require.Equal(t, []string{"ok.json"}, m.Names())
				require.False(t, m.Deep("ok.json"))
			}
		})
	}
}

func TestMembersOfOthersAreIgnored(t *testing.T) {
	parse(t, `{"_comment":["anything"],"version":3}`)
}

func TestProblemsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"conf_inherit":{`)
	for i := range 3000 {
		fmt.Fprintf(&text, `"wrong%d.json":null,"a%d.json":"missing.json",`, i, i)
	}
	text.WriteString(`"z.json":""}}`)
	m, problems, err := meta.Parse([]byte(text.String()))
	require.NoError(t, err)
	require.Len(t, problems, 1001)
	require.Equal(t, meta.Problem{Name: meta.FileName, Text: "2000 more problems"}, problems[1000])
	checked := m.Check(never)
	require.Len(t, checked, 1001)
	require.Equal(t, "2000 more problems", checked[1000].Text)
}

func TestAMistypedPartIsReported(t *testing.T) {
	for _, key := range []string{"conf_inheritt", "Conf_Inherit", "inherit_option", "app_profiles"} {
		_, problems, err := meta.Parse([]byte(`{"` + key + `":{}}`))
		require.NoError(t, err)
		require.Len(t, problems, 1, key)
		require.Contains(t, problems[0].Text, "did you mean")
	}
	_, problems, err := meta.Parse([]byte(`{"_comment":1,"version":2,"conf_inherit":{},"inherit_options":{},"app_profile":{}}`))
	require.NoError(t, err)
	require.Empty(t, problems)
}

// said are problems without their places.
func said(problems []meta.Problem) (list []meta.Problem) {
	for _, p := range problems {
		list = append(list, meta.Problem{Name: p.Name, Text: p.Text, Note: p.Note})
	}
	return list
}

// TestProblemsAreFoundWhereTheyStand, though the names in them stand somewhere else first.
func TestProblemsAreFoundWhereTheyStand(t *testing.T) {
	const text = `{"other":{"a":1,"app1":2,"merge":3,"t":4,"[::1]":5,"_idc":6},
"conf_inherit":{"a.json":"b.json","c":"a.json a.json,"},
"inherit_options":{"*":{"merge":1},"a":{"chain":7,"nope":true},"gone":{},"c.json":8},
"app_profile":{"t":{"app1":"a.json","app2":9,"_idc":"x","app3":"none"},"[::1]":{"app1":"a.json"},"u":10}}`
	m, problems, err := meta.Parse([]byte(text))
	require.NoError(t, err)
	at := map[string]bool{}
	for _, p := range append(problems, m.Check(func(name string) bool { return name != "none.json" })...) {
		require.NotEqual(t, -1, p.Offset([]byte(text)), p.Text)
		rest := text[p.Offset([]byte(text)):]
		at[rest[:min(len(rest), 10)]] = true
	}
	require.Equal(t, map[string]bool{
		`"c":"a.jso`: true, `"merge":1}`: true, `"chain":7,`: true, `"nope":tru`: true, `"gone":{},`: true, `"c.json":8`: true,
		`"app2":9,"`: true, `"_idc":"x"`: true, `"app3":"no`: true, `"[::1]":{"`: true, `"u":10}}`: true,
	}, at)
	require.Equal(t, -1, (&meta.Problem{}).Offset([]byte(text)))
}

func TestAddressesThatAreWrittenAsNoneIsAreNoted(t *testing.T) {
	for section, is := range map[string]string{
		"[::1]": "::1", "[::1]:80": "::1", "0:0:0:0:0:0:0:1": "::1", "::FFFF:10.0.0.1": "10.0.0.1", "10.0.0.1:4800": "10.0.0.1", "FE80::1%eth0": "fe80::1",
		"::1": "", "10.0.0.1": "", "default": "", "tag1": "", "10": "", "a:b": "",
	} {
		m, problems, err := meta.Parse([]byte(`{"app_profile":{"` + section + `":{"app1":"a.json"}}}`))
		require.NoError(t, err)
		require.Empty(t, problems)
		if is == "" {
			require.Empty(t, m.Check(always), section)
			continue
		}
		require.Equal(t, []meta.Problem{{Name: section, Text: `no address is written like this, so the section counts for none; write "` + is + `"`, Note: true}}, said(m.Check(always)))
	}
	m, _, err := meta.Parse([]byte(`{"conf_inherit":{"a":"b"},"app_profile":{"default":{"app1":"b"}}}`))
	require.NoError(t, err)
	require.Equal(t, []meta.Problem{{Name: "a.json", Text: `base "b.json" ` + meta.NoObject, Note: true}}, said(m.CheckEach(func(string) string { return meta.NoObject })))
}
