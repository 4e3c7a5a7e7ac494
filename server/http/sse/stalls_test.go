package sse

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/memory"
)

func TestWhoHasWaitedLongestIsCut(t *testing.T) {
	pool := memory.NewPool(100)
	l := newStalls(pool)
	var ended []int
	enter := func(i int, own, shared int64) *wait {
		return l.enter(stalled{own: own, shared: shared, end: func() { ended = append(ended, i) }})
	}
	pool.Add(30) // a frame that 2 has alone
	one, two, three := enter(1, 20, 0), enter(2, 20, 30), enter(3, 20, 0)
	l.relieve()
	require.Empty(t, ended)
	l.leave(one)
	one = enter(1, 20, 0) // it has read something
	four := enter(4, 20, 0)
	l.relieve()
	require.Equal(t, []int{2}, ended)
	l.relieve()
	require.Equal(t, []int{2}, ended, "it has not ended yet, but will")
	l.leave(two)
	pool.Give(30)
	l.relieve()
	require.Equal(t, []int{2}, ended)
	five, six := enter(5, 20, 0), enter(6, 20, 0)
	seven := enter(7, 20, 0)
	l.relieve()
	require.Equal(t, []int{2, 3}, ended)
	for _, w := range []*wait{one, three, four, five, six, seven} {
		l.leave(w)
	}
	require.Zero(t, pool.Held())
	waiting, cut := l.Counts()
	require.Zero(t, waiting)
	require.EqualValues(t, 2, cut)
}

func TestNobodyIsCutForTheEventItIsInTheMiddleOf(t *testing.T) {
	pool := memory.NewPool(100)
	l := newStalls(pool)
	cut := 0
	enter := func(shared, event int64) *wait {
		return l.enter(stalled{own: 10, shared: shared, event: event, end: func() { cut++ }})
	}
	pool.Add(1000) // a frame that two share
	one, two := enter(500, 1000), enter(500, 1000)
	l.relieve()
	require.Zero(t, cut)
	pool.Add(300) // another one
	three := enter(300, 300)
	l.relieve()
	require.Equal(t, 1, cut, "who has waited longest")
	for _, w := range []*wait{one, two, three} {
		l.leave(w)
	}
}
