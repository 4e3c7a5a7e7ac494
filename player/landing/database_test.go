//go:build !race || soak

package landing_test

import (
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
	_ "confcenter/player/landing/mysql" // no server is needed for what it refuses
	_ "confcenter/player/landing/postgres"
)

func TestADatabaseThatIsDownIsUnreachable(t *testing.T) {
	for _, dsn := range []string{
		"mysql://root:se+cret%25@127.0.0.1:1/test?timeout=1s", "postgres://root:se+cret%25@127.0.0.1:1/test", "sqlite:" + t.TempDir() + "/no/such/dir/file",
	} {
		d := landingtest.Open(t, dsn)
		_, err := d.Write(ctx, []field.DirtyRow{row(someone, "a", "1", 1)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.NotContains(t, err.Error(), "cret")
		require.Contains(t, err.Error(), d.Name())
		_, err = d.All(ctx, someone)
		require.ErrorIs(t, err, codes.Unreachable)
		_, err = d.Tables(ctx)
		require.ErrorIs(t, err, codes.Unreachable)
		err = d.Owners(ctx, player.OwnerQuery{App: "1", Region: "1", Limit: 1}, nil)
		require.ErrorIs(t, err, codes.Unreachable)
	}
}

func TestDSNs(t *testing.T) {
	for dsn, want := range map[string]string{
		"mysql://u:p%40w@h:3307/db?tls=true":                  "mysql://u@h:3307/db",
		"postgres://u:pw@h/db?sslmode=disable":                "postgres://u@h/db",
		"postgresql://h/db":                                   "postgres://h/db",
		"sqlite:/a b/c.db":                                    "sqlite:/a b/c.db",
		"":                                                    "!begin with",
		"sqlite:":                                             "!path of a file",
		"oracle://u:geheim@h/db":                              "!begin with",
		"u:geheim@tcp(h)/db":                                  "!begin with",
		"mysql://u:geheim%@h/db":                              "!not a URL",
		"mysql://u:geheim@h:x/db":                             "!not a URL",
		"mysql://u:geheim@h/":                                 "!name of the database",
		"mysql://u:geheim@h/a/b":                              "!name of the database",
		"mysql://u:geheim@h/db?sql_mode=x":                    "!no parameter sql_mode",
		"mysql://u:geheim@h/db?a=%zz":                         "!not well formed",
		"mysql://u:geheim@h/db?tls=maybe":                     "!tls must be",
		"mysql://u:geheim@h/db?timeout=soon":                  "!timeout must be",
		"postgres://u:geheim@h/db?sslmode=maybe":              "!sslmode",
		"postgres://u:geheim@h/db?connect_timeout=geheimnis ": "!connect_timeout",
		"postgres://u@h/db?password=geheim@&sslmode=maybe":    "!sslmode",
	} {
		d, err := landing.OpenDatabase(dsn)
		if why, bad := strings.CutPrefix(want, "!"); bad {
			require.ErrorIs(t, err, codes.BadRequest, dsn)
			require.ErrorContains(t, err, why)
			require.NotContains(t, err.Error(), "geheim@")
			require.NotContains(t, err.Error(), ":geheim")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, d.Name())
		require.NoError(t, d.Close())
	}
}

// Where names of tables have no case, no two of them become one.
func TestFoldedNamesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_.-]{1,12}`), rapid.StringMatching(`(sqlite|SQLITE|SQlite)_[A-Za-z]{1,3}`)).Draw(t, "table")
		folded := landing.FoldCase(table)
		require.Equal(t, table, landing.UnfoldCase(folded))
		require.Equal(t, strings.ToLower(folded), folded)
		require.False(t, strings.HasPrefix(folded, "sqlite_"))
	})
}

// Anyone may read what a peer is answered.
func TestPeersAreNotToldWhereTheDatabaseIs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // no one listens there
	for _, kind := range []string{"mysql", "postgres"} {
		log := &landingtest.Log{}
		d := landingtest.Open(t, kind+"://keeper:secret@"+listener.Addr().String()+"/players")
		store := memory.New(memory.Config{})
		s, err := player.Open(player.Config{Store: store, Backing: d, Log: zerolog.New(log)})
		require.NoError(t, err)
		_, err = s.Load(ctx, someone, []string{"a"})
		_, _, list := s.Owners(ctx, "1", "1", "", "", 0)
		require.NoError(t, s.Close())
		require.NoError(t, store.Close())
		for _, err := range []error{err, list} {
			require.ErrorIs(t, err, codes.Unreachable)
			for _, internal := range []string{"keeper", "127.0.0.1", "players", "dial"} {
				require.NotContains(t, err.Error(), internal)
			}
		}
		require.Contains(t, log.String(), listener.Addr().String())
		require.NotContains(t, log.String(), "secret")
	}
}
