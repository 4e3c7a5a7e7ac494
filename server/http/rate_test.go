package http

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/admission"
	"confcenter/internal/clock/clocktest"
)

func TestRequestsBeyondTheRateAreRefused(t *testing.T) {
	fake := clocktest.NewFake(time.Unix(1_000_000, 0))
	limiter := admission.New(admission.Limits{Rate: admission.Rate{Requests: 2}})
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock, cfg.Connections = fake, limiter })
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
	require.EqualValues(t, 3, limiter.Readings().Get("connections_requests_refused_total", "rate"))
}

func TestABodyWithoutALengthIsPaidForAsItIsRead(t *testing.T) {
	fake := clocktest.NewFake(time.Unix(1_000_000, 0))
	limiter := admission.New(admission.Limits{AddressRate: admission.Rate{Bytes: 1000}})
	k := start(t, func(cfg *Config, _ *Stores) { cfg.Clock, cfg.Connections = fake, limiter })
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

// tired is a gateway whose clock stands still, and a client of it that was refused so often that its
// connection rests.
func tired(t *testing.T) (k *kit, fake *clocktest.Fake, client *http.Client) {
	fake = clocktest.NewFake(time.Unix(1_000_000, 0))
	limiter := admission.New(admission.Limits{Rate: admission.Rate{Requests: 1}})
	k = start(t, func(cfg *Config, _ *Stores) { cfg.Clock, cfg.Connections = fake, limiter })
	client = &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	t.Cleanup(client.CloseIdleConnections)
	for i := range 1 + 50 + 1 {
		reply, err := client.Get(k.url + "/v1/store/namespaces")
		require.NoError(t, err)
		require.Equal(t, i > 0, reply.StatusCode == 503 && reply.Header.Get("Retry-After") != "", "request %d: %s", i, reply.Status)
		_, err = io.Copy(io.Discard, reply.Body)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
	}
	require.Eventually(t, func() bool { return k.status.Readings().Get("http_connections_rested_total") == 1 }, patience, time.Millisecond, "the refusals were of one connection")
	require.EqualValues(t, 1, k.status.Readings().Get("http_connections_resting"), "the rest ends neither by itself nor with the connection")
	return k, fake, client
}

// Who is refused again and again is told at once, and then not read for a while.
func TestAConnectionThatIsRefusedAgainAndAgainRests(t *testing.T) {
	k, fake, client := tired(t)
	status := make(chan int, 1)
	go func() {
		reply, err := client.Get(k.url + "/v1/store/namespaces")
		if err != nil {
			status <- 0
			return
		}
		_ = reply.Body.Close()
		status <- reply.StatusCode
	}()
	require.Equal(t, 200, k.get("/v1/store/namespaces").status, "others are answered")
	require.Empty(t, status)
	require.EqualValues(t, 1, k.status.Readings().Get("http_connections_rested_total"))
	fake.Advance(time.Second)
	require.Equal(t, 200, <-status, "its rate has room again")
	require.Empty(t, k.status.Body(nil).Slow, "a rest makes no request slow")
	require.Zero(t, k.status.Readings().Get("http_connections_resting"))
}

func TestARestEndsWithItsConnectionAndTheGateway(t *testing.T) {
	k, _, client := tired(t)
	client.CloseIdleConnections()
	require.Eventually(t, func() bool { return k.status.Readings().Get("http_connections_resting") == 0 }, patience, time.Millisecond)
	k, _, _ = tired(t)
	k.stop()
}
