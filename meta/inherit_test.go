package meta_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/internal/jsontext"
	"confcenter/meta"
)

// Reference section 3.3: one string of names separated by single blanks, left is
// weakest; doubled and leading blanks are harmless.
func TestBases(t *testing.T) {
	for name, test := range map[string]struct {
		list string
		want []string
	}{
		"the document's":         {"common.json app1.json", []string{"common.json", "app1.json"}},
		"one":                    {"app1.json", []string{"app1.json"}},
		"none":                   {"", []string{}},
		"only blanks":            {"   ", []string{}},
		"doubled blanks":         {"a.json  b.json   c.json", []string{"a.json", "b.json", "c.json"}},
		"leading and trailing":   {"  a.json b.json ", []string{"a.json", "b.json"}},
		"without .json":          {"common app1", []string{"common.json", "app1.json"}},
		"directory":              {"shared/db.json", []string{"shared/db.json"}},
		"twice, last one counts": {"a.json b.json a.json", []string{"b.json", "a.json"}},
		"twice, spelled apart":   {"a b.json a.json b c", []string{"a.json", "b.json", "c.json"}},
		"itself":                 {"a.json x.json b.json", []string{"a.json", "b.json"}},
		"itself, without .json":  {"a.json x b.json", []string{"a.json", "b.json"}},
		"only itself":            {"x.json", []string{}},
		"a comma in a name":      {"a,b.json c.json", []string{"a,b.json", "c.json"}},
		"escapes":                {`\u0061.json`, []string{"a.json"}},
		"no transitivity":        {"y.json", []string{"y.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, `{"conf_inherit":{"x.json":"`+test.list+`","y.json":"z.json"}}`)
			for _, asked := range []string{"x.json", "x"} {
				bases, ok := m.Bases(asked)
				require.True(t, ok)
				require.Equal(t, test.want, bases)
			}
		})
	}
}

func TestEntriesOfOthers(t *testing.T) {
	m := parse(t, `{"conf_inherit":{"b":"base.json","a.json":"base.json"}}`)
	require.Equal(t, []string{"a.json", "b.json"}, m.Names())
	_, ok := m.Bases("base.json")
	require.False(t, ok, "a base has no entry of its own")
	_, ok = m.Bases("A.json")
	require.False(t, ok, "names are case-sensitive")
}

func TestChain(t *testing.T) {
	for name, test := range map[string]struct {
		inherit string
		want    []string // of x.json
	}{
		"generations":           {`"x":"p","p":"g","g":"gg"`, []string{"gg.json", "g.json", "p.json"}},
		"depth first":           {`"x":"p q","p":"a","q":"b"`, []string{"a.json", "p.json", "b.json", "q.json"}},
		"diamond":               {`"x":"p q","p":"g","q":"g"`, []string{"g.json", "p.json", "q.json"}},
		"base and its base":     {`"x":"p g","p":"g"`, []string{"g.json", "p.json"}},
		"no entry further":      {`"x":"p"`, []string{"p.json"}},
		"circle with x":         {`"x":"p","p":"x q"`, []string{"q.json", "p.json"}},
		"circle beyond x":       {`"x":"p","p":"q","q":"p"`, []string{"q.json", "p.json"}},
		"base inherits itself":  {`"x":"p","p":"p g"`, []string{"g.json", "p.json"}},
		"empty entry of a base": {`"x":"p","p":""`, []string{"p.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, `{"conf_inherit":{`+test.inherit+`},"inherit_options":{"x":{"chain":true}}}`)
			bases, ok := m.Bases("x.json")
			require.True(t, ok)
			require.Equal(t, test.want, bases)
		})
	}
}

