package jsonpath_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/internal/jsonpath"
)

// Each path has all the keys above it. Where one of these is long, there is as much to write as to read where documents are
// deep.
func TestComparingEndsWherePathsAreLong(t *testing.T) {
	one := func(digit string) []byte {
		return []byte(`{"` + strings.Repeat("k", 1<<20) + `":[` + strings.Repeat(digit+",", 4095) + digit + `]}`)
	}
	told := 0
	c := jsonpath.Comparer{Tell: func(path string, _ jsonpath.Difference, _, _ []byte) { told += len(path) }}
	require.ErrorIs(t, c.Compare(one("1"), one("2")), jsonpath.ErrTooDeep)
	require.Less(t, told, 600<<20)
}
