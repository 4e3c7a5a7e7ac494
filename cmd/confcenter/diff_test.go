package main

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Two files can be compared, of one server or of two.
func TestDiffOfTwoFiles(t *testing.T) {
	addr, _ := serve(t)
	second, _ := serve(t)
	for _, s := range []struct{ addr, name, text string }{
		{addr, "one", "{\n  \"a\": 1,\n  \"b\": 2\n}\n"}, {addr, "two", "{\n  \"a\": 1,\n  \"b\": 3,\n  \"c\": [4]\n}\n"},
		{addr, "_meta", `{"conf_inherit":{"heir.json":"one.json"}}`}, {addr, "heir", "{\"b\": 2}"}, {addr, "one", "{\n  \"a\": 0,\n  \"b\": 2\n}\n"}, {second, "one", "{\n  \"a\": 7,\n  \"b\": 2\n}\n"},
	} {
		r := call(t, s.text, at(s.addr, "set", s.name)...)
		require.Equal(t, exitOK, r.code, r.stderr)
	}
	require.Equal(t, exitOK, call(t, "", at(addr, words("rm heir")...)...).code)
	require.Equal(t, exitOK, call(t, `{"a": 0, "b": 2}`, at(addr, words("set same")...)...).code)
	for _, s := range []struct {
		name, line     string
		code           int
		stdout, stderr string
	}{
		{"by line", "diff one two", exitOK, `^--- one\.json@\d+\n\+\+\+ two\.json@\d+\n@@ -1,4 \+1,7 @@\n \{\n-    "a": 0,\n-    "b": 2\n\+    "a": 1,\n\+    "b": 3,\n\+    "c": \[\n\+        4\n\+    \]\n \}\n$`, ``},
		{"by path", "diff one two --paths", exitOK, `^~ /a 0 -> 1\n~ /b 2 -> 3\n\+ /c \[4\]\n$`, ``},
		{"at revisions", "diff one@~1 two@~0 --paths", exitOK, `^~ /b 2 -> 3\n\+ /c \[4\]\n$`, ``},
		{"the same by path", "diff one same --paths", exitOK, `^$`, ``},
		{"with what they inherit", "diff one heir@~1 --resolved --paths", exitOK, `^~ /a 0 -> 1\n$`, ``},
		{"as JSON", "diff one two --paths -o json", exitOK, `^\{"from":\{"name":"one\.json","at":\d+,"change":.*"to":\{"name":"two\.json".*"same":false,"paths":\[\{"path":"/a","what":"changed","old":0,"new":1\},`, ``},
		{"a revision", "diff one ~1 --paths", exitOK, `^~ /a 1 -> 0\n$`, ``},
		{"of another server", "diff one --paths --against " + second, exitOK, `^~ /a 0 -> 7\n$`, ``},
		{"of another server, by line", "diff one --against " + second, exitOK, `\+\+\+ one\.json@\d+ at 127\.0\.0\.1:\d+\n`, ``},
		{"another one of another server", "diff two one --paths --against " + second, exitOK, `^~ /a 1 -> 7\n~ /b 3 -> 2\n- /c \[4\]\n$`, ``},
		{"no such file", "diff one none", exitNotFound, `^$`, `none\.json".*as a revision it would be a number`},
		{"no such file there", "diff two --against " + second, exitNotFound, `^$`, `at 127\.0\.0\.1:\d+: .*two\.json`},
		{"a deleted file", "diff one heir", exitNotFound, `^$`, `heir\.json was deleted by revision \d+; heir\.json@\d+ is what it was`},
		{"no such server", "diff one --against 127.0.0.1:1 --timeout 1s", exitUnreachable, `^$`, `at 127\.0\.0\.1:1`},
		{"no address", "diff one --against nonsense", exitUsage, `^$`, `nonsense`},
		{"a revision too many", "diff one two 3", exitUsage, `^$`, `one@3`},
		{"a revision there", "diff one 3 --against " + second, exitUsage, `^$`, `one@3`},
		{"a token for no one", "diff one two --against-token-file x", exitUsage, `^$`, `is for the server that --against names`},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := call(t, "", at(addr, words(s.line)...)...)
			require.Equal(t, s.code, r.code, r.stdout+r.stderr)
			require.Regexp(t, s.stdout, r.stdout)
			require.Regexp(t, s.stderr, r.stderr)
		})
	}
}

// The heads of diff say the numbers of log, whatever else has changed since.
func TestDiffSaysTheNumbersOfLog(t *testing.T) {
	addr, _ := serve(t)
	for _, line := range []string{"set a", "set b", "kv put x y 1", "kv put x y 2"} {
		r := call(t, fmt.Sprintf(`{"a": %d}`, len(line)), at(addr, words(line)...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		if line == "set b" {
			require.Equal(t, exitOK, call(t, `{"a": 1}`, at(addr, words("set a")...)...).code)
		}
	}
	numbers := func(name string) (all []string) {
		r := call(t, "", at(addr, "log", name, "-o", "json")...)
		for _, m := range regexp.MustCompile(`"revision":(\d+)`).FindAllStringSubmatch(r.stdout, -1) {
			all = append(all, name+".json@"+m[1])
		}
		require.NotEmpty(t, all, r.stdout)
		return all
	}
	a, b := numbers("a"), numbers("b")
	for line, heads := range map[string][2]string{"diff a": {a[1], a[0]}, "diff a ~1": {a[1], a[0]}, "diff a b": {a[0], b[0]}, "diff b a": {b[0], a[0]}} {
		r := call(t, "", at(addr, words(line)...)...)
		require.Contains(t, r.stdout, "--- "+heads[0]+"\n+++ "+heads[1]+"\n", line)
	}
}
