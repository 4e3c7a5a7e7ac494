package landing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/integration/dbtest"
	"confcenter/player/field"
	"confcenter/player/landing/landingtest"
)

// H27, with the database killed as kill -9 does.
func TestH27ADatabaseThatIsAwayCostsBacklogOnly(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *dbtest.Server{"MariaDB": dbtest.MariaDB, "PostgreSQL": dbtest.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			instance := server(t)
			d := landingtest.Open(t, instance.Database(t))
			s := landingtest.NewSource()
			s.Put(someone, "before", "1")
			l := landingtest.Start(t, s, d, "a")
			l.Lands(t, s)
			instance.Kill(t)
			for i := range 50 {
				s.Put(someone, fmt.Sprint("f", i), "written while it was away")
			}
			l.Pass(t, "it has tried often", func() bool { return l.Readings().Get("landing_failures_total") >= 10 })
			require.EqualValues(t, 1, l.Readings().Get("landing_unreachable"))
			require.Equal(t, 50, s.Left())
			instance.Start(t)
			l.Lands(t, s)
			s.Agree(t, d)
			require.Zero(t, l.Readings().Get("landing_unreachable"))
			require.Equal(t, 2, strings.Count(l.Log.String(), "\n"), "it is told once that it is away, and once that it is back: %s", l.Log)
		})
	}
}

// H28: the database dies in the middle of batches, again and again.
func TestH28TheDatabaseIsKilledInTheMiddleOfABatch(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *dbtest.Server{"MariaDB": dbtest.MariaDB, "PostgreSQL": dbtest.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			instance := server(t)
			d := landingtest.Open(t, instance.Database(t))
			s := landingtest.NewSource()
			s.Change(func(set *field.Settings) { set.Batch = 500 })
			l := landingtest.Start(t, s, d, "a")
			for round := range 3 {
				before := l.Readings().Get("landing_batches_total")
				for i := range 5000 {
					s.Put(someone, fmt.Sprint("f", i), fmt.Sprint(round, " ", i, strings.Repeat("x", 100)))
				}
				l.Clock.BlockUntil(1)
				l.Clock.Advance(10 * time.Second)
				require.Eventually(t, func() bool { return l.Readings().Get("landing_batches_total") > before }, time.Minute, time.Millisecond)
				instance.Kill(t)
				instance.Start(t)
			}
			l.Lands(t, s)
			s.Agree(t, d)
		})
	}
}
