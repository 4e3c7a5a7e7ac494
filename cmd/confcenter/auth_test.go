package main

import (
	"testing"

	"github.com/stretchr/testify/require"
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
		{words("auth token c --ttl soon"), exitUsage, ``, `soon`},
		{words("auth token c --ttl 1us"), exitUsage, ``, `1us`},
		{words("auth token --help"), exitOK, `(?s)--groups list .* separated by commas.*--ttl duration .*ms until .* a duration such as 10m`, ``},
	} {
		r := call(t, "", at(addr, s.args...)...)
		require.Equal(t, s.code, r.code, "%v: %s%s", s.args, r.stdout, r.stderr)
		require.Regexp(t, s.stdout, r.stdout, s.args)
		require.Regexp(t, s.stderr, r.stderr, s.args)
	}
}
