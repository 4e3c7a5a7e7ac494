package landingtest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player"
	"confcenter/player/field"
)

var rowChecks = []check{
	{"ADatabaseWithoutTablesHasNoRows", aDatabaseWithoutTablesHasNoRows},
	{"RowsAreReadAsTheyWereWritten", rowsAreReadAsTheyWereWritten},
	{"H17RemovedRowsSayWhenAndKeepTheLastValue", h17RemovedRowsSayWhenAndKeepTheLastValue},
	{"H15ARevivedRowIsNotRemovedAnyMore", h15ARevivedRowIsNotRemovedAnyMore},
	{"H6AnyNamesAreIntactAndApart", h6AnyNamesAreIntactAndApart},
	{"H35KeysThatDifferInCaseAreTwoRows", h35KeysThatDifferInCaseAreTwoRows},
	{"H33TablesDifferByAppAndRegionAndCase", h33TablesDifferByAppAndRegionAndCase},
	{"H7BinaryValuesAreIdentical", h7BinaryValuesAreIdentical},
	{"H36ValuesOfAMebibyteAreWhole", h36ValuesOfAMebibyteAreWhole},
	{"H32AnOlderVersionNeverReplacesANewer", h32AnOlderVersionNeverReplacesANewer},
	{"RowsWithoutAVersionGiveWay", rowsWithoutAVersionGiveWay},
	{"OwnersAreInTheOrderOfTheirBytes", ownersAreInTheOrderOfTheirBytes},
	{"ManyFieldsOfOneOwner", manyFieldsOfOneOwner},
	{"ATableThatIsGoneIsMissed", aTableThatIsGoneIsMissed},
	{"ATableThatIsEmptiedIsMissed", aTableThatIsEmptiedIsMissed},
	{"H25OnlyTheRefusedRowsAreLeft", h25OnlyTheRefusedRowsAreLeft},
}

func aDatabaseWithoutTablesHasNoRows(t *testing.T, d *Database) {
	require.Empty(t, All(t, d, Player))
	rows, err := d.Fields(ctx, Player, []string{"a", "b"})
	require.NoError(t, err)
	require.Empty(t, rows)
	owners := Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Limit: 10})
	require.Empty(t, owners)
	tables, err := d.Tables(ctx)
	require.NoError(t, err)
	require.Empty(t, tables)
}

func rowsAreReadAsTheyWereWritten(t *testing.T, d *Database) {
	want := Row(Player, "a", "x", 7)
	want.Removed, want.RemovedAt = true, 99
	Write(t, d, want, Row(Player, "b", "", 8), Row(Player, "c", "z", 9))
	rows, err := d.Fields(ctx, Player, []string{"a", "nope"})
	require.NoError(t, err)
	require.Equal(t, []field.Row{want.Row}, rows)
	require.Equal(t, map[string]string{"a": "x v7 removed 99", "b": " v8", "c": "z v9"}, All(t, d, Player))
	tables, err := d.Tables(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"1_1"}, tables)
}

// The columns of the document, for those who query the database by themselves.
func h17RemovedRowsSayWhenAndKeepTheLastValue(t *testing.T, d *Database) {
	gone := Row(Player, "a", "last", 5)
	gone.Removed, gone.RemovedAt = true, 1_700_000_000_123
	Write(t, d, gone)
	var primary, logic, owner, key, queryAll string
	var value []byte
	var version, isDel, delTime, created, updated int64
	require.NoError(t, d.DB.QueryRow("SELECT primary_key, logic_type, owner_id, "+d.Dialect.Quote("key")+", value, up_version, is_del, del_time, query_all_key, create_time, update_time FROM "+d.Dialect.Quote("1_1")).
		Scan(&primary, &logic, &owner, &key, &value, &version, &isDel, &delTime, &queryAll, &created, &updated))
	require.Equal(t, "user:100:a user 100 a last 5 1 1700000000123 user:100 1000 1005",
		fmt.Sprint(primary, " ", logic, " ", owner, " ", key, " ", string(value), " ", version, isDel, delTime, " ", queryAll, " ", created, updated))
}