// "*" is for all files, a file's own section wins member by member.
func TestOptions(t *testing.T) {
	const inherit = `{"conf_inherit":{"x.json":"p.json","p.json":"g.json"},"inherit_options":{`
	for name, test := range map[string]struct {
		options     string
		deep, chain bool
	}{
		"none":                 {``, false, false},
		"all deep":             {`"*":{"merge":"deep"}`, true, false},
		"all chain":            {`"*":{"chain":true}`, false, true},
		"own":                  {`"x.json":{"merge":"deep","chain":true}`, true, true},
		"own without .json":    {`"x":{"merge":"deep"}`, true, false},
		"own back to shallow":  {`"*":{"merge":"deep","chain":true},"x.json":{"merge":"shallow"}`, false, true},
		"own back to no chain": {`"x.json":{"chain":false},"*":{"merge":"deep","chain":true}`, true, false},
		"of another":           {`"p.json":{"merge":"deep","chain":true}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, inherit+test.options+`}}`)
			require.Equal(t, test.deep, m.Deep("x.json"))
			require.Equal(t, test.deep, m.Deep("x"))
			bases, _ := m.Bases("x.json")
			if test.chain {
				require.Equal(t, []string{"g.json", "p.json"}, bases)
				return
			}
			require.Equal(t, []string{"p.json"}, bases)
		})
	}
	require.True(t, parse(t, inherit+`"*":{"merge":"deep"}}}`).Deep("nobody.json"))
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []meta.Problem
	}{
		"all well": {`{"conf_inherit":{"a":"have"},"app_profile":{"default":{"app":"have"}}}`, nil},
		"missing bases": {`{"conf_inherit":{"b":"no.json have no2","a":"no"}}`, []meta.Problem{
			{Name: "a.json", Text: `base "no.json" does not exist`},
			{Name: "b.json", Text: `base "no.json" does not exist`},
			{Name: "b.json", Text: `base "no2.json" does not exist`},
		}},
		"commas": {`{"conf_inherit":{"a":"b,c"}}`, []meta.Problem{
			{Name: "a.json", Text: `base "b,c.json" does not exist; names are separated by single blanks, not by commas`},
		}},
		"entry without a file": {`{"conf_inherit":{"ghost":"have"}}`, nil},
		"main configurations": {`{"app_profile":{"z":{"app":"no"},"default":{"web":"no.json","app":"have"}}}`, []meta.Problem{
			{Name: "default", Text: `the main configuration "no.json" of "web" does not exist`},
			{Name: "z", Text: `the main configuration "no" of "app" does not exist`},
		}},
		"unknown options": {`{"conf_inherit":{"a":"have"},"inherit_options":{"*":{"mode":1},"a":{"Chain":true},"b":{}}}`, []meta.Problem{
			{Name: meta.FileName, Text: `unknown option "mode" in inherit_options; there are merge and chain`},
			{Name: "a.json", Text: `unknown option "Chain" in inherit_options; there are merge and chain`},
			{Name: "b.json", Text: `inherit_options names it, but conf_inherit does not`},
		}},
		"itself": {`{"conf_inherit":{"have":"have"}}`, []meta.Problem{
			{Name: "have.json", Text: `inherits from itself: "have.json" -> "have.json"; the circle is cut where it closes`},
		}},
		"circle": {`{"conf_inherit":{"have":"have2","have2":"have3","have3":"have"}}`, []meta.Problem{
			{Name: "have.json", Text: `inherits from itself: "have.json" -> "have2.json" -> "have3.json" -> "have.json"; the circle is cut where it closes`},
		}},
		"circle that others lead to": {`{"conf_inherit":{"a":"have9","have9":"have","have":"have9"}}`, []meta.Problem{
			{Name: "have.json", Text: `inherits from itself: "have.json" -> "have9.json" -> "have.json"; the circle is cut where it closes`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, test.text)
			exists := func(name string) bool { return strings.HasPrefix(name, "have") }
			require.Equal(t, test.want, said(m.Check(exists)))
			require.Equal(t, test.want, said(m.Check(exists)), "asking twice changes nothing")
		})
	}
}

// listText is a conf_inherit of n files where file i has the bases that of(i) lists.
func listText(n int, of func(i int) string, options string) string {
	var text strings.Builder
	text.WriteString(`{"conf_inherit":{`)
	for i := range n {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"f%d":"%s"`, i, of(i))
	}
	text.WriteString(`},"inherit_options":{` + options + `}}`)
	return text.String()
}

