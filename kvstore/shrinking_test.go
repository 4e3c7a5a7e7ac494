package kvstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMapShrinksAfterAPeak(t *testing.T) {
	for _, tc := range []struct {
		name       string
		peak, left int
		shrinks    bool
	}{
		{"most of many are gone", 8000, 2000, true},
		{"too many are left", 8000, 2001, false},
		{"all are gone", 8000, 0, true},
		{"few", 4095, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := shrinking[int, int]{of: map[int]int{}}
			for i := range tc.peak {
				m.of[i] = i
			}
			m.shrink(nil)
			require.Equal(t, tc.peak, m.most)
			for i := tc.left; i < tc.peak; i++ {
				delete(m.of, i)
			}
			var mu sync.Mutex
			before := m.of
			m.shrink(&mu)
			require.True(t, mu.TryLock(), "it is given back")
			require.Len(t, m.of, tc.left)
			for i := range tc.left {
				require.Equal(t, i, m.of[i])
			}
			m.of[-1] = 0
			_, same := before[-1]
			require.Equal(t, tc.shrinks, !same)
			if tc.shrinks {
				require.Equal(t, tc.left, m.most)
			}
		})
	}
	var none shrinking[int, int]
	none.shrink(nil)
	require.Nil(t, none.of)
}

// BenchmarkShrink tells for how long the committer copies a quarter of a million keys.
func BenchmarkShrink(b *testing.B) {
	const left = 250_000
	full := map[string]*slot{}
	for i := range left {
		full[fmt.Sprintf("some/key/%08d", i)] = &slot{}
	}
	for b.Loop() {
		m := shrinking[string, *slot]{of: full, most: 4 * left}
		m.shrink(nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*left), "ns/key")
}