func h15ARevivedRowIsNotRemovedAnyMore(t *testing.T, d *Database) {
	gone := Row(Player, "a", "old", 5)
	gone.Removed, gone.RemovedAt = true, 77
	Write(t, d, gone)
	again := Row(Player, "a", "new", 6)
	again.Created = 2000
	Write(t, d, again)
	rows, err := d.All(ctx, Player)
	require.NoError(t, err)
	again.Created = 1000 // is kept
	require.Equal(t, []field.Row{again.Row}, rows)
}

// H6, H33 and H35: names that mean something to SQL, LIKE, JSON or file systems, and those that
// differ only in case, accents or trailing blanks.
func h6AnyNamesAreIntactAndApart(t *testing.T, d *Database) {
	parts := []string{"a", "A", "a ", "á", "&", ":", "%", "_", "'", "\"", "`", "\\", "{}", "--", ";", "?", "$1", "😀", "\u0301", "\n", "sqlite_x", "^a"}
	var rows []field.DirtyRow
	for i, part := range parts {
		other := parts[(i+1)%len(parts)]
		rows = append(rows,
			Row(field.Owner{App: "1", Region: "1", Logic: part, ID: other}, part, "1"+part, int64(4*i+1)),
			Row(field.Owner{App: part, Region: other, Logic: "l", ID: "o"}, other, "2"+part, int64(4*i+2)),
			Row(field.Owner{App: "1", Region: "1", Logic: "l", ID: "o"}, part, "3"+part, int64(4*i+3)))
	}
	Write(t, d, rows...)
	Write(t, d, rows...) // and each finds its own again
	for i := range rows {
		found, err := d.Fields(ctx, rows[i].Owner, []string{rows[i].Name})
		require.NoError(t, err)
		require.Equal(t, []field.Row{rows[i].Row}, found)
	}
	require.Len(t, All(t, d, field.Owner{App: "1", Region: "1", Logic: "l", ID: "o"}), len(parts))
	tables, err := d.Tables(ctx)
	require.NoError(t, err)
	require.Len(t, tables, len(parts)+1)
	for i := range rows {
		require.Contains(t, tables, rows[i].Table())
	}
}

func h35KeysThatDifferInCaseAreTwoRows(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "K", "big", 1), Row(Player, "k", "small", 2), Row(Player, "k ", "blank", 3))
	require.Equal(t, map[string]string{"K": "big v1", "k": "small v2", "k ": "blank v3"}, All(t, d, Player))
}

func h33TablesDifferByAppAndRegionAndCase(t *testing.T, d *Database) {
	var rows []field.DirtyRow
	for i, pair := range [][2]string{{"1", "1"}, {"1", "2"}, {"2", "1"}, {"a", "b"}, {"A", "b"}, {"a", "B"}, {"sqlite", "b"}, {strings.Repeat("x", 31), strings.Repeat("y", 31)}} {
		rows = append(rows, Row(field.Owner{App: pair[0], Region: pair[1], Logic: "l", ID: "o"}, "k", fmt.Sprint(pair), int64(i+1)))
	}
	Write(t, d, rows...)
	for i := range rows {
		require.Equal(t, map[string]string{"k": fmt.Sprintf("%s v%d", rows[i].Value, i+1)}, All(t, d, rows[i].Owner))
	}
}

func h7BinaryValuesAreIdentical(t *testing.T, d *Database) {
	var every []byte
	for b := range 256 {
		every = append(every, byte(b), '\\', '\'', 0)
	}
	Write(t, d, Row(Player, "bytes", string(every), 1), Row(Player, "zero", "\x00", 2), Row(Player, "flag", ":delFlag", 3))
	found, err := d.Fields(ctx, Player, []string{"bytes"})
	require.NoError(t, err)
	require.Equal(t, every, found[0].Value)
	require.Equal(t, "\x00 v2", All(t, d, Player)["zero"])
	require.Equal(t, ":delFlag v3", All(t, d, Player)["flag"])
}

