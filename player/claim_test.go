package player

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

// H31: a dirty table has one lander at a time, and who has lost it lands nothing any more.
func TestClaims(t *testing.T) {
	ctx := t.Context()
	k := startOn(t, newDatabase(), func(cfg *Config) { cfg.Settings = field.Defaults(); cfg.Settings.LockTime = 10 * time.Second })
	claim := func(who string) field.Claim {
		c, err := k.Claim(ctx, 0, who)
		require.NoError(t, err)
		return c
	}
	require.Equal(t, field.Claim{Idle: true}, claim("a"), "nothing to land")
	k.update(player, map[string]string{"x": "1"})
	_, err := k.Claim(ctx, 0, "")
	require.ErrorIs(t, err, codes.BadRequest)
	a := claim("a")
	require.NotZero(t, a.Fence)
	require.Equal(t, field.Claim{Holder: "a"}, claim("b"))
	k.clock.Advance(9 * time.Second)
	require.Equal(t, a, claim("a"), "prolonged")
	k.clock.Advance(9 * time.Second)
	require.Equal(t, field.Claim{Holder: "a"}, claim("b"))
	k.clock.Advance(2 * time.Second)
	var b field.Claim
	require.Eventually(t, func() bool { b = claim("b"); return b.Fence != 0 }, patience, time.Millisecond)
	require.Greater(t, b.Fence, a.Fence)
	batch, err := k.Dirty(ctx, 0, 0)
	require.NoError(t, err)
	require.ErrorIs(t, k.Landed(ctx, a.Fence, batch, nil), codes.FenceLost)
	require.NoError(t, k.Release(ctx, 0, a.Fence), "it has ended")
	require.Equal(t, field.Claim{Holder: "b"}, claim("a"))
	require.NoError(t, k.Landed(ctx, b.Fence, batch, nil))
	k.update(player, map[string]string{"x": "2"})
	require.NoError(t, k.Release(ctx, 0, b.Fence))
	require.NotZero(t, claim("a").Fence)
	require.NoError(t, k.Free(ctx, "b"))
	require.Equal(t, field.Claim{Holder: "a"}, claim("b"), "not of those that were freed")
	require.NoError(t, k.Free(ctx, "a"))
	require.NotZero(t, claim("b").Fence)
	_, err = k.Claim(ctx, 7, "a")
	require.ErrorIs(t, err, codes.BadRequest)
}
