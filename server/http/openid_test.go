package http

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/internal/clock/clocktest"
)

// Nor is it longer or shorter when the time of day is set meanwhile.
func TestTheWayToTheProviderTakesNotForever(t *testing.T) {
	for _, step := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour} {
		now := clocktest.NewFake(time.Now())
		a := newAttempts(now)
		text, err := a.seal(attempt{Return: "#/x"})
		require.NoError(t, err)
		now.Step(step)
		now.Advance(signInTime - time.Millisecond)
		require.Equal(t, "#/x", a.open(text).Return, step)
		now.Step(-2 * step)
		now.Advance(time.Millisecond)
		require.Equal(t, attempt{}, a.open(text), step)
	}
}

// Where the provider does not send people back to, the cookie of the way there would not be.
func TestWhoComesByAnotherNameIsSentToTheExternalOne(t *testing.T) {
	p := people(t)
	a := p.do("POST", "/v1/session/openid", `{}`, ours)
	require.JSONEq(t, `{"location":"http://`+external+`/console/"}`, a.body)
	require.Empty(t, a.cookies(t))
}

func FuzzAttempt(f *testing.F) {
	a := newAttempts(clock.Real())
	text, err := a.seal(attempt{Return: "#/x"})
	require.NoError(f, err)
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, other string) {
		if one := a.open(other); one != (attempt{}) {
			require.Equal(t, "#/x", one.Return, "nobody makes one up")
		}
	})
}
