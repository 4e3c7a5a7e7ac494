package serving

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestThePasswordOfADatabaseIsInNoError(t *testing.T) {
	o := landingOptions{Dsn: "mysql://u:geheim@h/"}
	o.check(func(format string, args ...any) {
		require.ErrorContains(t, fmt.Errorf(format, args...), "landing: the DSN")
		require.NotContains(t, fmt.Sprintf(format, args...), "geheim")
	})
}

// What --print-config hides is still what the server connects with.
func TestThePasswordOfAFlagStays(t *testing.T) {
	var o Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Define(flags)
	const given = "mysql://u:geheim@h/db"
	require.NoError(t, flags.Parse([]string{"--landing", given}))
	set, err := o.Resolve("", nil, nil)
	require.NoError(t, err)
	require.Equal(t, given, string(o.landing.Dsn))
	var printed strings.Builder
	require.NoError(t, set.Print(&printed))
	require.Contains(t, printed.String(), "u:******@h")
	require.NotContains(t, printed.String(), "geheim")
}
