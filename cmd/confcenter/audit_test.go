package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// audited is a server with 1 line about the key "first" and then 60 about "later".
func audited(t *testing.T) (addr string) {
	addr, _ = serve(t, "--audit", "all")
	require.Equal(t, exitOK, call(t, "", at(addr, "kv", "put", "ns", "first", "1")...).code)
	puts(t, addr, "later", 60)
	return addr
}

// puts writes n keys.
func puts(t *testing.T, addr, key string, n int) {
	for i := range n {
		require.Equal(t, exitOK, call(t, "", at(addr, "kv", "put", "ns", fmt.Sprint(key, i), "1")...).code)
	}
}

func TestAuditLooksAtAllLinesOnceSomethingIsChosen(t *testing.T) {
	addr := audited(t)
	for flags, want := range map[string]struct {
		lines int
		about string
	}{
		"":                                      {50, "kv:ns/later59"},
		"--what kv:ns/first":                    {1, "kv:ns/first"},
		"--what kv:ns/":                         {61, "kv:ns/later59"},
		"--kind change --what kv:ns/ --limit 3": {3, "kv:ns/later59"},
		"--limit 1000 -o json --kind change":    {62, "kv:ns/later59"},
		"--after 1 --limit 2 --what kv:ns/late": {2, "kv:ns/later1"},
		"--limit 5":                             {5, "kv:ns/later59"},
		"--last 3":                              {3, "kv:ns/later59"},
	} {
		r := call(t, "", at(addr, append([]string{"audit"}, strings.Fields(flags)...)...)...)
		require.Equal(t, exitOK, r.code, r.stderr)
		got := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.Len(t, got, want.lines, "%s", flags)
		require.Contains(t, got[len(got)-1], want.about, flags)
	}
}

// Lines that were not asked for come before and between those that the reader waits for.
func TestAuditFollowsWithoutLosingLines(t *testing.T) {
	addr := audited(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, at(addr, "audit", "--follow", "--what", "kv:ns/wanted"), strings.NewReader(""), writer, io.Discard)
		writer.Close()
	}()
	lines := bufio.NewScanner(reader)
	for round := range 2 {
		puts(t, addr, "wanted", 1)
		puts(t, addr, "other", 60)
		require.True(t, lines.Scan(), round)
		require.Contains(t, lines.Text(), "kv:ns/wanted0")
	}
	cancel()
	require.Equal(t, exitOK, <-code)
}

func TestWhatAuditPrintsAndRefuses(t *testing.T) {
	addr, _ := serve(t, "--audit", "all")
	head := call(t, "", at(addr, "audit", "head")...).stdout
	require.Regexp(t, `^1:[0-9a-f]{64}\n$`, head)
	require.Equal(t, exitOK, call(t, "", at(addr, "audit", "verify", "--head", strings.TrimSpace(head))...).code)
	require.Regexp(t, `^1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z change`, call(t, "", at(addr, "audit")...).stdout)
	for flags, want := range map[string]string{
		"--kind dennied":  `there is no kind "dennied"; there are change, permission, `,
		"--outcome bogus": `there is no outcome "bogus"; there are ok, bad_request, `,
	} {
		r := call(t, "", at(addr, append([]string{"audit"}, strings.Fields(flags)...)...)...)
		require.Equal(t, exitRefused, r.code)
		require.Contains(t, r.stderr, want)
	}
	puts(t, addr, "k", 3)
	lines := call(t, "", at(addr, "audit", "--last", "100", "-o", "json")...).stdout
	first, rest, _ := strings.Cut(lines, "\n")
	require.Equal(t, exitOK, call(t, lines, "audit", "verify", "-").code)
	require.Equal(t, exitOK, call(t, rest, "audit", "verify", "-", "--after", strings.TrimSpace(head)).code, first)
	late := call(t, rest, "audit", "verify", "-")
	require.Equal(t, exitFailed, late.code, "a file whose beginning was taken away")
	require.Contains(t, late.stderr, "lines 1 to 1 are gone, and no line says")
	r := call(t, "", "audit", "verify", write(t, t.TempDir(), "empty.jsonl", ""))
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "empty.jsonl: there are no lines")

	r = call(t, "", at(store(t), "audit")...)
	require.Contains(t, r.stderr, "start it with --audit all")
}
