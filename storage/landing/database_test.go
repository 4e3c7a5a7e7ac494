package landing

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/storage"
)

func TestADatabaseWithoutTablesHasNoRows(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		require.Empty(t, all(t, d, player))
		rows, err := d.Fields(ctx, player, []string{"a", "b"})
		require.NoError(t, err)
		require.Empty(t, rows)
		owners := ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", Limit: 10})
		require.Empty(t, owners)
		tables, err := d.Tables(ctx)
		require.NoError(t, err)
		require.Empty(t, tables)
	})
}

func TestRowsAreReadAsTheyWereWritten(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		want := row(player, "a", "x", 7)
		want.Removed, want.RemovedAt = true, 99
		write(t, d, want, row(player, "b", "", 8), row(player, "c", "z", 9))
		rows, err := d.Fields(ctx, player, []string{"a", "nope"})
		require.NoError(t, err)
		require.Equal(t, []storage.Row{want.Row}, rows)
		require.Equal(t, map[string]string{"a": "x v7 removed 99", "b": " v8", "c": "z v9"}, all(t, d, player))
		tables, err := d.Tables(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"1_1"}, tables)
	})
}

// The columns of the document, for those who query the database by themselves.
func TestH17RemovedRowsSayWhenAndKeepTheLastValue(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		gone := row(player, "a", "last", 5)
		gone.Removed, gone.RemovedAt = true, 1_700_000_000_123
		write(t, d, gone)
		var primary, logic, owner, key, queryAll string
		var value []byte
		var version, isDel, delTime, created, updated int64
		require.NoError(t, d.db.QueryRow("SELECT primary_key, logic_type, owner_id, "+d.dialect.quote("key")+", value, up_version, is_del, del_time, query_all_key, create_time, update_time FROM "+d.dialect.quote("1_1")).
			Scan(&primary, &logic, &owner, &key, &value, &version, &isDel, &delTime, &queryAll, &created, &updated))
		require.Equal(t, "user:100:a user 100 a last 5 1 1700000000123 user:100 1000 1005",
			fmt.Sprint(primary, " ", logic, " ", owner, " ", key, " ", string(value), " ", version, isDel, delTime, " ", queryAll, " ", created, updated))
	})
}

func TestH15ARevivedRowIsNotRemovedAnyMore(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		gone := row(player, "a", "old", 5)
		gone.Removed, gone.RemovedAt = true, 77
		write(t, d, gone)
		again := row(player, "a", "new", 6)
		again.Created = 2000
		write(t, d, again)
		rows, err := d.All(ctx, player)
		require.NoError(t, err)
		again.Created = 1000 // is kept
		require.Equal(t, []storage.Row{again.Row}, rows)
	})
}

// H6, H33 and H35: names that mean something to SQL, LIKE, JSON or file systems, and those that
// differ only in case, accents or trailing blanks.
func TestH6AnyNamesAreIntactAndApart(t *testing.T) {
	parts := []string{"a", "A", "a ", "á", "&", ":", "%", "_", "'", "\"", "`", "\\", "{}", "--", ";", "?", "$1", "😀", "\u0301", "\n", "sqlite_x", "^a"}
	var rows []storage.DirtyRow
	for i, part := range parts {
		other := parts[(i+1)%len(parts)]
		rows = append(rows,
			row(storage.Owner{App: "1", Region: "1", Logic: part, ID: other}, part, "1"+part, int64(4*i+1)),
			row(storage.Owner{App: part, Region: other, Logic: "l", ID: "o"}, other, "2"+part, int64(4*i+2)),
			row(storage.Owner{App: "1", Region: "1", Logic: "l", ID: "o"}, part, "3"+part, int64(4*i+3)))
	}
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, rows...)
		write(t, d, rows...) // and each finds its own again
		for i := range rows {
			found, err := d.Fields(ctx, rows[i].Owner, []string{rows[i].Name})
			require.NoError(t, err)
			require.Equal(t, []storage.Row{rows[i].Row}, found)
		}
		require.Len(t, all(t, d, storage.Owner{App: "1", Region: "1", Logic: "l", ID: "o"}), len(parts))
		tables, err := d.Tables(ctx)
		require.NoError(t, err)
		require.Len(t, tables, len(parts)+1)
		for i := range rows {
			require.Contains(t, tables, rows[i].Table())
		}
	})
}