func TestBasesAreBounded(t *testing.T) {
	var list []string
	for i := range meta.MaxBases + 10 {
		list = append(list, fmt.Sprintf("b%d.json", i))
	}
	m, problems, err := meta.Parse([]byte(`{"conf_inherit":{"a":"` + strings.Join(list, " ") + `"}}`))
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Equal(t, "a.json", problems[0].Name)
	bases, _ := m.Bases("a")
	require.Equal(t, list[10:], bases, "the strongest stay")
}

// A chain far longer than the limit is not followed by those who would need too
// much of it, costs little and does not exhaust the stack.
func TestLongChain(t *testing.T) {
	const n = 20_000
	text := listText(n, func(i int) string { return fmt.Sprintf("f%d", i+1) }, `"*":{"chain":true}`)
	m, problems, err := meta.Parse([]byte(text))
	require.NoError(t, err)
	require.Len(t, problems, 1001)
	require.Contains(t, problems[0].Text, fmt.Sprint(meta.MaxBases))
	require.Empty(t, m.Check(func(name string) bool { return true }))
	bases, _ := m.Bases("f0")
	require.Equal(t, []string{"f1.json"}, bases)
	bases, _ = m.Bases(fmt.Sprintf("f%d", n-meta.MaxBases))
	require.Len(t, bases, meta.MaxBases)
	require.Equal(t, fmt.Sprintf("f%d.json", n), bases[0])
}

// Each of many files inherits a dense knot: what it would cost to follow all of
// them is bounded, the first by name are served in full.
func TestManyChainsAreBounded(t *testing.T) {
	const knot, files = 100, 2000
	all := make([]string, knot)
	for i := range all {
		all[i] = fmt.Sprintf("f%d", i)
	}
	text := listText(knot+files, func(i int) string {
		if i < knot {
			return strings.Join(all, " ")
		}
		return "f0"
	}, `"*":{"chain":true}`)
	m, problems, err := meta.Parse([]byte(text))
	require.NoError(t, err)
	require.NotEmpty(t, problems)
	for _, problem := range problems[:len(problems)-1] {
		require.Contains(t, problem.Text, "together")
	}
	bases, _ := m.Bases("f1000")
	require.Len(t, bases, knot)
	bases, _ = m.Bases("f999")
	require.Equal(t, []string{"f0.json"}, bases)
}

func TestLongCircleIsReportedShort(t *testing.T) {
	const n = 100_000
	m := parse(t, listText(n, func(i int) string { return fmt.Sprintf("f%d", (i+1)%n) }, ``))
	problems := m.Check(always)
	require.Len(t, problems, 1)
	require.Equal(t, "f0.json", problems[0].Name)
	require.Contains(t, problems[0].Text, `"f0.json" -> "f1.json"`)
	require.Contains(t, problems[0].Text, "99984 more")
	require.Less(t, len(problems[0].Text), 500)
}

// graph is a random conf_inherit over few names, so that circles and repeats are
// frequent.
type graph struct {
	lists  [][]int // bases of file i as written
	listed []bool
}

func drawGraph(t *rapid.T) graph {
	n := rapid.IntRange(1, 8).Draw(t, "files")
	g := graph{lists: make([][]int, n), listed: make([]bool, n)}
	for i := range n {
		g.listed[i] = rapid.Bool().Draw(t, "listed")
		if g.listed[i] {
			g.lists[i] = rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 4).Draw(t, "bases")
		}
	}
	return g
}

func fileName(i int) string { return fmt.Sprintf("f%d.json", i) }

