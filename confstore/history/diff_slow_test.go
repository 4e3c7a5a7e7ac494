//go:build !race || soak

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/history"
)

func TestLargeDifferencesArePaged(t *testing.T) {
	each(t, nil, func(t *testing.T, k *kit) {
		var old, new strings.Builder
		long := strings.Repeat("x", 1000)
		const values = 1200
		for i := range values {
			fmt.Fprintf(&old, ",\n\"%d\":%d", i, i)
			fmt.Fprintf(&new, ",\n\"%d\":\"%s\"", i, long)
		}
		k.write("a.json", `{"long":"`+strings.Repeat(long, 6)+`"`+old.String()+"}")
		k.write("a.json", `{"long":"`+long+`"`+new.String()+"}")
		paths := k.diff(history.DiffAsk{Name: "a", Paths: true}).Paths
		require.Len(t, paths, 1+values)
		require.EqualValues(t, 6002, paths[0].OldLength)
		require.Nil(t, paths[0].Old)
		require.Equal(t, fmt.Sprint(values-1), string(paths[values].Old))
		text := k.diff(history.DiffAsk{Name: "a"}).Text
		require.Greater(t, len(text), 1<<20)
		require.Equal(t, 2*(1+values), strings.Count(text, "\n-\"")+strings.Count(text, "\n+\"")+strings.Count(text, "\n-{")+strings.Count(text, "\n+{"))
	})
}
