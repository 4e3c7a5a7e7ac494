package loop

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWalkMissesNobodyForThoseWhoLeave(t *testing.T) {
	first, _ := newConn(t, Limits{})
	l := first.Loop
	conns := []*Conn{first}
	for range 9 {
		c, _ := addConn(l)
		conns = append(conns, c)
	}
	var w Walk
	require.False(t, w.Done())
	met := map[*Conn]bool{}
	leave := []int{0, 9, 4, 8}
	for c := w.Next(l); c != nil; c = w.Next(l) {
		met[c] = true
		if len(leave) > 0 {
			conns[leave[0]].Abort("it leaves")
			leave = leave[1:]
		}
	}
	require.True(t, w.Done())
	for i, c := range conns {
		require.True(t, met[c] || c.Gone(), i)
	}
	for _, c := range conns {
		c.Abort("all leave")
	}
	require.Nil(t, w.Next(l))
	var empty Walk
	require.Nil(t, empty.Next(l))
	require.True(t, empty.Done())
}
