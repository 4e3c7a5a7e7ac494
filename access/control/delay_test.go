package control_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
)

// TestRefusalsOfWrongTokensWait: as many as there may be, and no others.
func TestRefusalsOfWrongTokensWait(t *testing.T) {
	k := start(t, nil, func(c *control.Config) { c.RefusalDelay, c.MaxDelayed = time.Second, 2 })
	refusal := func(p control.Proof) error {
		_, err := k.Admit(&p)
		require.Error(t, err)
		return err
	}
	waiting := func() int64 { return k.Readings().Get("access_refusals_waiting") }
	wrong := refusal(control.Proof{Token: "cct_0123456789abcdef_x"})
	wait, done := k.Delay(wrong)
	require.Equal(t, time.Second, wait)
	_, also := k.Delay(refusal(control.Proof{Session: "ccs_0123456789abcdef_x"}))
	require.EqualValues(t, 2, waiting())
	wait, _ = k.Delay(wrong)
	require.Zero(t, wait, "there are as many as there may be")
	done()
	done()
	require.EqualValues(t, 1, waiting())
	wait, again := k.Delay(wrong)
	require.Equal(t, time.Second, wait)
	also()
	again()
	require.Zero(t, waiting())
	require.EqualValues(t, 3, k.Readings().Get("access_wrong_tokens_total", "delayed"))
	require.EqualValues(t, 1, k.Readings().Get("access_wrong_tokens_total", "at_once"))

	for _, err := range []error{nil, errors.New("x"), refusal(control.Proof{})} {
		wait, _ = k.Delay(err)
		require.Zero(t, wait, err)
	}
	wait, _ = (*control.Control)(nil).Delay(wrong)
	require.Zero(t, wait)
	require.Zero(t, (*control.Control)(nil).Readings().Get("access_refusals_waiting"))
	k = start(t, nil)
	wait, _ = k.Delay(wrong)
	require.Zero(t, wait, "by default there is no delay")
}
