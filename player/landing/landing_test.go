//go:build !race || soak

package landing_test

import (
	"context"
	"testing"

	"confcenter/player/landing/landingtest"
)

// What is tested here needs SQLite only. integration/landing has the same on MariaDB and
// PostgreSQL, and what is about these.

var ctx = context.Background()

const patience = landingtest.Patience

var (
	someone = landingtest.Player
	row     = landingtest.Row
	write   = landingtest.Write
)

func TestOnSQLite(t *testing.T) { landingtest.Run(t, landingtest.SQLite) }

func BenchmarkRows(b *testing.B) { landingtest.BenchmarkRows(b, landingtest.SQLite) }
