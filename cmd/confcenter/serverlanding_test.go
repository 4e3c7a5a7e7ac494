package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestThePasswordOfADatabaseIsNotShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"sqlite:/a@b:c":                     "sqlite:/a@b:c",
		"mysql://u@h/db":                    "mysql://u@h/db",
		"mysql://u:geheim@h:1/db?tls=true":  "mysql://u:******@h:1/db?tls=true",
		"postgres://u:ge:h@eim@h/db":        "postgres://u:******@h/db",
		"postgres://h/db?a=b&password=ge&c": "postgres://h/db?a=b&password=******&c",
		"mysql://u:geheim@h:bad%/not a url": "mysql://u:******@h:bad%/not a url",
	} {
		var d dsn
		require.NoError(t, d.Set(text))
		require.Equal(t, want, d.String())
		require.Equal(t, dsn(text), d)
	}
	o := landingOptions{dsn: "mysql://u:geheim@h/"}
	o.check(func(format string, args ...any) {
		require.ErrorContains(t, fmt.Errorf(format, args...), "landing: the DSN")
		require.NotContains(t, fmt.Sprintf(format, args...), "geheim")
	})
}

// What --print-config hides is still what the server connects with.
func TestThePasswordOfAFlagStays(t *testing.T) {
	var o options
	command := &cobra.Command{}
	o.define(command)
	const given = "mysql://u:geheim@h/db"
	require.NoError(t, command.ParseFlags([]string{"--landing", given}))
	set, err := o.resolve(command.Flags(), nil)
	require.NoError(t, err)
	require.Equal(t, given, string(o.landing.dsn))
	var printed strings.Builder
	require.NoError(t, set.Print(&printed))
	require.Contains(t, printed.String(), "u:******@h")
	require.NotContains(t, printed.String(), "geheim")
}
