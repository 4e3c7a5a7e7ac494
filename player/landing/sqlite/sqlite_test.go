package sqlite_test

import (
	"database/sql"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

func TestWhatErrorsMean(t *testing.T) {
	p, err := landing.PartsOf("sqlite:" + t.TempDir() + "/a.db")
	require.NoError(t, err)
	defer p.DB.Close()
	require.Equal(t, landing.Unreachable, p.Dialect.Fault(io.ErrUnexpectedEOF))
}

// SQLite refuses to change how a file is written at once, while another connection is about to write to it.
func TestAFileThatOthersMakeIsWaitedFor(t *testing.T) {
	file := t.TempDir() + "/a.db"
	other, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	require.NoError(t, err)
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	p, err := landing.PartsOf("sqlite:" + file)
	require.NoError(t, err)
	defer p.DB.Close()
	got := make(chan error, 1)
	go func() { got <- p.DB.PingContext(t.Context()) }()
	select {
	case err := <-got:
		require.FailNow(t, "it does not wait", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-got)
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
