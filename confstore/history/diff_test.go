package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/confstore/history"
)

// diff is what differs, all pages of it.
func (k *kit) diff(q history.DiffAsk) *history.DiffAnswer {
	k.t.Helper()
	whole, err := k.Diff(k.ctx, nil, &q)
	require.NoError(k.t, err)
	for next := whole.Next; next > 0; {
		require.NotEmpty(k.t, whole.Text+fmt.Sprint(whole.Paths))
		q.Offset = next
		answer, err := k.Diff(k.ctx, nil, &q)
		require.NoError(k.t, err)
		whole.Text, whole.Paths, next = whole.Text+answer.Text, append(whole.Paths, answer.Paths...), answer.Next
	}
	return whole
}

func TestTheLinesThatDiffer(t *testing.T) {
	each(t, map[string]string{"base.json": `{"b":1}`}, func(t *testing.T, k *kit) {
		k.write("a.json", "{\n \"x\": 1,\n \"y\": 2\n}\n")
		k.write("base.json", `{"b":2}`) // so that a version's number is not one below the next one's
		k.write("a.json", "{\n \"x\": 1,\n \"y\": 3\n}\n")
		k.write("base.json", `{"b":1}`)
		k.write("a.json", "-")
		k.write("a.json", "{}\n")
		revs := map[int]int64{}
		for _, c := range k.log("a").Changes {
			revs[int(c.Documents[0].Version)] = c.Revision
		}
		body := func(a, b string, lines string) string { return fmt.Sprintf("--- %s\n+++ %s\n%s", a, b, lines) }
		at := func(n int) string { return fmt.Sprintf("a.json@%d", revs[n]) }
		answer := k.diff(history.DiffAsk{Name: at(2)})
		require.Equal(t, body(at(1), at(2), "@@ -1,4 +1,4 @@\n {\n  \"x\": 1,\n- \"y\": 2\n+ \"y\": 3\n }\n"), answer.Text)
		require.Equal(t, revs[1], answer.From.Change.Revision)
		require.Equal(t, revs[2], answer.To.Change.Revision)
		require.False(t, answer.Same)
		require.Equal(t, body("/dev/null", at(1), "@@ -0,0 +1,4 @@\n+{\n+ \"x\": 1,\n+ \"y\": 2\n+}\n"), k.diff(history.DiffAsk{Name: at(1)}).Text)
		require.Equal(t, body(at(2), "/dev/null", "@@ -1,4 +0,0 @@\n-{\n- \"x\": 1,\n- \"y\": 3\n-}\n"), k.diff(history.DiffAsk{Name: "a", To: "~1"}).Text)
		newest := k.diff(history.DiffAsk{Name: "a"})
		require.Equal(t, "/dev/null", newest.Text[4:13])
		require.Contains(t, k.diff(history.DiffAsk{Name: "a", From: "~3"}).Text, "\n- \"y\": 2\n")
		require.Contains(t, k.diff(history.DiffAsk{Name: "a", From: "~3", To: "~2"}).Text, "\n+ \"y\": 3\n")
		require.Contains(t, k.diff(history.DiffAsk{Name: "a", From: "2020-01-01", To: "~2"}).Text, "--- /dev/null\n")
		same := k.diff(history.DiffAsk{Name: "a", From: "~2", To: "~2"})
		require.True(t, same.Same)
		require.Empty(t, same.Text)

		k.write("_meta.json", `{"conf_inherit":{"a.json":"base"}}`)
		require.Contains(t, k.diff(history.DiffAsk{Name: "a", From: "~2"}).Text, fmt.Sprintf("--- %s\n+++ %s\n", at(2), at(4)))
		require.Contains(t, k.diff(history.DiffAsk{Name: "a", From: fmt.Sprint(revs[4]), Resolved: true}).Text, "\n+    \"b\": 1\n")
		_, err := k.Diff(k.ctx, nil, &history.DiffAsk{Name: "none"})
		k.refused(err, codes.NotFound, "never been")
	})
}

