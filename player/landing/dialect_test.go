//go:build !race || soak

package landing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// A program need not be able to use every kind of databases.
func TestADatabaseWithoutItsDialectIsRefused(t *testing.T) {
	known := dialects
	defer func() { dialects = known }()
	dialects = map[string]Opener{}
	for dsn, want := range map[string]string{
		"mysql://u:geheim@h/db":      "it begins with mysql:, and this program was built without MySQL (make build has it)",
		"postgresql://u:geheim@h/db": "it begins with postgres:, and this program was built without PostgreSQL (make build has it)",
		"sqlite:/a.db":               "it begins with sqlite:, and this program was built without SQLite (make build has it)",
		"oracle://u:geheim@h/db":     "it must begin with mysql://, postgres:// or sqlite:",
		"sqlite:":                    "sqlite: must be followed by the path of a file",
	} {
		_, err := OpenDatabase(dsn)
		require.ErrorIs(t, err, codes.BadRequest)
		require.EqualError(t, err, "the DSN of the landing database is not right: "+want)
	}
}

func TestADialectIsRegisteredOnce(t *testing.T) {
	known := dialects
	defer func() { dialects = known }()
	dialects = map[string]Opener{}
	Register("sqlite", known["sqlite"])
	require.Panics(t, func() { Register("sqlite", known["sqlite"]) })
}