func TestH35KeysThatDifferInCaseAreTwoRows(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "K", "big", 1), row(player, "k", "small", 2), row(player, "k ", "blank", 3))
		require.Equal(t, map[string]string{"K": "big v1", "k": "small v2", "k ": "blank v3"}, all(t, d, player))
	})
}

func TestH33TablesDifferByAppAndRegionAndCase(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var rows []storage.DirtyRow
		for i, pair := range [][2]string{{"1", "1"}, {"1", "2"}, {"2", "1"}, {"a", "b"}, {"A", "b"}, {"a", "B"}, {"sqlite", "b"}, {strings.Repeat("x", 31), strings.Repeat("y", 31)}} {
			rows = append(rows, row(storage.Owner{App: pair[0], Region: pair[1], Logic: "l", ID: "o"}, "k", fmt.Sprint(pair), int64(i+1)))
		}
		write(t, d, rows...)
		for i := range rows {
			require.Equal(t, map[string]string{"k": fmt.Sprintf("%s v%d", rows[i].Value, i+1)}, all(t, d, rows[i].Owner))
		}
	})
}

func TestH7BinaryValuesAreIdentical(t *testing.T) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b), '\\', '\'', 0)
	}
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "bytes", string(every), 1), row(player, "zero", "\x00", 2), row(player, "flag", ":delFlag", 3))
		found, err := d.Fields(ctx, player, []string{"bytes"})
		require.NoError(t, err)
		require.Equal(t, every, found[0].Value)
		require.Equal(t, "\x00 v2", all(t, d, player)["zero"])
		require.Equal(t, ":delFlag v3", all(t, d, player)["flag"])
	})
}

func TestH36ValuesOfAMebibyteAreWhole(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var rows []storage.DirtyRow
		for i := range 9 { // several statements
			rows = append(rows, row(player, fmt.Sprint("f", i), strings.Repeat("\x00'\\"+fmt.Sprint(i), 1<<18), int64(i+1)))
		}
		require.Greater(t, write(t, d, rows...).Statements, 1)
		for i := range rows {
			found, err := d.Fields(ctx, player, []string{rows[i].Name})
			require.NoError(t, err)
			require.True(t, bytes.Equal(rows[i].Value, found[0].Value))
		}
	})
}

// H28, H32: whatever comes late, whoever sends it.
func TestH32AnOlderVersionNeverReplacesANewer(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "new", 10), row(player, "b", "old", 3))
		stale := row(player, "a", "stale", 9)
		stale.Removed, stale.RemovedAt = true, 5
		w := write(t, d, row(player, "c", "first", 1), stale, row(player, "b", "newer", 4))
		require.EqualValues(t, 10, w.Newer)
		require.Equal(t, map[string]string{"a": "new v10", "b": "newer v4", "c": "first v1"}, all(t, d, player))
		require.Zero(t, write(t, d, row(player, "a", "new", 10), row(player, "b", "newer", 4)).Newer, "the same again is not newer")
		require.Zero(t, write(t, d, row(player, "a", "newest", 11), row(player, "d", "x", 1)).Newer)
		require.Equal(t, "newest v11", all(t, d, player)["a"])
		found, err := d.Fields(ctx, player, []string{"b"})
		require.NoError(t, err)
		require.EqualValues(t, 1004, found[0].Updated)
	})
}

func TestRowsWithoutAVersionGiveWay(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "theirs", 1))
		if _, ok := d.dialect.(sqliteDialect); !ok {
			exec(t, d, map[bool]string{true: "ALTER TABLE `1_1` MODIFY up_version BIGINT NULL", false: `ALTER TABLE "1_1" ALTER up_version DROP NOT NULL`}[d.address.kind == "mysql"])
			exec(t, d, "UPDATE "+d.dialect.quote("1_1")+" SET up_version = NULL")
		}
		require.Contains(t, []string{"theirs v0", "theirs v1"}, all(t, d, player)["a"])
		require.Zero(t, write(t, d, row(player, "a", "ours", 2)).Newer)
		require.Equal(t, "ours v2", all(t, d, player)["a"])
	})
}