func TestTheValuesThatDiffer(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`{"a":1,"b":{"c":[1,2],"d":"x"}}`, `{ "b" : {"d":"\u0078","c":[1,3,4]}, "e/f~": {} }`, `[/a removed 1 ] [/b/c/1 changed 2 3] [/b/c/2 added  4] [/e~1f~0 added  {}]`},
		{`{"a":{"x":1}}`, `{"a":[1]}`, `[/a changed {"x":1} [1]]`},
		{`{"a":[1,{"b":2}]}`, `{"a":[1]}`, `[/a/1 removed {"b":2} ]`},
		{`1`, `"x"`, `[ changed 1 "x"]`},
		{`{"":{"":0}}`, `{"":{"":1}}`, `[// changed 0 1]`},
		{`-`, `{"a":1}`, `[ added  {"a":1}]`},
		{`{"n":1.0}`, `{"n":1}`, `[/n changed 1.0 1]`},
	} {
		k := near(t, map[string]string{"a.json": `"first"`})
		k.write("a.json", c.old)
		k.write("a.json", c.new)
		answer := k.diff(history.DiffAsk{Name: "a", Paths: true})
		var got []string
		for _, p := range answer.Paths {
			got = append(got, fmt.Sprintf("[%s %s %s %s]", p.Path, p.What, p.Old, p.New))
		}
		require.Equal(t, c.want, strings.Join(got, " "), "%s %s", c.old, c.new)
		require.Equal(t, c.want == "", answer.Same)
	}
}

// What is the same at the beginning and at the end is not compared, and makes no difference.
func TestOnlyWhatDiffersIsCompared(t *testing.T) {
	k := near(t, nil)
	rapid.Check(t, func(r *rapid.T) {
		text := func(what string) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"1,\n", "2,\n", "3,\n"}), 0, 12).Draw(r, what)
			return strings.Join(lines, "")
		}
		first, last := text("first"), text("last")
		old, new := "["+first+text("old")+last+"0]", "["+first+text("new")+last+"0]"+rapid.SampledFrom([]string{"", "\n"}).Draw(r, "end")
		k.write("a.json", old)
		k.write("a.json", new)
		if old == new {
			return
		}
		answer := k.diff(history.DiffAsk{Name: "a"})
		require.Equal(r, new, patched(r, old, answer.Text), answer.Text)
	})
}

// patched is what a unified diff makes of a text.
func patched(t require.TestingT, text, diff string) string {
	lines, at, last := strings.SplitAfter(text, "\n"), 0, byte(0)
	var out strings.Builder
	for line := range strings.Lines(diff) {
		var from, fromLines, to, toLines int
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
		case strings.HasPrefix(line, "@@"):
			_, err := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &from, &fromLines, &to, &toLines)
			require.NoError(t, err)
			out.WriteString(strings.Join(lines[at:from-1], ""))
			at = from - 1
			require.Equal(t, to-1, strings.Count(out.String(), "\n"))
		case line[0] == '\\' && last == '-': // No newline at end of file
		case line[0] == '\\':
			whole := strings.TrimSuffix(out.String(), "\n")
			out.Reset()
			out.WriteString(whole)
		default:
			if line[0] != '+' {
				require.Equal(t, strings.TrimSuffix(lines[at], "\n"), strings.TrimSuffix(line[1:], "\n"))
				at++
			}
			if line[0] != '-' {
				out.WriteString(line[1:])
			}
		}
		last = line[0]
	}
	return out.String() + strings.Join(lines[at:], "")
}

// Documents that would take more memory than there is are refused before they are read, and what
// was taken is given back.
func TestMemoryForADifferenceIsTakenFirst(t *testing.T) {
	k := near(t, nil)
	k.write("lines.json", "[0,\n"+strings.Repeat("1,\n", 1<<18)+"1]")
	k.write("lines.json", "[1,\n"+strings.Repeat("1,\n", 1<<18)+"1]")
	k.write("lines.json", "[1,\n"+strings.Repeat("1,\n", 1<<18)+"2]")
	small, pool := k.limited(8 << 20)
	_, err := small.Diff(k.ctx, nil, &history.DiffAsk{Name: "lines", From: "~2"})
	k.refused(err, codes.TooLarge, "takes more memory than the 8388608 bytes there are for all")
	require.Zero(t, pool.Held())
	answer, err := small.Diff(k.ctx, nil, &history.DiffAsk{Name: "lines"})
	require.NoError(t, err, "one line of many")
	require.Contains(t, answer.Text, "@@ -262143,4 +262143,4 @@\n 1,\n 1,\n 1,\n-1]\n")
	answer, err = small.Diff(k.ctx, nil, &history.DiffAsk{Name: "lines", Paths: true})
	require.NoError(t, err)
	require.Equal(t, "/262145", answer.Paths[0].Path)
	require.Zero(t, pool.Held())
	pool.Add(7 << 20)
	_, err = small.Show(k.ctx, nil, &history.ShowAsk{Name: "lines"})
	k.refused(err, codes.Busy, "there is no memory for the question now")
	require.EqualValues(t, 7<<20, pool.Held())
}