func (g graph) text(options string) string {
	text := []byte(`{"conf_inherit":{`)
	for i, list := range g.lists {
		if !g.listed[i] {
			continue
		}
		if text[len(text)-1] != '{' {
			text = append(text, ',')
		}
		var words []string
		for _, base := range list {
			words = append(words, fileName(base))
		}
		text = jsontext.AppendQuote(text, fileName(i))
		text = jsontext.AppendQuote(append(text, ':'), strings.Join(words, " "))
	}
	return string(text) + `},"inherit_options":{"*":` + options + `}}`
}

// reachable is all that i inherits from in any number of generations, without i
// unless a circle leads back to it.
func (g graph) reachable(i int) map[int]bool {
	found := map[int]bool{}
	var walk func(int)
	walk = func(i int) {
		for _, base := range g.lists[i] {
			if !found[base] {
				found[base] = true
				walk(base)
			}
		}
	}
	walk(i)
	return found
}

func requireDistinct(t require.TestingT, name string, bases []string) {
	seen := map[string]bool{name: true}
	for _, base := range bases {
		require.False(t, seen[base], "%s among the bases of %s", base, name)
		seen[base] = true
	}
}

// The bases of a file are exactly the named ones, in the order in which each was
// last named, which is what merging one after the other gives.
func TestBasesOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		m, problems, err := meta.Parse([]byte(g.text(`{}`)))
		require.NoError(t, err)
		require.Empty(t, problems)
		for i, list := range g.lists {
			bases, ok := m.Bases(fileName(i))
			require.Equal(t, g.listed[i], ok)
			requireDistinct(t, fileName(i), bases)
			var want []string
			for at, base := range list {
				if base != i && !slices.Contains(list[at+1:], base) {
					want = append(want, fileName(base))
				}
			}
			require.Equal(t, want, append([]string(nil), bases...))
		}
	})
}

// With chains: exactly what can be reached, each once, and every document behind
// the bases it names unless they are on one circle.
func TestChainOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		m, problems, err := meta.Parse([]byte(g.text(`{"chain":true}`)))
		require.NoError(t, err)
		require.Empty(t, problems)
		for i := range g.lists {
			bases, ok := m.Bases(fileName(i))
			require.Equal(t, g.listed[i], ok)
			requireDistinct(t, fileName(i), bases)
			place := map[int]int{}
			for b := range g.lists {
				if at := slices.Index(bases, fileName(b)); at >= 0 {
					place[b] = at
				}
			}
			reachable := g.reachable(i)
			delete(reachable, i)
			require.Len(t, bases, len(reachable))
			for strong := range reachable {
				for _, weak := range g.lists[strong] {
					if weak == i || g.reachable(weak)[strong] {
						continue
					}
					require.Less(t, place[weak], place[strong], "%d names %d", strong, weak)
				}
			}
		}
	})
}

// A circle is reported if and only if there is one, and what is reported is one.
func TestCirclesOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t)
		m, _, err := meta.Parse([]byte(g.text(`{}`)))
		require.NoError(t, err)
		onCircle := map[int]bool{}
		for i := range g.lists {
			if g.reachable(i)[i] {
				onCircle[i] = true
			}
		}
		problems := m.Check(always)
		require.Equal(t, len(onCircle) > 0, len(problems) > 0)
		for _, problem := range problems {
			var around []int
			for word := range strings.SplitSeq(problem.Text, `"`) {
				var i int
				if _, err := fmt.Sscanf(word, "f%d.json", &i); err == nil {
					around = append(around, i)
				}
			}
			require.GreaterOrEqual(t, len(around), 2)
			require.Equal(t, around[0], around[len(around)-1])
			require.Equal(t, problem.Name, fileName(slices.Min(around)))
			for at := range around[:len(around)-1] {
				require.Contains(t, g.lists[around[at]], around[at+1])
			}
		}
	})
}
