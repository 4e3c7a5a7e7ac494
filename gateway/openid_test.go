package gateway

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheWayToTheProviderTakesNotForever(t *testing.T) {
	a, now := newAttempts(), time.Now()
	text, err := a.seal(&attempt{Return: "#/x", Until: now.UnixMilli()})
	require.NoError(t, err)
	require.Equal(t, "#/x", a.open(text, now.Add(-time.Millisecond)).Return)
	require.Equal(t, attempt{}, a.open(text, now))
}

// Where the provider does not send people back to, the cookie of the way there would not be.
func TestWhoComesByAnotherNameIsSentToTheExternalOne(t *testing.T) {
	p := people(t)
	a := p.do("POST", "/v1/session/openid", `{}`, ours)
	require.JSONEq(t, `{"location":"http://`+external+`/console/"}`, a.body)
	require.Empty(t, a.cookies(t))
}

func FuzzAttempt(f *testing.F) {
	a := newAttempts()
	text, err := a.seal(&attempt{Return: "#/x", Until: 1 << 60})
	require.NoError(f, err)
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, other string) {
		if one := a.open(other, time.Now()); one != (attempt{}) {
			require.Equal(t, "#/x", one.Return, "nobody makes one up")
		}
	})
}
