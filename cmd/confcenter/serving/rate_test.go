package serving

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]admission.Rate{
		"off":           {},
		"1000/s":        {Requests: 1000},
		"8MiB/s":        {Bytes: 8 << 20},
		"1000/s,8MiB/s": {Requests: 1000, Bytes: 8 << 20},
		"1500B/s":       {Bytes: 1500},
	} {
		var r rate
		require.NoError(t, r.Set(text))
		require.Equal(t, want, admission.Rate(r))
		require.Equal(t, text, r.String())
	}
	for _, text := range []string{"", "1000", "8MiB", "0/s", "-1/s", "1/s,2/s", "1KiB/s,2KiB/s", "x/s", "1.5/s", "10/m", ",", "0B/s"} {
		r := rate{Requests: 7}
		require.Error(t, r.Set(text), text)
		require.Equal(t, rate{Requests: 7}, r, "what is refused changes nothing")
	}
}
