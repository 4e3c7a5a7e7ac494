//go:build !race

package jsonpath_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
	"confcenter/internal/jsontext"
)

// A chain of shared objects with a large value at its end must not be read again on each level: that takes a hundred times as long.
func TestMergeDeepIsLinear(t *testing.T) {
	payload := "[" + strings.Repeat(`[1,2,3,4],`, 40000) + "0]"
	chain := func(key string, levels int) []byte {
		return []byte(strings.Repeat(`{"a":`, levels) + fmt.Sprintf(`{%q:%s}`, key, payload) + strings.Repeat("}", levels))
	}
	measure := func(levels int) time.Duration {
		weak, strong := chain("x", levels), chain("y", levels)
		start := time.Now()
		merged := jsonpath.Merge([][]byte{weak, strong}, true)
		took := time.Since(start)
		_, err := jsontext.Check(merged)
		require.NoError(t, err)
		path := strings.Repeat("/a", levels)
		for _, key := range []string{"/x/40000", "/y/40000"} {
			value, ok := jsonpath.Lookup(merged, []byte(path+key))
			require.True(t, ok)
			require.Equal(t, "0", string(value))
		}
		return took
	}
	flat, deep := time.Hour, time.Hour // the best of some: others use the machine as well
	for tries := 0; tries < 3 || tries < 50 && deep >= 20*flat; tries++ {
		flat, deep = min(flat, measure(1)), min(deep, measure(jsontext.MaxDepth-3))
	}
	require.Less(t, deep, 20*flat)
}
