package client_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"confcenter/clienttest"
	"confcenter/internal/admission"
	"confcenter/server/tcp"
)

// A client that sends more than it may is slowed down and loses nothing.
func TestMoreThanTheRateOnlyTakesLonger(t *testing.T) {
	const rate, writes = 200, 300
	limiter := admission.New(admission.Limits{Rate: admission.Rate{Requests: rate}})
	_, c := real(t, clienttest.Options{Server: tcp.Config{Connections: limiter}})
	n := c.KV("n")
	var all sync.WaitGroup
	for range writes {
		all.Go(func() {
			_, err := n.Incr(t.Context(), "k", 1)
			assert.NoError(t, err)
		})
	}
	all.Wait()
	sum, err := n.Incr(t.Context(), "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, writes, sum)
	require.Positive(t, limiter.Count.Rate.Load())
}
