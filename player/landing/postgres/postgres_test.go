package postgres_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"confcenter/player/landing"
	_ "confcenter/player/landing/postgres"
)

func TestWhatErrorsMean(t *testing.T) {
	p, err := landing.PartsOf("postgres://h/db")
	require.NoError(t, err)
	for want, states := range map[landing.Fault][]string{
		landing.Unreachable: {"08006", "28P01", "3D000", "40001", "40P01", "42501", "25006", "53100", "53300", "55P03", "57014", "57P01", "57P03", "58030", "XX000", ""},
		landing.Refused:     {"22001", "22003", "22021", "23502", "23505", "23514", "42804", "42703", "P0001"},
		landing.Absent:      {"42P01"},
	} {
		for _, state := range states {
			require.Equal(t, want, p.Dialect.Fault(fmt.Errorf("it says: %w", &pgconn.PgError{Code: state})), state)
		}
	}
	require.Equal(t, landing.Broken, p.Dialect.Fault(io.ErrUnexpectedEOF))
}
