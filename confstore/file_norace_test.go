//go:build !race

package confstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOriginsAreBounded(t *testing.T) {
	deep := bytes.Repeat([]byte(`{"`+strings.Repeat("k", 10_000)+`":`), 500)
	deep = append(deep, `{"x":1,`...)
	for i := range 5000 {
		deep = fmt.Appendf(deep, `"%d":1,`, i)
	}
	deep = append(append(deep, `"y":1}`...), bytes.Repeat([]byte(`}`), 500)...)
	m := newMemKit(t, map[string]string{"deep.json": string(deep)})
	require.NotNil(t, m.Snapshot().Node("deep.json"))
	list, complete := m.Snapshot().Node("deep.json").Origins()
	require.False(t, complete)
	require.Less(t, len(list), 5)
}
