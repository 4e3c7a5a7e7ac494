package serving

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowByMore(t *testing.T) {
	for live, want := range map[uint64]int{
		0:         3200,
		64 << 20:  200,
		256 << 20: 50,
		1 << 30:   heapGrowth,
	} {
		require.Equal(t, want, growthOf(live, heapGarbage), live)
	}
}

func TestHeapIsPacedAfterEachCollection(t *testing.T) {
	set, live := make(chan int, 1), new(atomic.Uint64)
	p := &heapPace{live: live.Load, set: func(percent int) { set <- percent }, garbage: heapGarbage}
	live.Store(64 << 20)
	defer p.end()
	p.again()
	require.Equal(t, 200, <-set)
	live.Store(256 << 20)
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(set) == 1
	}, patience, time.Millisecond)
	require.Equal(t, 50, <-set)
}

func TestTheHeapInUseIsWhatACollectionHasLeft(t *testing.T) {
	held := make([]byte, 64<<20)
	runtime.GC()
	require.Greater(t, liveHeap(), uint64(len(held)))
	runtime.KeepAlive(held)
}
