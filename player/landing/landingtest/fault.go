package landingtest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

var faultChecks = []check{
	{"AReadOnlyDatabaseIsReadAndWaitedFor", aReadOnlyDatabaseIsReadAndWaitedFor},
	{"ATableWithColumnsOfItsOwnIsLandedIn", aTableWithColumnsOfItsOwnIsLandedIn},
}

func aReadOnlyDatabaseIsReadAndWaitedFor(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "1", 1))
	reader, again := d.Kind.ReadOnly(t, d)
	for range 2 { // with a table that it knows, and a new one
		w, err := reader.Write(ctx, []field.DirtyRow{Row(Player, "a", "2", 2), Row(field.Owner{App: "2", Region: "2", Logic: "l", ID: "o"}, "a", "2", 2)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.Empty(t, w.Failed)
		require.Equal(t, map[string]string{"a": "1 v1"}, All(t, reader, Player))
	}
	Write(t, again(), Row(Player, "a", "2", 2))
}

// A table that others have made may number its rows.
func aTableWithColumnsOfItsOwnIsLandedIn(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "old", "1", 1))
	Exec(t, d, "ALTER TABLE "+d.Dialect.Quote("1_1")+map[string]string{
		"mysql": " ADD id BIGINT NOT NULL AUTO_INCREMENT UNIQUE, ADD note VARCHAR(9) DEFAULT 'x'", "postgres": " ADD id BIGSERIAL UNIQUE, ADD note TEXT DEFAULT 'x'", "sqlite": " ADD note TEXT DEFAULT 'x'",
	}[d.Address.Kind])
	require.Zero(t, Write(t, d, Row(Player, "a", "2", 2), Row(Player, "b", "3", 3)).Newer, "nobody has a later version")
	require.Zero(t, Write(t, d, Row(Player, "a", "4", 4), Row(Player, "c", "5", 5)).Newer)
	require.EqualValues(t, 4, Write(t, d, Row(Player, "a", "3", 3), Row(Player, "c", "6", 6), Row(Player, "d", "7", 7)).Newer)
	require.Equal(t, map[string]string{"old": "1 v1", "a": "4 v4", "b": "3 v3", "c": "6 v6", "d": "7 v7"}, All(t, d, Player))
}

// OtherColumns are those of a table in SQLite or PostgreSQL that are none of keys, to be written
// after those. Values are of the type blob.
func OtherColumns(blob string) string {
	return ", logic_type TEXT, owner_id TEXT, key TEXT, value " + blob + ", up_version BIGINT, is_del INT, del_time BIGINT, create_time BIGINT, update_time BIGINT"
}

// TablesThatMixKeysUpAreRefused is a check of its own, for SQLite and PostgreSQL, whose type of
// bytes is blob. Under the collations and types of the tables, keys that differ are equal, or
// rows have none. Of each it is given the columns, and what must be said of them.
func TablesThatMixKeysUpAreRefused(t *testing.T, d *Database, blob string, tables [][2]string) {
	for _, test := range tables {
		Exec(t, d, `CREATE TABLE "1_1" (`+test[0]+")")
		w, err := d.Write(ctx, []field.DirtyRow{Row(Player, "K", "1", 1), Row(Player, "k", "2", 2)})
		require.NoError(t, err)
		require.Zero(t, w.Rows)
		require.Len(t, w.Failed, 2)
		require.Contains(t, w.Failed[0].Reason, test[1])
		require.Contains(t, w.Failed[0].Reason, "alter it")
		require.ErrorIs(t, w.Unfit, codes.Storage)
		if strings.Contains(test[1], "collation") || strings.Contains(test[1], "of type") {
			isUnusable(t, d, "1_1", test[1])
		}
		Exec(t, d, `DROP TABLE "1_1"`)
	}
	Exec(t, d, `CREATE TABLE "1_1" (primary_key VARCHAR(255) PRIMARY KEY, query_all_key VARCHAR(255)`+OtherColumns(blob)+")")
	Write(t, d, Row(Player, "K", "1", 1), Row(Player, "k", "2", 2), Row(Player, "k ", "3", 3))
	require.Len(t, All(t, d, Player), 3)
}
