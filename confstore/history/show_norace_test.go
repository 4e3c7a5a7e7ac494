//go:build !race

package history_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/confstore/history"
)

func TestALongFileIsShownInPieces(t *testing.T) {
	for _, size := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 5 << 20, 16<<20 - 64} {
		k := near(t, nil)
		text := `"` + strings.Repeat("€\\n\"\n"[:3], size/3) + `"`
		k.write("long.json", text)
		_, is := k.show(history.ShowAsk{Name: "long"})
		require.True(t, text == is)
		_, is = k.show(history.ShowAsk{Name: "long", Resolved: true})
		require.True(t, text == is)
		_, err := k.Show(k.ctx, nil, &history.ShowAsk{Name: "long", Offset: int64(len(text)) + 1})
		k.refused(err, codes.BadRequest, "offset is")
	}
}