func h36ValuesOfAMebibyteAreWhole(t *testing.T, d *Database) {
	var rows []field.DirtyRow
	for i := range 9 { // several statements
		rows = append(rows, Row(Player, fmt.Sprint("f", i), strings.Repeat("\x00'\\"+fmt.Sprint(i), 1<<18), int64(i+1)))
	}
	require.Greater(t, Write(t, d, rows...).Statements, 1)
	for i := range rows {
		found, err := d.Fields(ctx, Player, []string{rows[i].Name})
		require.NoError(t, err)
		require.True(t, bytes.Equal(rows[i].Value, found[0].Value))
	}
}

// H28, H32: whatever comes late, no matter who sends it.
func h32AnOlderVersionNeverReplacesANewer(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "new", 10), Row(Player, "b", "old", 3))
	stale := Row(Player, "a", "stale", 9)
	stale.Removed, stale.RemovedAt = true, 5
	w := Write(t, d, Row(Player, "c", "first", 1), stale, Row(Player, "b", "newer", 4))
	require.EqualValues(t, 10, w.Newer)
	require.Equal(t, map[string]string{"a": "new v10", "b": "newer v4", "c": "first v1"}, All(t, d, Player))
	require.Zero(t, Write(t, d, Row(Player, "a", "new", 10), Row(Player, "b", "newer", 4)).Newer, "the same again is not newer")
	require.Zero(t, Write(t, d, Row(Player, "a", "newest", 11), Row(Player, "d", "x", 1)).Newer)
	require.Equal(t, "newest v11", All(t, d, Player)["a"])
	found, err := d.Fields(ctx, Player, []string{"b"})
	require.NoError(t, err)
	require.EqualValues(t, 1004, found[0].Updated)
}

func rowsWithoutAVersionGiveWay(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "theirs", 1))
	if d.Address.Kind != "sqlite" {
		Exec(t, d, map[bool]string{true: "ALTER TABLE `1_1` MODIFY up_version BIGINT NULL", false: `ALTER TABLE "1_1" ALTER up_version DROP NOT NULL`}[d.Address.Kind == "mysql"])
		Exec(t, d, "UPDATE "+d.Dialect.Quote("1_1")+" SET up_version = NULL")
	}
	require.Contains(t, []string{"theirs v0", "theirs v1"}, All(t, d, Player)["a"])
	require.Zero(t, Write(t, d, Row(Player, "a", "ours", 2)).Newer)
	require.Equal(t, "ours v2", All(t, d, Player)["a"])
}

func ownersAreInTheOrderOfTheirBytes(t *testing.T, d *Database) {
	var rows []field.DirtyRow
	for i, id := range []string{"b", "a", "B", "a!", "á", "é", "Z", "10", "9"} {
		o := Player
		o.ID = id
		rows = append(rows, Row(o, "x", "1", int64(2*i+1)), Row(o, "y", "2", int64(2*i+2)))
	}
	gone := Row(field.Owner{App: "1", Region: "1", Logic: "user", ID: "gone"}, "x", "1", 1)
	gone.Removed = true
	Write(t, d, append(rows, gone, Row(field.Owner{App: "1", Region: "1", Logic: "guild", ID: "g"}, "x", "1", 1))...)
	want := []string{"user:10", "user:9", "user:B", "user:Z", "user:a", "user:a!", "user:b", "user:á", "user:é"}
	owners := Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Logic: "user", Limit: 100})
	require.Equal(t, want, owners)
	owners = Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Limit: 2})
	require.Equal(t, []string{"guild:g", "user:10"}, owners)
	owners = Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Logic: "user", After: "user:b", Limit: 2, Removed: true})
	require.Equal(t, []string{"user:gone", "user:á"}, owners)
	owners = Owners(t, d, player.OwnerQuery{App: "1", Region: "1", After: "user:a", Limit: 3})
	require.Equal(t, []string{"user:a!", "user:b", "user:á"}, owners)
}

func manyFieldsOfOneOwner(t *testing.T, d *Database) {
	var rows []field.DirtyRow
	var names []string
	for i := range 4500 {
		names = append(names, fmt.Sprint("f", i))
		rows = append(rows, Row(Player, names[i], "v", int64(i+1)))
	}
	Write(t, d, rows...)
	require.Len(t, All(t, d, Player), len(rows))
	found, err := d.Fields(ctx, Player, names)
	require.NoError(t, err)
	require.Len(t, found, len(rows))
}

