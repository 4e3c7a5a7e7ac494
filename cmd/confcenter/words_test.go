package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/protocol"
)

// What a person reads says what to do next, in words that are in the documents.
func TestWordsForPeople(t *testing.T) {
	addr, conf := serve(t)
	write(t, conf, "service.yaml", "a: 1\n")
	for _, s := range []struct {
		name, stdin    string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"a file that is not UTF-8", "{\"a\":\"\xff\"}", words("set bad"), exitFailed, ``, `standard input:1:7: byte 0xFF`},
		{"a value that is not UTF-8", "", []string{"set", "app1", "/a", "\"\xff\""}, exitFailed, ``, `VALUE: .*byte 0xFF`},
		{"a key of a file that is not UTF-8", "{\"\xff\":1}", words("set bad"), exitFailed, ``, `byte 0xFF`},
		{"a name that is misspelt", "", words("get ap1-dev"), exitNotFound, ``, `did you mean app1-dev\.json`},
		{"a name that is misspelt, of the past", "", words("log app1-dve"), exitNotFound, ``, `did you mean app1-dev\.json`},
		{"a name that is like no other", "", words("get something-else"), exitNotFound, ``, `something-else\n$`},
		{"a flag that is misspelt", "", words("get app1 --mergd"), exitUsage, ``, `unknown flag: --mergd; did you mean --merged\?`},
		{"a flag of a model that is misspelt", "", words("auth token a --group x"), exitUsage, ``, `did you mean --groups\?`},
		{"a flag that is like no other", "", words("get app1 --something"), exitUsage, ``, `unknown flag: --something\n`},
		{"a flag of serve", "", words("serve --htpt x"), exitUsage, ``, `did you mean --http\?`},
		{"tokens without access control", "", words("auth tokens"), exitOK, `^note: this server has no access control`, ``},
		{"keys without access control", "", words("secret status"), exitOK, `(?m)^note: .*no access control`, ``},
		{"the state of keys in words", "", words("secret status"), exitOK, `no secret key`, ``},
		{"a write", "", words("kv put ns a 1"), exitOK, `^revision \d+\n$`, ``},
		{"the log of nothing", "", words("log never-there"), exitNotFound, ``, `^confcenter: there has never been`},
		{"a review", "", words("review approve 5"), exitRefused, ``, `^confcenter: this server has no access control`},
		{"a token that is not there", "", words("auth revoke x"), exitNotFound, ``, `^confcenter: there is no token "x"`},
		{"too large a request", `"` + strings.Repeat("x", 5<<20) + `"`, words("set big"), exitRefused, ``, "more than the 4194304 .*; `confcenter apply` takes larger files, up to 16777216 bytes, or fewer if the server's --memory is small\n$"},
		{"too large a file", `"` + strings.Repeat("x", 16<<20) + `"`, words("set big"), exitRefused, ``, `more than the 4194304 that the server takes; a file may have at most 16777216 bytes\n$`},
		{"a file without an end", strings.Repeat(" ", 64<<20+1), words("set big"), exitRefused, ``, `standard input: .*at most 16777216 bytes\n$`},
		{"a member twice", `{"x":1,"x":2}`, words("set app1"), exitFailed, ``, `the member "x" stands twice in an object; [^;]*\n$`},
		{"a member twice in a new file", `{"x":1,"x":2}`, words("set ap1-dev"), exitFailed, ``, `the member "x" stands twice in an object; [^;]*\n$`},
		{"a member twice at a path", "", []string{"set", "app1", "/o", `[{"k":1,"k":1}]`}, exitFailed, ``, `the member "k" stands twice in an object; [^;]*\n$`},
	} {
		t.Run(s.name, func(t *testing.T) {
			r := call(t, s.stdin, at(addr, s.args...)...)
			require.Equal(t, s.code, r.code, "%s%s", r.stdout, r.stderr)
			require.Regexp(t, s.stdout, r.stdout)
			require.Regexp(t, s.stderr, r.stderr)
		})
	}
	require.Regexp(t, `(?s)Did you mean.*tokens`, call(t, "", "auth", "tokns").stderr)
	made := call(t, "", at(addr, words("auth token a -o json")...)...)
	id := strings.Split(made.stdout, "_")[1]
	require.Regexp(t, `^revoked; it counts no more from revision \d+ on\n$`, call(t, "", at(addr, "auth", "revoke", id)...).stdout)
}

