package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/check"
	"confcenter/confstore"
)

func TestCheckOfTheSample(t *testing.T) {
	r := call(t, "", "check", "../../conf")
	require.Equal(t, exitOK, r.code, r.stdout+r.stderr)
	require.Equal(t, "../../conf: 10 files, no problems\n", r.stdout)
}

func TestCheckLeavesAloneWhatIsNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", " {} ")
	write(t, dir, "sub/dir/b.json", "[1, 2]")
	write(t, dir, "notes.txt", "{")
	write(t, dir, "a.json.bak", "{")
	write(t, dir, ".a.json.swp", "{")
	write(t, dir, ".hidden.json", "{")
	write(t, dir, ".git/x.json", "{")
	r := call(t, "", "check", dir)
	require.Equal(t, exitOK, r.code, r.stdout+r.stderr)
	require.Equal(t, dir+": 2 files, no problems\n", r.stdout)
}

func TestCheckNamesFileLineAndColumn(t *testing.T) {
	const fine = `{"conf_inherit": {"a.json": "b.json"}}`
	cases := []struct {
		name  string
		files map[string]string
		want  []string // beginnings of the lines printed, below the directory
	}{
		{"syntax", map[string]string{"a.json": "{\n  \"k\": 1,\n  é\n}"}, []string{"/a.json:3:3: "}},
		{"empty file", map[string]string{"a.json": ""}, []string{"/a.json:1:1: "}},
		{"byte order mark", map[string]string{"a.json": "\ufeff{}"}, []string{"/a.json:1:1: "}},
		{"not UTF-8", map[string]string{"a.json": "{\n\"k\": \"caf\xe9\"}"}, []string{"/a.json:2:10: byte 0xE9 at offset 11 is not UTF-8"}},
		{"in a sub-directory", map[string]string{"x/y/a.json": "{}\n{}"}, []string{"/x/y/a.json:2:1: "}},
		{"too deep", map[string]string{"a.json": strings.Repeat("[", 600) + strings.Repeat("]", 600)}, []string{"/a.json:1:513: "}},
		{"several files", map[string]string{"b.json": "x", "a.json": "{", "c.json": "{}"}, []string{"/a.json:1:2: ", "/b.json:1:1: "}},
		{"name", map[string]string{"a\\b.json": "{}"}, []string{`/a\b.json: filename "a\\b.json": contains a backslash`}},
		{"_meta.json broken", map[string]string{"_meta.json": "{\"conf_inherit\": {}\n,}"}, []string{"/_meta.json:2:2: "}},
		{"_meta.json no object", map[string]string{"_meta.json": "[]"}, []string{"/_meta.json:1:1: _meta.json must hold a JSON object"}},
		{"missing base", map[string]string{"_meta.json": "{\n \"conf_inherit\": {\n  \"a.json\": \"gone.json\"}}", "a.json": "{}"},
			[]string{`/_meta.json:3:3: "a.json": base "gone.json" does not exist`}},
		{"a broken base exists", map[string]string{"_meta.json": fine, "a.json": "{}", "b.json": "{"}, []string{"/b.json:1:2: "}},
		{"cycle", map[string]string{"_meta.json": `{"inherit_options": {"*": {"chain": true}}, "conf_inherit": {"a": "b", "b": "a"}}`, "a.json": "{}", "b.json": "{}"},
			[]string{`/_meta.json:1:`}},
		{"unknown option", map[string]string{"_meta.json": `{"inherit_options": {"*": {"merg": "deep"}}}`}, []string{"/_meta.json:1:28: "}},
		{"option of a file", map[string]string{"_meta.json": "{\"conf_inherit\": {\"a\": \"\"},\n\"inherit_options\": {\"a\": {\"chain\": 1}}}", "a.json": "{}"}, []string{`/_meta.json:2:27: "a.json": the option "chain"`}},
		{"place of a section", map[string]string{"_meta.json": "{\"conf_inherit\": {\"a\": \"\"},\n\"app_profile\": {\"a.json\": {\"_idc\": \"x\"}}}", "a.json": "{}"}, []string{`/_meta.json:2:28: "a.json": "_idc" must be`}},
		{"roles", map[string]string{"_access/a.json": `{"rules": [{"who": ["game"], "allow": ["read"], "what": ["config:*"]}]}`, "_access/b.json": `{"rules": []}`},
			[]string{`/_access/a.json: the role a: `}},
		{"main configuration", map[string]string{"_meta.json": "{\"app_profile\": {\n\"default\": {\"app1\": \"gone\"}}}"},
			[]string{`/_meta.json:2:13: "default": the main configuration "gone" of "app1" does not exist`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				write(t, dir, name, text)
			}
			r := call(t, "", "check", dir)
			require.Equal(t, exitFailed, r.code, r.stdout)
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			require.Len(t, lines, len(c.want), r.stdout)
			for i, want := range c.want {
				require.True(t, strings.HasPrefix(lines[i], dir+want), "%q does not begin with %q", lines[i], dir+want)
			}
		})
	}
}

