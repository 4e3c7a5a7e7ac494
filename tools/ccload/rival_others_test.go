package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedisRate(t *testing.T) {
	rate, err := redisRate([]byte("\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"69930.07\",\"0.882\"\n"))
	require.NoError(t, err)
	require.Equal(t, 69930.07, rate)
	for _, bad := range []string{"", "\"GET\",\"1\"\n", "\"SET\",\"fast\"\n", "\"SET"} {
		_, err := redisRate([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
}