// No text that a verb prints has the name of a wire command, which only authors of clients know.
func TestNoTextHasTheNameOfAWireCommand(t *testing.T) {
	addr, _ := serve(t)
	commands := map[string]bool{}
	for _, c := range protocol.Commands {
		commands[c.Name] = true
	}
	tried := 0
	for _, verb := range []string{
		"log no-file", "show no-file", "diff no-file", "blame no-file", "explain no-file /a", "rollback no-file", "history prune --days -1",
		"auth revoke x", "auth end --id x", "auth token a --ttl -1", "auth can x read config:a", "auth sessions --limit -1", "auth quotas x",
		"review list", "review show 1", "review approve 1", "review reject 1", "audit head", "audit list", "secret rotate", "secret reseal",
		"flow show nothing", "flow claim nobody", "flow status x y", "bench show-node x", "bench job x", "bench start-job x", "storage get a b", "landing errors", "landing retry",
	} {
		r := call(t, "", at(addr, words(verb)...)...)
		for word := range strings.FieldsFuncSeq(r.stdout+r.stderr, func(c rune) bool { return c < 'A' || c > 'Z' }) {
			require.False(t, commands[word], "%s: %s", verb, r.stderr)
		}
		if r.code != exitOK {
			tried++
		}
	}
	require.Greater(t, tried, 15)
}

func TestTLSAtThePlainPortIsNamed(t *testing.T) {
	addr, _ := serve(t)
	r := call(t, "", at(addr, words("ls --tls")...)...)
	require.Equal(t, exitUnreachable, r.code)
	require.Contains(t, r.stderr, "no TLS is spoken there")
	require.NotContains(t, r.stderr, "EOF")

	// A server of HTTP answers in plain text.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
			c.Close()
		}
	}()
	r = call(t, "", at(ln.Addr().String(), words("ls --tls")...)...)
	require.Equal(t, exitUnreachable, r.code)
	require.Contains(t, r.stderr, "no TLS is spoken there")
}

// What stays out of service though it is in the directory is named: who has put it there wonders.
func TestFilesThatAreSkippedAreNamed(t *testing.T) {
	dir, conf := t.TempDir(), t.TempDir()
	for _, where := range []string{dir, conf} {
		write(t, where, "app.json", "{}")
		for _, name := range []string{"service.yaml", "sub/limits.toml", "old.json.bak", "APP.JSON", "README"} {
			write(t, where, name, "a: 1\n")
		}
		write(t, where, ".hidden.yaml", "a: 1\n")
	}
	const note = `note: not served, because .* do not end in \.json: APP\.JSON, README, old\.json\.bak, service\.yaml, sub/limits\.toml\n`
	r := call(t, "", "check", dir)
	require.Equal(t, exitOK, r.code)
	require.Regexp(t, note, r.stderr)
	require.Contains(t, call(t, "", "check", dir, "-o", "json").stdout, `"skipped":["APP.JSON","README","old.json.bak","service.yaml","sub/limits.toml"]`)
	addr, _ := serve(t, "--conf", conf)
	r = call(t, "", at(addr, "apply", dir, "--dry-run")...)
	require.Regexp(t, note, r.stderr)
	listed := call(t, "", at(addr, "ls")...).stderr
	for _, name := range []string{"service.yaml", "sub/limits.toml", "APP.JSON"} {
		require.Contains(t, listed, "problem: "+name+": is not served: its name ends in")
	}
	require.NotContains(t, listed, "README", "which nobody takes for a configuration")

	many := t.TempDir()
	write(t, many, "app.json", "{}")
	for i := range 50 {
		write(t, many, fmt.Sprintf("n%02d.yaml", i), "")
	}
	require.Regexp(t, `n00\.yaml, .* and 40 more\n`, call(t, "", "check", many).stderr)
}

// The last line of a start is where to look.
func TestServeSaysWhereTheConsoleIs(t *testing.T) {
	for flag, expected := range map[string]string{"127.0.0.1:0": `^console: http://127\.0\.0\.1:\d+/$`, "0.0.0.0:0": `^console: http://localhost:\d+/$`} {
		dir := t.TempDir()
		write(t, dir, "conf/a.json", "{}")
		ctx, cancel := context.WithCancel(t.Context())
		reader, writer := io.Pipe()
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--http", flag, "--allow-open", "--loops", "1", "--conf", filepath.Join(dir, "conf"), "--data", filepath.Join(dir, "data")}, strings.NewReader(""), writer, io.Discard)
			writer.Close()
		}()
		lines := bufio.NewScanner(reader)
		require.True(t, lines.Scan(), "nothing is printed")
		require.Regexp(t, expected, lines.Text())
		cancel()
		require.False(t, lines.Scan())
		require.Equal(t, exitOK, <-code)
	}
}
