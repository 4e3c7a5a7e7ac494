package confstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/internal/memory"
)

// Sixty-four writes in a row take longer than the time-out on a disk that takes a tenth of
// a second for each, although it answers.
func TestALongQueueInFrontOfASlowDiskIsNotOverdue(t *testing.T) {
	now := clocktest.NewFake(time.Unix(1_000_000, 0))
	cfg := &Config{Clock: now, SetTimeout: 4 * time.Second, Queues: memory.NewPool(1 << 20), QueueLength: 8}
	q := &queue{cfg: cfg, jobs: make(chan *setJob, 8)}
	answered := 0
	for range 2 {
		require.NoError(t, q.put(newSet(SetRequest{Name: "a.json", Contents: []byte("1")}, func(SetResult, error) { answered++ })))
	}
	now.Advance(5 * time.Second)
	require.Len(t, q.overdue(), 2)
	first := <-q.jobs
	require.True(t, first.begin())
	q.answer(first, &step{}, nil)
	require.Equal(t, 1, answered)
	require.Empty(t, q.overdue(), "the disk has just answered")
	now.Advance(5 * time.Second)
	require.Len(t, q.overdue(), 1)
}