func TestOwnersAreInTheOrderOfTheirBytes(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var rows []storage.DirtyRow
		for i, id := range []string{"b", "a", "B", "a!", "á", "é", "Z", "10", "9"} {
			o := player
			o.ID = id
			rows = append(rows, row(o, "x", "1", int64(2*i+1)), row(o, "y", "2", int64(2*i+2)))
		}
		gone := row(storage.Owner{App: "1", Region: "1", Logic: "user", ID: "gone"}, "x", "1", 1)
		gone.Removed = true
		write(t, d, append(rows, gone, row(storage.Owner{App: "1", Region: "1", Logic: "guild", ID: "g"}, "x", "1", 1))...)
		want := []string{"user:10", "user:9", "user:B", "user:Z", "user:a", "user:a!", "user:b", "user:á", "user:é"}
		owners := ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", Logic: "user", Limit: 100})
		require.Equal(t, want, owners)
		owners = ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", Limit: 2})
		require.Equal(t, []string{"guild:g", "user:10"}, owners)
		owners = ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", Logic: "user", After: "user:b", Limit: 2, Removed: true})
		require.Equal(t, []string{"user:gone", "user:á"}, owners)
		owners = ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", After: "user:a", Limit: 3})
		require.Equal(t, []string{"user:a!", "user:b", "user:á"}, owners)
	})
}

func TestManyFieldsOfOneOwner(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var rows []storage.DirtyRow
		var names []string
		for i := range 4500 {
			names = append(names, fmt.Sprint("f", i))
			rows = append(rows, row(player, names[i], "v", int64(i+1)))
		}
		write(t, d, rows...)
		require.Len(t, all(t, d, player), len(rows))
		found, err := d.Fields(ctx, player, names)
		require.NoError(t, err)
		require.Len(t, found, len(rows))
	})
}

func TestADroppedTableIsMadeAgain(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "1", 1))
		exec(t, d, "DROP TABLE "+d.dialect.quote("1_1"))
		write(t, d, row(player, "b", "2", 2))
		require.Equal(t, map[string]string{"b": "2 v2"}, all(t, d, player))
	})
}

// poison has the database refuse one value.
func poison(t testing.TB, d *Database) {
	t.Helper()
	write(t, d, row(player, "there", "1", 1))
	switch d.address.kind {
	case "mysql":
		exec(t, d, "ALTER TABLE `1_1` ADD CONSTRAINT antidote CHECK (value <> 'poison')")
	case "postgres":
		exec(t, d, `ALTER TABLE "1_1" ADD CONSTRAINT antidote CHECK (value <> 'poison'::bytea)`)
	default:
		exec(t, d, `CREATE TRIGGER antidote BEFORE INSERT ON "1_1" WHEN NEW.value = CAST('poison' AS BLOB) BEGIN SELECT RAISE(ABORT, 'antidote'); END`)
	}
}

// heal takes that back.
func heal(t testing.TB, d *Database) {
	t.Helper()
	switch d.address.kind {
	case "sqlite":
		exec(t, d, "DROP TRIGGER antidote")
	default:
		exec(t, d, "ALTER TABLE "+d.dialect.quote("1_1")+" DROP CONSTRAINT antidote")
	}
}

func TestH25OnlyTheRefusedRowsAreLeft(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		poison(t, d)
		var rows []storage.DirtyRow
		for i := range 1000 {
			rows = append(rows, row(player, fmt.Sprintf("f%03d", i), "good", int64(i+1)))
		}
		rows[17].Value, rows[800].Value = []byte("poison"), []byte("poison")
		w, err := d.Write(ctx, rows)
		require.NoError(t, err)
		require.Equal(t, 998, w.Rows)
		require.LessOrEqual(t, w.Statements, 45, "halves, not one by one")
		require.Len(t, w.Failed, 2)
		require.Equal(t, "user:100:f017 user:100:f800", w.Failed[0].Key+" "+w.Failed[1].Key)
		require.Contains(t, w.Failed[0].Reason, "antidote")
		require.Len(t, all(t, d, player), 999)
		heal(t, d)
		write(t, d, row(player, "f017", "poison", 18), row(player, "f800", "poison", 801))
		require.Equal(t, "poison v801", all(t, d, player)["f800"])
	})
}