// What a table had that is not there any more is not known: it is neither read as if it had
// nothing, nor made again, by those who have used it and by others.
func aTableThatIsGoneIsMissed(t *testing.T, d *Database) {
	other := Player
	other.Region = "2"
	Write(t, d, Row(Player, "a", "1", 1))
	Exec(t, d, "ALTER TABLE "+d.Dialect.Quote("1_1")+" RENAME TO elsewhere")
	for _, d := range []*Database{d, d.Again(t)} {
		for range 2 {
			w, err := d.Write(ctx, []field.DirtyRow{Row(Player, "b", "2", 2), Row(other, "b", "2", 2)})
			require.NoError(t, err)
			require.Equal(t, 1, w.Rows, "the other table's")
			require.ErrorIs(t, w.Unfit, codes.Storage)
			require.Len(t, w.Failed, 1)
			require.Contains(t, w.Failed[0].Reason, "is not in the landing database any more")
			isUnusable(t, d, "1_1", "is not in the landing database any more")
			require.Equal(t, map[string]string{"b": "2 v2"}, All(t, d, other))
		}
	}
	Exec(t, d, "ALTER TABLE elsewhere RENAME TO "+d.Dialect.Quote("1_1"))
	Write(t, d, Row(Player, "b", "2", 2))
	require.Equal(t, map[string]string{"a": "1 v1", "b": "2 v2"}, All(t, d, Player))
	other.Region = "3"
	require.Empty(t, All(t, d, other), "it was never there")
}

// A table that had rows, and is empty or another one, is as one that is missing: what it had is not
// known. What has purged the last row knows that there is none.
func aTableThatIsEmptiedIsMissed(t *testing.T, d *Database) {
	table, gone := d.Dialect.Quote("1_1"), "has been emptied, or made again"
	copied := func(t *testing.T, d *Database) {
		Exec(t, d, "ALTER TABLE "+table+" RENAME TO elsewhere")
	}
	for name, way := range map[string]struct {
		change func(t *testing.T, d *Database)
		why    string // "": gone
		later  bool   // what was found about its shape a minute ago may still count
	}{
		"deleted": {func(t *testing.T, d *Database) { Exec(t, d, "DELETE FROM "+table) }, gone, false},
		"made again": {func(t *testing.T, d *Database) {
			Exec(t, d, "DROP TABLE "+table)
			for _, statement := range d.Dialect.Create("1_1") {
				Exec(t, d, statement)
			}
		}, gone, false},
		"an empty view": {func(t *testing.T, d *Database) {
			copied(t, d)
			Exec(t, d, "CREATE VIEW "+table+" AS SELECT * FROM elsewhere WHERE 1 = 0")
		}, "", false},
		"an empty table without a key": {func(t *testing.T, d *Database) {
			copied(t, d)
			Exec(t, d, "CREATE TABLE "+table+" AS SELECT * FROM elsewhere WHERE 1 = 0")
		}, "", false},
		"a view": {func(t *testing.T, d *Database) {
			copied(t, d)
			Exec(t, d, "CREATE VIEW "+table+" AS SELECT * FROM elsewhere")
		}, "is not the primary key", true},
		"a table without a key": {func(t *testing.T, d *Database) {
			copied(t, d)
			Exec(t, d, "CREATE TABLE "+table+" AS SELECT * FROM elsewhere")
		}, "is not the primary key", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := d.Kind.Open(t)
			Write(t, d, Row(Player, "a", "1", 1))
			All(t, d, Player)
			way.change(t, d)
			users := []*Database{d, d.Again(t)}
			if way.later {
				users = users[1:]
			}
			for _, d := range users {
				for range 2 {
					isUnusable(t, d, "the table 1_1, in which fields have been landed", way.why, "--landing-moved")
					w, err := d.Write(ctx, []field.DirtyRow{Row(Player, "b", "2", 2)})
					require.NoError(t, err)
					require.ErrorIs(t, w.Unfit, codes.Storage)
					require.Len(t, w.Failed, 1)
					require.Contains(t, w.Failed[0].Reason, way.why)
				}
			}
		})
	}
	removed := Row(Player, "a", "1", 1)
	removed.Removed, removed.RemovedAt = true, 1000
	Write(t, d, removed)
	done, err := d.Purge(ctx, player.Purge{App: "1", Region: "1", Removed: 1000, Below: 2, Limit: 7})
	require.NoError(t, err)
	require.Equal(t, 1, done.Rows)
	require.Empty(t, All(t, d, Player), "it is known that it is empty")
	require.Empty(t, Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Limit: 2, Removed: true}))
	Write(t, d, Row(Player, "b", "2", 2))
	Exec(t, d, "DELETE FROM "+table)
	isUnusable(t, d, gone)
	for _, statement := range []string{"DROP TABLE confcenter__identity", "DROP TABLE " + table} { // of an earlier version
		Exec(t, d, statement)
	}
	Write(t, d, Row(Player, "c", "3", 3))
}

