package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"confcenter/cmd/confcenter/verb"
	"confcenter/internal/settings"
)

// The variables of serve that landing shares give it its database and its log, and none of its
// refusals shows the password.
func TestLandingSharesVariablesWithServe(t *testing.T) {
	t.Setenv("CONFCENTER_LANDING", "mysql://u:geheim@h/")
	r := call(t, "", "landing")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "the name of the database is missing")
	require.NotContains(t, r.stderr, "geheim")
	t.Setenv("CONFCENTER_LOG_LEVEL", "loud")
	require.Contains(t, call(t, "", "landing").stderr, "CONFCENTER_LOG_LEVEL")
	t.Setenv("CONFCENTER_LOG_LEVEL", "warn")
	t.Setenv("CONFCENTER_LANDER", "false") // of serve alone
	require.Contains(t, call(t, "", "landing").stderr, "the name of the database is missing")

	a := &verb.App{Environ: []string{"CONFCENTER_LANDING=sqlite:a", "CONFCENTER_ADDR=127.0.0.1:1"}}
	command := &cobra.Command{}
	c, d := a.Dials(command), settings.DSN("")
	c.Shares = map[string]string{"landing": "dsn"}
	command.Flags().Var(&d, "dsn", "")
	cfg, err := c.Config(command)
	require.NoError(t, err)
	require.Equal(t, settings.DSN("sqlite:a"), d)
	require.Equal(t, []string{"127.0.0.1:1"}, cfg.Addrs)
	require.NoError(t, command.ParseFlags([]string{"--dsn", "mysql://u:geheim@h/db"}))
	_, err = c.Config(command)
	require.NoError(t, err)
	require.Equal(t, settings.DSN("mysql://u:geheim@h/db"), d, "the flag wins, with its password")
}