// TestCheckNotes what is served as it stands, though probably not as it was meant: that is no problem.
func TestCheckNotes(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"APP.JSON": "{", "a.json": "{}", "A.json": "{}", "caf\u00e9.json": "{}", "cafe\u0301.json": "{}", "list.json": "[1]", "heir.json": "{}", "notes.txt": "",
		"_meta.json": "{\"conf_inherit\":{\"heir.json\":\"list.json a\"},\n\"app_profile\":{\"[::1]\":{\"app1\":\"list\"}}}",
	} {
		write(t, dir, name, text)
	}
	r := call(t, "", "check", dir)
	require.Equal(t, exitOK, r.code, r.stdout)
	require.Equal(t, strings.ReplaceAll(`DIR/APP.JSON: note: is not served: its name does not end in .json, in lower case
DIR/_meta.json:1:18: note: "heir.json": base "list.json" is no JSON object, so nothing of it is inherited
DIR/_meta.json:2:16: note: "[::1]": no address is written like this, so the section counts for none; write "::1"
DIR/a.json: note: differs from "A.json" only in case; some file systems have only one of them
DIR/café.json: note: differs from "cafe\u0301.json" only in how its characters are composed; some file systems have only one of them
DIR: 7 files, no problems
`, "DIR", dir), r.stdout)
	r = call(t, "", "check", "-o", "json", dir)
	require.Contains(t, r.stdout, `"ok":true`)
	require.Contains(t, r.stdout, `"notes":[{"file":"APP.JSON","text":"is not served`)
	require.NotContains(t, r.stdout, "null")
}

// TestCheckPrintsNamesThatDoNothing: they go into the logs of others, where a line of its own may be a
// command and a control character hides what comes behind it.
func TestCheckPrintsNamesThatDoNothing(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a\n::error::b.json", "c\x1b[2K.json", "d\u202egpj.json", "e\xff.json", "f\u0085.json", "日本.json"} {
		write(t, dir, name, "{")
	}
	for _, verb := range [][]string{{"check", dir}, {"apply", dir}} {
		r := call(t, "", verb...)
		require.Equal(t, exitFailed, r.code)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, lines, 6, r.stdout)
		for i, want := range []string{`/a\n::error::b.json: `, `/c\u001b[2K.json: `, `/d\u202egpj.json:1:2: `, `/e\xff.json: `, `/f\u0085.json: `, `/日本.json:1:2: `} {
			require.True(t, strings.HasPrefix(lines[i], dir+want), lines[i])
		}
		require.NotContains(t, r.stdout+r.stderr, "\u202e")
		require.NotContains(t, r.stdout+r.stderr, "\x1b")
	}
}

func TestCheckOfSymlinks(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	target := write(t, outside, "secret.json", "{}")
	write(t, dir, "..data_1/real.json", "{}")
	write(t, dir, ".shared/b.json", "{")
	for link, to := range map[string]string{
		"..data":        "..data_1", // as Kubernetes mounts a ConfigMap
		"good.json":     "..data/real.json",
		"out.json":      target,
		"outdir":        outside,
		"dangling.json": "nowhere",
		"linked":        ".shared",
		"loop":          ".",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o644))
	r := call(t, "", "check", dir)
	require.Equal(t, exitFailed, r.code)
	want := []string{
		"dangling.json: is a symlink that leads to nothing: no such file",
		"linked/b.json:1:2: ",
		"loop: is a symlink to a directory that it is in",
		"out.json: cannot be read: path escapes",
		"outdir: cannot be read: path escapes",
		"pipe.json: is not a regular file",
	}
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Len(t, lines, len(want), r.stdout)
	for i, line := range lines {
		require.Contains(t, line, want[i])
	}
}

func TestCheckOfFilesTooLargeToServe(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "a.json", "{}")
	require.NoError(t, os.Truncate(file, confstore.MaxFile+1))
	r := call(t, "", "check", dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stdout, "a.json: is larger than the limit of 16777216 bytes")
}

func TestCheckAsJSON(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.json", "{}")
	var report struct {
		OK       bool
		Files    int
		Problems []check.Finding
	}
	r := call(t, "", "check", "-o", "json", dir)
	require.Equal(t, exitOK, r.code)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.True(t, report.OK)
	require.Contains(t, r.stdout, `"problems":[]`)

	write(t, dir, "s/b.json", "{]")
	r = call(t, "", "check", "--output=json", dir)
	require.Equal(t, exitFailed, r.code)
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &report))
	require.False(t, report.OK)
	require.Equal(t, 2, report.Files)
	require.Len(t, report.Problems, 1)
	require.Equal(t, "s/b.json", report.Problems[0].File)
	require.Equal(t, 1, report.Problems[0].Line)
	require.Equal(t, 2, report.Problems[0].Column)
}

func TestCheckOfNoDirectory(t *testing.T) {
	r := call(t, "", "check", filepath.Join(t.TempDir(), "none"))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "cannot be checked")
}

func TestCheckOfADirectoryWithoutConfigurationFails(t *testing.T) {
	r := call(t, "", "check", t.TempDir())
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "is it the right directory?")
}

func TestVersionByFlag(t *testing.T) {
	require.Equal(t, exitOK, call(t, "", "--version").code)
}
