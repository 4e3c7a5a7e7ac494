package sqlite_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/storage/landing"
	"confcenter/storage/landing/landingtest"
)

func TestWhatErrorsMean(t *testing.T) {
	p, err := landing.PartsOf("sqlite:" + t.TempDir() + "/a.db")
	require.NoError(t, err)
	defer p.DB.Close()
	require.Equal(t, landing.Unreachable, p.Dialect.Fault(io.ErrUnexpectedEOF))
}

func TestATableThatMixesKeysUpIsRefusedByName(t *testing.T) {
	rest := landingtest.OtherColumns("BLOB")
	landingtest.TablesThatMixKeysUpAreRefused(t, landingtest.SQLite.Open(t), "BLOB", [][2]string{
		{`primary_key TEXT COLLATE NOCASE PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation NOCASE"},
		{`primary_key TEXT COLLATE RTRIM PRIMARY KEY, query_all_key TEXT` + rest, "primary_key has the collation RTRIM"},
		{`primary_key TEXT PRIMARY KEY, query_all_key TEXT COLLATE NOCASE` + rest, "query_all_key has the collation NOCASE"},
		{`primary_key TEXT, query_all_key TEXT` + rest, "primary_key is not the primary key"},
		{`primary_key TEXT, query_all_key TEXT` + rest + `, PRIMARY KEY (primary_key, owner_id)`, "primary_key is not the primary key"},
	})
}
