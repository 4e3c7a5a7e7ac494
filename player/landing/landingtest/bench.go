package landingtest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/player/field"
	"confcenter/player/landing"
)

// BenchmarkRows writes new rows of 100 bytes, a thousand in a statement: as landing does, and by
// a bare INSERT of the same rows.
func BenchmarkRows(b *testing.B, kinds ...Kind) {
	for _, k := range kinds {
		for _, bare := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/bare=%t", k.Name, bare), func(b *testing.B) {
				d := k.Open(b)
				Write(b, d, Row(Player, "first", "1", 1)) // makes the table
				n := 0
				for b.Loop() {
					rows := make([]field.DirtyRow, 1000)
					for i := range rows {
						n++
						o := Player
						o.ID = fmt.Sprint(n / 10)
						rows[i] = Row(o, fmt.Sprint("field", n%10), strings.Repeat("x", 100), int64(n))
					}
					if g := (landing.Guard{Until: math.MaxInt64}); bare {
						_, err := d.DB.Exec(d.Dialect.Bind(landing.Insert(d.Dialect, "1_1")+landing.Values(d.Dialect, g, len(rows))), landing.Arguments(rows, g)...)
						require.NoError(b, err)
						continue
					}
					Write(b, d, rows...)
				}
				b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}
