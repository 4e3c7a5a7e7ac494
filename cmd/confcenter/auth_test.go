package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/serving"
)

func TestSessionOfTokens(t *testing.T) {
	addr, _ := serve(t)
	for _, s := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{words("auth token a --groups games,,ops --groups more --ttl 1h"), exitOK, `^cct_`, ``},
		{append(words("auth token b --ttl 3600000 --groups"), " games , ops"), exitOK, `^cct_`, ``},
		{words("auth tokens -o json"), exitOK, `"groups":\["games","ops","more"\],"made":(\d{7})\d+,.*"expires":`, ``},
		{words("auth tokens -o json"), exitOK, `"groups":\["games","ops"\]`, ``},
		{words("auth tokens"), exitOK, `(?m)^[0-9a-f]+ +a +games, ops, more +20\d\d-\d\d-\d\dT\S+Z +\S.* +20\S+Z`, ``},
		{words("auth token c --ttl soon"), exitUsage, ``, `soon`},
		{words("auth token c --ttl 0"), exitUsage, ``, `leave it out`},
		{words("auth token c --ttl 1us"), exitUsage, ``, `1us`},
		{words("auth end"), exitUsage, ``, `id who`},
		{words("auth end --id a --who token:a"), exitUsage, ``, `id who`},
		{words("auth end --who token:a"), exitNotFound, ``, `no such session`},
		{words("auth token --help"), exitOK, `(?s)--groups list .* separated by commas.*--ttl duration .*ms until .* a duration such as 10m`, ``},
	} {
		r := call(t, "", at(addr, s.args...)...)
		require.Equal(t, s.code, r.code, "%v: %s%s", s.args, r.stdout, r.stderr)
		require.Regexp(t, s.stdout, r.stdout, s.args)
		require.Regexp(t, s.stderr, r.stderr, s.args)
	}
}

func TestQuotasAreListedThatNobodyHasSetToo(t *testing.T) {
	addr, conf := serve(t, "--access-control")
	root := []string{"--token-file", filepath.Join(filepath.Dir(conf), "data", serving.TokenFile)}
	ask := func(stdin, line string) string {
		r := call(t, stdin, append(at(addr, words(line)...), root...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		return r.stdout
	}
	ask(`{"quotas": [{"who": ["token:a"], "leases": 3}]}`, "set _access/q")
	require.Eventually(t, func() bool {
		return regexp.MustCompile(`(?s)^LIMIT +USED +MOST +BY\nconnections +0 +any +-\n.*\nleases +0 +3 +q, quota 1\n$`).MatchString(ask("", "auth quotas token:a"))
	}, patience, 10*time.Millisecond)
}

// A person at a terminal is asked whether what a revoked token had made is to end, too.
func TestRevokeOffersToEndWhatTheTokenHadMade(t *testing.T) {
	addr, conf := serve(t, "--access-control")
	dir := t.TempDir()
	root := filepath.Join(filepath.Dir(conf), "data", serving.TokenFile)
	ask := func(file, stdin, line string) result {
		r := call(t, stdin, append(at(addr, words(line)...), "--token-file", file)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		return r
	}
	token := func(file, line string) (id, made string) {
		text := ask(file, "", line).stdout
		made = write(t, dir, line, text)
		require.NoError(t, os.Chmod(made, 0o600))
		return strings.Split(text, "_")[1], made
	}
	ask(root, `{"rules": [{"who": ["token:lead*"], "allow": ["*"], "what": ["roles"]}]}`, "set _access/r")
	for i, c := range []struct{ typed, says string }{{"", "give its id to auth revoke"}, {"no\n", "none was ended"}, {"\x04", "none was ended"}, {"yes\n", ""}} {
		name := "lead" + strconv.Itoa(i)
		lead, file := token(root, "auth token "+name)
		child, _ := token(file, "auth token "+name+"-child")
		var r result
		if c.typed == "" {
			r = ask(root, "", "auth revoke "+lead)
		} else {
			keyboard, terminal := openTerminal(t)
			_, err := keyboard.WriteString(c.typed)
			require.NoError(t, err)
			var stdout, stderr strings.Builder
			require.Equal(t, exitOK, run(t.Context(), append(at(addr, words("auth revoke "+lead)...), "--token-file", root), terminal, &stdout, &stderr), stderr.String())
			require.Contains(t, stderr.String(), "End these 1 as well? Type yes: ")
			r = result{stdout: stdout.String(), stderr: stderr.String()}
		}
		require.Regexp(t, `(?s)^revoked; .*still count:\nID .*\n`+child+` +`+name+`-child`, r.stdout)
		require.Contains(t, r.stderr, c.says)
		if still := ask(root, "", "auth tokens").stdout; c.typed == "yes\n" {
			require.NotContains(t, still, child)
		} else {
			require.Contains(t, still, child)
		}
	}
	lead, file := token(root, "auth token lead")
	child, _ := token(file, "auth token child")
	require.Regexp(t, `(?s)^revoked; .*ended as well, as it had made them:\nID .*`+child, ask(root, "", "auth revoke --made "+lead).stdout)
	require.NotContains(t, ask(root, "", "auth tokens").stdout, child)
}

func TestTokenFilesAreLookedAt(t *testing.T) {
	addr, _ := serve(t)
	dir := t.TempDir()
	file := write(t, dir, "a.token", "cct_x\n")
	r := call(t, "", at(addr, "ls", "--token-file", file)...)
	require.Contains(t, r.stderr, "a.token: others on this machine can read it")
	require.Equal(t, 1, strings.Count(r.stderr, "\n"))
	require.NoError(t, os.Chmod(file, 0o600))
	require.NotContains(t, call(t, "", at(addr, "ls", "--token-file", file)...).stderr, "others")

	r = call(t, "", at(addr, "ls", "--token-file", write(t, dir, "empty.token", " \n"))...)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "empty.token: is empty")
}
