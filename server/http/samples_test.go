package http

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/server/http/status"
)

// What a chart begins with.
const (
	sampleEvery = 2 * time.Second
	maxSamples  = 5*30 + 1 // five minutes
)

func (k *kit) sampled(t *testing.T) (got status.Samples) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(k.get("/v1/status/samples").body), &got))
	return got
}

func TestSamplesOfTheLastMinutesAreThereAtOnce(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_000)
	fake := clocktest.NewFake(began)
	k := startBeside(t, newFakeTCP(began), func(cfg *Config, _ *Stores) { cfg.Clock = fake })
	got := k.sampled(t)
	require.Equal(t, began.UnixMilli(), got.Started)
	require.Equal(t, []any{1, int64(3), int64(9), int64(7)}, []any{len(got.Samples), got.Samples[0].Connections, got.Samples[0].Requests, got.Samples[0].Pushes})
	for n := 2; n < maxSamples+5; n++ {
		if n == maxSamples {
			k.get("/livez")
		}
		fake.Advance(sampleEvery)
		at := began.Add(time.Duration(n-1) * sampleEvery).UnixMilli()
		require.Eventually(t, func() bool {
			list := k.status.Samples().Samples
			return list[len(list)-1].At == at
		}, patience, time.Millisecond)
	}
	got = k.sampled(t)
	require.Len(t, got.Samples, maxSamples, "older ones are forgotten")
	for i, s := range got.Samples {
		require.Equal(t, got.Now-int64(maxSamples-1-i)*sampleEvery.Milliseconds(), s.At)
	}
	require.Equal(t, got.Samples[0].HTTP+1, got.Samples[maxSamples-1].HTTP)
}
