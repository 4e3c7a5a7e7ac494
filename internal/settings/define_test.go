package settings_test

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"confcenter/internal/settings"
)

func TestFlagsAreWhatTheTagsSay(t *testing.T) {
	var o struct {
		Where string         `flag:"where,w" default:"here" doc:"a place"`
		Size  settings.Bytes `flag:"size" default:"2KiB" doc:"how much"`
		Words []string       `flag:"word" doc:"may be repeated"`
		kept  int
		Inner struct {
			Wait time.Duration `flag:"wait" default:"90s" doc:"how long"`
			On   bool          `flag:"on" doc:"whether"`
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	settings.Define(flags, &o)
	require.Equal(t, "here 2KiB 1m30s", o.Where+" "+o.Size.String()+" "+o.Inner.Wait.String())
	require.Contains(t, flags.FlagUsages(), `-w, --where string       a place (default "here")`)
	require.Contains(t, flags.FlagUsages(), "(default 1m30s)")
	require.NoError(t, flags.Parse([]string{"-w", "there", "--word", "a", "--word", "b", "--on", "--size", "7"}))
	require.Equal(t, []string{"a", "b"}, o.Words)
	require.Equal(t, settings.Bytes(7), o.Size)
	require.True(t, o.Inner.On)
	require.Zero(t, o.kept)
	require.False(t, flags.Changed("wait"))

	require.PanicsWithValue(t, "--n is *float32, which no flag is", func() {
		settings.Define(flags, &struct {
			N float32 `flag:"n"`
		}{})
	})
	require.Panics(t, func() {
		settings.Define(flags, &struct {
			M int `flag:"m" default:"many"`
		}{})
	})
}
