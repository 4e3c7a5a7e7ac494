package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNewestAreKept(t *testing.T) {
	r := Ring[int]{Size: 3}
	require.Empty(t, r.Newest(3))
	for i := range 5 {
		r.Add(i)
	}
	require.Equal(t, []int{4, 3, 2}, r.Newest(10))
	require.Equal(t, []int{4}, r.Newest(1))
	require.Empty(t, r.Newest(-1))
}
