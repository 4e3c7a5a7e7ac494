package field_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/kv"
	"confcenter/kv/kvjson"
	"confcenter/player/field"
	"confcenter/player/playerjson"
)

// No field takes more as JSON than it is taken to, and none that could not be sent.
func TestAFieldIsNoLongerThanItsSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.SampledFrom([]string{"\x00", "\n", `"`, "\\", "a", "é", "\xff", "\x7f", "\u2028", "<"}), rapid.String())
		long := rapid.SampledFrom([]int{1, 1000, 30_000, kv.MaxValue}).Draw(t, "long")
		value := strings.Repeat(part.Draw(t, "value")+part.Draw(t, "more"), long)
		f := field.Field{Name: part.Draw(t, "name"), Value: []byte(value[:min(len(value), kv.MaxValue)]), Version: -1 << 63}
		var w kvjson.Writer
		w.Buf = append(w.Buf, '{')
		playerjson.WriteFields(&w, []field.Field{f}, true)
		playerjson.WriteDirty(&w, []field.Field{f}, -1<<63)
		require.LessOrEqual(t, len(w.Buf), len(`{"fields":{},"bytes":{},"versions":{},"dirty":[]}`)+f.Size())
		require.Less(t, f.Size(), 4<<20)
	})
}
