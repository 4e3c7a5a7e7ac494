package host_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/secret"
	"confcenter/kvstore/memory"
	"confcenter/server/host"
)

func sealing(t *testing.T) host.Config {
	key := strings.Repeat("61", secret.KeyBytes)
	return host.Config{Secret: secret.Config{Source: secret.FromText("the test", key)}}
}

// opens requires that a host reveals what another one has sealed.
func opens(t *testing.T, to, from *host.Host) {
	t.Helper()
	mark, err := from.Secret().Ring().Seal("config:a.json", []byte(`{"$seal":"hunter2"}`))
	require.NoError(t, err)
	reveals := func() bool {
		return string(to.Secret().Ring().AppendRevealed(nil, mark, func(string) bool { return true })) == `"hunter2"`
	}
	require.Eventually(t, reveals, 10*time.Second, time.Millisecond)
}

func TestTwoHostsMakeOneDataKey(t *testing.T) {
	p := &pair{t: t, at: &between{Store: memory.ForTest(t)}}
	p.at.before("secret/", func() { p.b = p.open(p.at.Store, sealing(t)) })
	p.a = p.open(p.at, sealing(t))
	for _, h := range []*host.Host{p.a, p.b} {
		require.NoError(t, h.Secret().Trouble())
		s, err := h.Secret().Status(t.Context(), nil, &secret.StatusAsk{})
		require.NoError(t, err)
		require.Len(t, s.Keys, 1)
		require.True(t, s.Seals)
	}
	opens(t, p.a, p.b)
	opens(t, p.b, p.a)
}

func TestADataKeyOfAnotherHostIsKnownAndUsed(t *testing.T) {
	p := two(t, sealing(t))
	rotate := func(h *host.Host) string {
		r, err := h.Secret().Rotate(t.Context(), nil, &secret.RotateAsk{})
		require.NoError(t, err)
		return r.Newest
	}
	newest := rotate(p.a)
	require.Eventually(t, func() bool { return p.b.Secret().Ring().Newest() == newest }, 10*time.Second, time.Millisecond)
	opens(t, p.a, p.b)

	p.at.before("secret/", func() { rotate(p.b) })
	newest = rotate(p.a)
	require.Eventually(t, func() bool { return p.b.Secret().Ring().Newest() == newest }, 10*time.Second, time.Millisecond)
	opens(t, p.a, p.b)
	opens(t, p.b, p.a)
	s, err := p.b.Secret().Status(t.Context(), nil, &secret.StatusAsk{})
	require.NoError(t, err)
	require.Len(t, s.Keys, 4)
}