// Homo's own tables compare keys without case: rows would overwrite each other.
func TestATableThatCannotHoldFieldsIsRefusedByName(t *testing.T) {
	d := open(t, databases["MariaDB"](t))
	homo := "(primary_key VARCHAR(255) PRIMARY KEY, logic_type VARCHAR(255), owner_id VARCHAR(255), `key` VARCHAR(100), value BLOB, up_version BIGINT, is_del INTEGER, del_time BIGINT DEFAULT 0, query_all_key VARCHAR(255), create_time BIGINT DEFAULT 0, update_time BIGINT DEFAULT 0)"
	for _, test := range []struct{ table, why string }{
		{homo + " DEFAULT CHARSET utf8", "under which different keys are equal"},
		{homo + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin", "under which different keys are equal"},
		{homo + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_nopad_bin", "value is a blob, which is too short"},
		{strings.Replace(strings.Replace(homo, " PRIMARY KEY", "", 1), "value BLOB", "value LONGBLOB", 1) + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_nopad_bin", "is not the primary key"},
		{"(query_all_key VARCHAR(255), is_del INT)", "it has no column primary_key"},
	} {
		exec(t, d, "CREATE TABLE `1_1` "+test.table)
		other := row(storage.Owner{App: "2", Region: "1", Logic: "l", ID: "o"}, "k", "v", 1)
		w, err := d.Write(ctx, []storage.DirtyRow{row(player, "a", "1", 1), other})
		require.NoError(t, err)
		require.Equal(t, 1, w.Rows, "the other table's")
		require.Len(t, w.Failed, 1)
		require.Contains(t, w.Failed[0].Reason, test.why)
		require.Contains(t, w.Failed[0].Reason, "1_1")
		require.Contains(t, w.Failed[0].Reason, "alter it")
		exec(t, d, "DROP TABLE `1_1`")
	}
	write(t, d, row(player, "a", "1", 1))
}

func TestADatabaseThatIsDownIsUnreachable(t *testing.T) {
	for _, dsn := range []string{
		"mysql://root:se+cret%25@127.0.0.1:1/test?timeout=1s", "postgres://root:se+cret%25@127.0.0.1:1/test", "sqlite:" + t.TempDir() + "/no/such/dir/file",
	} {
		d := open(t, dsn)
		_, err := d.Write(ctx, []storage.DirtyRow{row(player, "a", "1", 1)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.NotContains(t, err.Error(), "cret")
		require.Contains(t, err.Error(), d.Name())
		_, err = d.All(ctx, player)
		require.ErrorIs(t, err, codes.Unreachable)
		_, err = d.Tables(ctx)
		require.ErrorIs(t, err, codes.Unreachable)
		err = d.Owners(ctx, storage.OwnerQuery{App: "1", Region: "1", Limit: 1}, nil)
		require.ErrorIs(t, err, codes.Unreachable)
	}
}

// Somebody who changes a user's rights makes no row a bad one.
func TestMissingRightsAreNoFaultOfTheRows(t *testing.T) {
	admin := dbtestMariaDB(t)
	dsn := databases["MariaDB"](t)
	database := strings.TrimPrefix(dsn[:strings.Index(dsn, "?")], "mysql://root@/")
	for _, statement := range []string{"CREATE USER IF NOT EXISTS poor IDENTIFIED BY 'se+cret%'", "GRANT SELECT ON " + database + ".* TO poor"} {
		_, err := admin.Exec(statement)
		require.NoError(t, err)
	}
	for _, password := range []string{"se+cret%25", "wrong"} {
		d := open(t, strings.Replace(dsn, "root@", "poor:"+password+"@", 1))
		_, err := d.Write(ctx, []storage.DirtyRow{row(player, "a", "1", 1)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.Contains(t, err.Error(), "denied")
		require.NotContains(t, err.Error(), "cret%")
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
		d, err := OpenDatabase(dsn)
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
		folded := foldCase(table)
		require.Equal(t, table, unfoldCase(folded))
		require.Equal(t, strings.ToLower(folded), folded)
		require.False(t, strings.HasPrefix(folded, "sqlite_"))
	})
}
