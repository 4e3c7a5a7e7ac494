package http

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/access/control"
	"confcenter/internal/clock/clocktest"
)

// TestARefusalOfAWrongTokenIsDelayed: over our paths, Plum's and at the sign-in, whatever the path needs,
// and with a session that is no one's. No one else waits.
func TestARefusalOfAWrongTokenIsDelayed(t *testing.T) {
	now := clocktest.NewFake(time.Unix(1_000_000, 0))
	p := peopleWith(t, control.Config{RefusalDelay: time.Second}, func(cfg *Config) { cfg.Clock = now })
	const wrong = "cct_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	valid := "Authorization: Bearer " + p.admin
	_, cookie := p.signedIn(p.admin)
	asks := []func() answer{
		func() answer { return p.get("/v1/config/files", "Authorization: Bearer "+wrong) },
		func() answer { return p.get("/v1/kv", "Authorization: Bearer "+p.admin+"x") },
		func() answer { return p.do("PUT", "/v1/kv/n/k", `{"value":"v"}`, "Authorization: Bearer "+wrong) },
		func() answer { return p.do("POST", "/v1/session", `{"token":"`+wrong+`"}`, ours) },
		func() answer {
			return p.get("/v1/config/files", ours, "Cookie: "+cookie.Name+"=ccs_0123456789abcdef_x")
		},
		func() answer { return p.get("/v1/session", "Authorization: Bearer "+wrong) }, // which no one is refused
	}
	answers := make(chan answer, len(asks))
	for _, ask := range asks {
		go func() { answers <- ask() }()
	}
	waiting := func() int64 { return p.edge.Control.Readings().Get("access_refusals_waiting") }
	require.Eventually(t, func() bool { return waiting() == int64(len(asks)) }, patience, time.Millisecond)
	require.Equal(t, http.StatusOK, p.get("/v1/config/files", valid).status, "a valid one does not wait, from the same address")
	p.signedIn(p.admin)
	require.Equal(t, http.StatusUnauthorized, p.get("/v1/config/files").status, "nor who gives none")
	require.Empty(t, answers)
	now.Advance(time.Second - 1)
	require.Equal(t, http.StatusOK, p.get("/v1/config/files", valid).status)
	require.EqualValues(t, len(asks), waiting())
	require.Empty(t, answers)
	now.Advance(1)
	refused := 0
	for range asks {
		if a := <-answers; a.status == http.StatusUnauthorized {
			refused++
		}
	}
	require.Equal(t, len(asks)-1, refused)
	require.Zero(t, waiting())
}
