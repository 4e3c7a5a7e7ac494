//go:build !race || soak

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/confstore/history"
)

func TestExportIsReadInPieces(t *testing.T) {
	files := map[string]string{"empty.json": "{}", "long.json": `"` + strings.Repeat("é", 1_200_000) + `"`}
	for i := range 100 {
		files[fmt.Sprintf("dir/%d.json", i)] = fmt.Sprintf(`{"i":%d,"x":"%s"}`, i, strings.Repeat("x", 30_000))
	}
	each(t, files, func(t *testing.T, k *kit) {
		require.Equal(t, files, k.files(""))
		n := 0
		for q := (history.ExportAsk{Hashes: true}); ; {
			answer, err := k.Export(k.ctx, nil, &q)
			require.NoError(t, err)
			for _, d := range answer.Documents {
				require.Equal(t, hashOf(files[d.Name]), d.Hash)
				require.Empty(t, d.Text)
				n++
			}
			if q.From = answer.Next; q.From == "" {
				break
			}
		}
		require.Len(t, files, n)
		for _, q := range []history.ExportAsk{{Offset: 1}, {Offset: -1, From: "long.json"}, {Rev: "x"}, {From: "none.json"}, {From: "long.json", Offset: 1 << 40}} {
			_, err := k.Export(k.ctx, nil, &q)
			require.Error(t, err, "%+v", q)
		}
	})
}
