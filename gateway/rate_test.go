package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/clock"
)

func TestRequestsBeyondTheRateAreRefused(t *testing.T) {
	fake := clock.NewFake(time.Unix(1_000_000, 0))
	lobby := admission.New(admission.Limits{Rate: admission.Rate{Requests: 2}})
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock, cfg.Lobby = fake, lobby })
	require.Equal(t, 404, k.get("/v1/none").status, "also what does not exist is paid for")
	require.Equal(t, 404, k.get("/v1/store/key?ns=n&key=a").status)
	refused := k.do("PUT", "/v1/store/key?ns=n&key=a", `{"type":"int","value":1}`)
	require.Equal(t, 503, refused.status)
	require.Equal(t, "1", refused.header.Get("Retry-After"))
	require.JSONEq(t, `{"code":503,"error":"busy","detail":"this connection may send 2 requests per second; nothing was done, try again later","retry_after":500}`, refused.body)
	plain := k.get(plumRoot + "/n/a")
	require.Equal(t, 503, plain.status, plain.body)
	require.Equal(t, "1", plain.header.Get("Retry-After"))
	require.Contains(t, plain.body, "2 requests per second")
	for range 5 {
		require.Equal(t, 200, k.get("/livez").status, "probes are free")
	}
	fake.Advance(500 * time.Millisecond)
	require.Equal(t, 200, k.get("/v1/store/namespaces").status)
	require.Equal(t, 503, k.get("/v1/store/namespaces").status)
	require.EqualValues(t, 3, lobby.Readings().Get("connections_requests_refused_total", "rate"))
}

func TestABodyWithoutALengthIsPaidForAsItIsRead(t *testing.T) {
	fake := clock.NewFake(time.Unix(1_000_000, 0))
	lobby := admission.New(admission.Limits{AddressRate: admission.Rate{Bytes: 1000}})
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock, cfg.Lobby = fake, lobby })
	put := func(value string) answer {
		r, err := http.NewRequest("PUT", k.url+plumRoot+"/n/a", io.MultiReader(strings.NewReader(value)))
		require.NoError(t, err)
		require.Zero(t, r.ContentLength)
		reply, err := k.client.Do(r)
		require.NoError(t, err)
		defer func() { _ = reply.Body.Close() }()
		return answer{status: reply.StatusCode}
	}
	body := `{"value":"` + strings.Repeat("v", 3000) + `"}`
	require.Equal(t, 200, put(body).status)
	require.Equal(t, 503, k.do("PUT", plumRoot+"/n/b", body).status)
	fake.Advance(2 * time.Second)
	require.Equal(t, 503, put(body).status)
	fake.Advance(2 * time.Second)
	require.Equal(t, 200, put(body).status)
}
