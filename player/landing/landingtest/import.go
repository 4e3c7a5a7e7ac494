package landingtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var importChecks = []check{
	{"AnImportRefusesWhatIsNoTableOfFields", anImportRefusesWhatIsNoTableOfFields},
}

// Import is an import in a test.
type Import struct {
	landing.Import
	Lines []string // what was listed
	Pages int
}

// NewImport makes an import of a table as that of app 1 and region 1.
func NewImport(from, to *Database, table string) *Import {
	m := &Import{Import: landing.Import{From: from.Database, To: to.Database, Table: table, App: "1", Region: "1"}}
	m.Told = func(*landing.Imported) error { m.Pages++; return nil }
	m.Listed = func(key, why string, refused bool) {
		m.Lines = append(m.Lines, fmt.Sprintf("%.40s: %s %v", key, why, refused))
	}
	return m
}

// Done imports, and must get to the end.
func (m *Import) Done(t testing.TB) *landing.Imported {
	t.Helper()
	now, err := m.Run(ctx)
	require.NoError(t, err)
	return now
}

func anImportRefusesWhatIsNoTableOfFields(t *testing.T, d *Database) {
	to := SQLite.Open(t)
	_, err := NewImport(d, to, "none").Run(ctx)
	require.ErrorIs(t, err, codes.NotFound)
	Exec(t, d, "CREATE TABLE less (primary_key VARCHAR(20), logic_type VARCHAR(20), owner_id VARCHAR(20))")
	_, err = NewImport(d, to, "less").Run(ctx)
	require.ErrorContains(t, err, "has no column key")
	Exec(t, d, "CREATE TABLE bare ("+d.Dialect.Quote("primary_key")+" VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(20), owner_id VARCHAR(20), "+d.Dialect.Quote("key")+" VARCHAR(20), value "+map[string]string{"mysql": "BLOB", "sqlite": "BLOB", "postgres": "BYTEA"}[d.Address.Kind]+")")
	Exec(t, d, "INSERT INTO bare VALUES ('user:100:a', 'user', '100', 'a', NULL)")
	require.NoError(t, NewImport(d, to, "bare").Done(t).Verdict())
	require.Equal(t, map[string]string{"a": " v0"}, All(t, to, Player))
	names, err := d.Importable(ctx)
	require.NoError(t, err)
	require.Empty(t, names)
}

// AnInterruptedImportGoesOnWhereItWas is a check of its own, beside Run: it takes long under the
// race detector.
func AnInterruptedImportGoesOnWhereItWas(t *testing.T, kinds ...Kind) {
	const pageRows = 2000 // of an import
	On(t, kinds, func(t *testing.T, from *Database) {
		to := from.Kind.Open(t)
		var rows []field.DirtyRow
		for i := range 3*pageRows + 5 {
			o := Player
			o.ID = fmt.Sprint(i)
			rows = append(rows, Row(o, "a", "1", 9))
		}
		Write(t, from, rows...)
		over := errors.New("over")
		m := NewImport(from, to, "1_1")
		for _, at := range []int{pageRows, 2 * pageRows} {
			m.Told = func(now *landing.Imported) error {
				require.EqualValues(t, at, now.Read)
				require.EqualValues(t, at-pageRows, now.Before)
				return over
			}
			_, err := m.Run(ctx)
			require.ErrorIs(t, err, over)
		}
		m.Told = func(now *landing.Imported) error { require.EqualValues(t, 2*pageRows, now.Before); return nil }
		now := m.Done(t)
		require.NoError(t, now.Verdict())
		require.EqualValues(t, len(rows), now.There)
		m.Told = func(now *landing.Imported) error { require.Zero(t, now.Before); return nil }
		require.NoError(t, m.Done(t).Verdict(), "it begins anew")
		canceled, cancel := context.WithCancel(ctx)
		m.Told = func(*landing.Imported) error { cancel(); return nil }
		_, err := m.Run(canceled)
		require.ErrorIs(t, err, context.Canceled)
		m.Restart, m.Told = true, func(now *landing.Imported) error { require.Zero(t, now.Before); return nil }
		require.NoError(t, m.Done(t).Verdict())
	})
}
