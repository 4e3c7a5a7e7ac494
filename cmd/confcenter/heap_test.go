package main

import (
	"os"
	"runtime"
	"testing"

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
	set := make(chan int, 1)
	p := &heapPace{set: func(percent int) { set <- percent }, garbage: heapGarbage}
	defer p.end()
	runtime.GC() // whatever was held by the tests before
	p.again()
	before := <-set
	held := make([]byte, 256<<20)
	for i := 0; i < len(held); i += os.Getpagesize() {
		held[i] = 1
	}
	runtime.GC()
	require.Less(t, <-set, before)
	runtime.KeepAlive(held)
}