// isUnusable says that the player's table is not read, and why.
func isUnusable(t *testing.T, d *Database, why ...string) {
	t.Helper()
	_, all := d.All(ctx, Player)
	_, fields := d.Fields(ctx, Player, []string{"a"})
	list := d.Owners(ctx, player.OwnerQuery{App: "1", Region: "1", Limit: 1}, func([]byte) {})
	_, purge := d.Purge(ctx, player.Purge{App: "1", Region: "1", Limit: 1})
	for _, err := range []error{all, fields, list, purge} {
		require.ErrorIs(t, err, codes.Unreachable)
		require.ErrorAs(t, err, new(*player.Unusable))
		for _, text := range why {
			require.Contains(t, codes.Message(err), text)
		}
		require.NotContains(t, codes.Message(err), d.Name())
		require.Contains(t, err.Error(), d.Name())
	}
}

func h25OnlyTheRefusedRowsAreLeft(t *testing.T, d *Database) {
	poison(t, d)
	var rows []field.DirtyRow
	for i := range 1000 {
		rows = append(rows, Row(Player, fmt.Sprintf("f%03d", i), "good", int64(i+1)))
	}
	rows[17].Value, rows[800].Value = []byte("poison"), []byte("poison")
	w, err := d.Write(ctx, rows)
	require.NoError(t, err)
	require.Equal(t, 998, w.Rows)
	require.LessOrEqual(t, w.Statements, 45, "halves, not one by one")
	require.Len(t, w.Failed, 2)
	require.Equal(t, "user:100:f017 user:100:f800", w.Failed[0].Key+" "+w.Failed[1].Key)
	require.Contains(t, w.Failed[0].Reason, "antidote")
	require.Len(t, All(t, d, Player), 999)
	heal(t, d)
	Write(t, d, Row(Player, "f017", "poison", 18), Row(Player, "f800", "poison", 801))
	require.Equal(t, "poison v801", All(t, d, Player)["f800"])
}

// poison has the database refuse one value.
func poison(t testing.TB, d *Database) {
	t.Helper()
	Write(t, d, Row(Player, "there", "1", 1))
	switch d.Address.Kind {
	case "mysql":
		Exec(t, d, "ALTER TABLE `1_1` ADD CONSTRAINT antidote CHECK (value <> 'poison')")
	case "postgres":
		Exec(t, d, `ALTER TABLE "1_1" ADD CONSTRAINT antidote CHECK (value <> 'poison'::bytea)`)
	default:
		Exec(t, d, `CREATE TRIGGER antidote BEFORE INSERT ON "1_1" WHEN NEW.value = CAST('poison' AS BLOB) BEGIN SELECT RAISE(ABORT, 'antidote'); END`)
	}
}

// heal takes that back.
func heal(t testing.TB, d *Database) {
	t.Helper()
	switch d.Address.Kind {
	case "sqlite":
		Exec(t, d, "DROP TRIGGER antidote")
	default:
		Exec(t, d, "ALTER TABLE "+d.Dialect.Quote("1_1")+" DROP CONSTRAINT antidote")
	}
}
