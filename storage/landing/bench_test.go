package landing

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/storage"
)

// BenchmarkRows writes new rows of 100 bytes, a thousand in a statement: as landing does, and by
// a bare INSERT of the same rows.
func BenchmarkRows(b *testing.B) {
	for name, dsn := range databases {
		for _, bare := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/bare=%t", name, bare), func(b *testing.B) {
				d := open(b, dsn(b))
				write(b, d, row(player, "first", "1", 1)) // makes the table
				n := 0
				for b.Loop() {
					rows := make([]storage.DirtyRow, 1000)
					for i := range rows {
						n++
						o := player
						o.ID = fmt.Sprint(n / 10)
						rows[i] = row(o, fmt.Sprint("field", n%10), strings.Repeat("x", 100), int64(n))
					}
					if bare {
						_, err := d.db.Exec(d.dialect.bind(insert(d.dialect, "1_1")+manyRows(d.dialect, len(rows))), arguments(rows, math.MaxInt64)...)
						require.NoError(b, err)
						continue
					}
					write(b, d, rows...)
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
