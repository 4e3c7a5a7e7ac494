package history_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/history"
	"confcenter/op"
)

func BenchmarkLog(b *testing.B) {
	k := near(b, nil)
	for i := range 1000 {
		k.write("a.json", fmt.Sprintf(`{"n":%d}`, i))
		k.write("b.json", fmt.Sprintf(`{"n":%d}`, i))
	}
	m := &op.Model{Name: "history", Operations: history.Operations, Asked: k.asked}
	b.ReportAllocs()
	for b.Loop() {
		_, err := m.Answer(b.Context(), &history.Operations[0], nil, &history.LogAsk{Name: "a", Limit: 1000})
		require.NoError(b, err)
	}
}
