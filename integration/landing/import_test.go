package landing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

// foreignTable is the DDL of homo's landers.
const foreignTable = "CREATE TABLE IF NOT EXISTS `%s` (`primary_key` VARCHAR(255) NOT NULL, `logic_type` VARCHAR(255), `owner_id` VARCHAR(255), `key` VARCHAR(100), " +
	"`value` %s, `up_version` BIGINT, `is_del` INTEGER, `del_time` BIGINT DEFAULT 0, `query_all_key` VARCHAR(255), " +
	"`create_time` BIGINT DEFAULT 0, `update_time` BIGINT DEFAULT 0, PRIMARY KEY (`primary_key`)) ENGINE=InnoDB DEFAULT CHARSET=%s"

// others makes a table as homo's landers do.
func others(t testing.TB, d *landingtest.Database, name, charset string) {
	t.Helper()
	exec(t, d, fmt.Sprintf(foreignTable, name, "BLOB", charset))
}

// homo writes a row as homo's landers do.
func homo(t testing.TB, d *landingtest.Database, table, logic, owner, key string, value any) {
	t.Helper()
	exec(t, d, "INSERT INTO "+d.Dialect.Quote(table)+" (primary_key, logic_type, owner_id, `key`, value, is_del, query_all_key, create_time, update_time) VALUES (?, ?, ?, ?, ?, 0, ?, 11, 12)", logic+":"+owner+":"+key, logic, owner, key, value, logic+":"+owner)
}

func TestAnImportTakesOverTheFrameworksTable(t *testing.T) {
	for _, charset := range []string{"utf8", "utf8mb4", "latin1"} {
		t.Run(charset, func(t *testing.T) {
			from, to := mariaDB.Open(t), mariaDB.Open(t)
			others(t, from, "1_1", charset)
			homo(t, from, "1_1", "user", "100", "name", "Änn")
			homo(t, from, "1_1", "user", "100", "zero", []byte{0, 255})
			homo(t, from, "1_1", "user", "A", "x", "1") // which the collation has before "a…", and bytes not
			homo(t, from, "1_1", "user", "aa", "x", "2")
			homo(t, from, "1_1", "user", "B", "x", "3")
			homo(t, from, "1_1", "user", "100", "nothing", nil)
			homo(t, from, "1_1", "a:b", "c", "k", "colon")
			homo(t, from, "1_1", "user", "100", "gone", "last")
			exec(t, from, "UPDATE `1_1` SET is_del = 1, del_time = 77 WHERE `key` = 'gone'")
			exec(t, from, "UPDATE `1_1` SET is_del = NULL, del_time = NULL, create_time = NULL, update_time = NULL WHERE `key` = 'name'")
			exec(t, from, "UPDATE `1_1` SET up_version = 7000 WHERE `key` = 'zero'")
			k := landingtest.NewImport(from, to, "1_1")
			now := k.Done(t)
			require.NoError(t, now.Verdict())
			require.Equal(t, &landing.Imported{Target: "1_1", Total: 8, Read: 8, There: 8, Converted: 1, Newest: 7000}, now)
			require.Equal(t, []string{`a:b:c:k: it is ":a%3Ab:c:k" from now on false`}, k.Lines)
			require.Equal(t, map[string]string{"name": "Änn v0", "zero": "\x00\xff v0", "nothing": " v0", "gone": "last v0 removed 77"}, all(t, to, someone))
			require.Equal(t, map[string]string{"k": "colon v0"}, all(t, to, field.Owner{App: "1", Region: "1", Logic: "a:b", ID: "c"}))
			rows, err := to.Fields(ctx, someone, []string{"zero", "name"})
			require.NoError(t, err)
			for _, r := range rows {
				require.Equal(t, map[string][2]int64{"zero": {11, 12}, "name": {0, 0}}[r.Name], [2]int64{r.Created, r.Updated})
			}
		})
	}
}

func TestAnImportReplacesNothingThatWasLanded(t *testing.T) {
	from, to := mariaDB.Open(t), mariaDB.Open(t)
	others(t, from, "1_1", "utf8")
	for _, name := range []string{"a", "b", "c"} {
		homo(t, from, "1_1", "user", "100", name, "theirs")
	}
	exec(t, from, "UPDATE `1_1` SET up_version = 9000")
	removed := row(someone, "b", "mine", 6)
	removed.Removed, removed.RemovedAt = true, 5
	write(t, to, row(someone, "a", "mine", 5), removed)
	require.NoError(t, landingtest.NewImport(from, to, "1_1").Done(t).Verdict())
	require.Equal(t, map[string]string{"a": "mine v5", "b": "mine v6 removed 5", "c": "theirs v0"}, all(t, to, someone))

	exec(t, from, "UPDATE `1_1` SET value = 'later'")
	homo(t, from, "1_1", "user", "100", "d", "later")
	require.NoError(t, landingtest.NewImport(from, to, "1_1").Done(t).Verdict(), "once more")
	require.Equal(t, map[string]string{"a": "mine v5", "b": "mine v6 removed 5", "c": "later v0", "d": "later v0"}, all(t, to, someone))
}

func TestAnImportNamesTheRowsItRefuses(t *testing.T) {
	from, to := mariaDB.Open(t), mariaDB.Open(t)
	exec(t, from, fmt.Sprintf(foreignTable, "1_1", "LONGBLOB", "utf8"))
	homo(t, from, "1_1", "user", "100", "fine", "1")
	homo(t, from, "1_1", "user", "100", "", "1")
	homo(t, from, "1_1", "user", "200", "long", strings.Repeat("x", kv.MaxValue+1))
	homo(t, from, "1_1", "user", "200", "most", strings.Repeat("x", kv.MaxValue))
	homo(t, from, "1_1", strings.Repeat("玩", 80), "300", "long", "1") // 240 characters, but 255 bytes are the limit of a column
	homo(t, from, "1_1", strings.Repeat("玩", 100), "300", "long", "1")
	homo(t, from, "1_1", "null", "1", "a", "1")
	exec(t, from, "UPDATE `1_1` SET owner_id = NULL WHERE logic_type = 'null'")
	homo(t, from, "1_1", "other", "1", "a", "1")
	exec(t, from, "UPDATE `1_1` SET owner_id = '2' WHERE logic_type = 'other'")
	homo(t, from, "1_1", "a:b", "c", "k", "old")
	exec(t, from, "INSERT INTO `1_1` SELECT ':a%3Ab:c:k', logic_type, owner_id, `key`, 'new', 5, 0, 0, ':a%3Ab:c', 0, 0 FROM `1_1` WHERE logic_type = 'a:b'")
	k := landingtest.NewImport(from, to, "1_1")
	now := k.Done(t)
	err := now.Verdict()
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, "6 of 10 rows were refused, see above; all others are there: correct those in the source")
	require.Equal(t, []int64{10, 4, 6, 0}, []int64{now.Read, now.There, now.Refused, now.Missing})
	text := strings.Join(k.Lines, "\n")
	for _, want := range []string{
		`user:100:: key is empty true`, `user:200:long: its value has 1048577 bytes, the limit is 1048576 true`, `logic_type "玩玩`, `null:1:a: owner_id is empty true`,
		`other:1:a: its logic_type, owner_id and key make "other:2:a" true`, `a:b:c:k: the table has the same field as ":a%3Ab:c:k", which counts true`,
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, map[string]string{"k": "new v0"}, all(t, to, field.Owner{App: "1", Region: "1", Logic: "a:b", ID: "c"}))
}

func TestACountThatDoesNotMatchIsTold(t *testing.T) {
	from, to := mariaDB.Open(t), mariaDB.Open(t)
	others(t, from, "1_1", "utf8")
	homo(t, from, "1_1", "user", "100", "b", "1")
	k := landingtest.NewImport(from, to, "1_1")
	k.Told = func(*landing.Imported) error { homo(t, from, "1_1", "user", "100", "a", "1"); return nil } // where it has been already
	require.ErrorContains(t, k.Done(t).Verdict(), "1 rows were read, but the table has 2 now: something writes to it; stop the landers that do; import again")
	k.Told = func(*landing.Imported) error { return nil }
	require.NoError(t, k.Done(t).Verdict())

	exec(t, to, "CREATE TRIGGER thief BEFORE INSERT ON `1_1` FOR EACH ROW SET NEW.primary_key = CONCAT('x', NEW.primary_key)")
	homo(t, from, "1_1", "user", "100", "c", "1")
	now := k.Done(t)
	require.ErrorContains(t, now.Verdict(), "rows that were written are not in table 1_1 any more")
	require.Contains(t, strings.Join(k.Lines, "\n"), "user:100:c: it was written, but the database has not got it true")
	exec(t, to, "DROP TRIGGER thief")

	k.Told = func(*landing.Imported) error { exec(t, to, "DELETE FROM `1_1`"); return nil }
	require.ErrorContains(t, k.Done(t).Verdict(), "3 of the 6 rows that were written are not in table 1_1 any more")
}

func TestATableInItsPlaceIsOnlyChecked(t *testing.T) {
	dsn := mariaDB.New(t)
	d := landingtest.Open(t, dsn)
	write(t, d, row(someone, "a", "1", 8))
	again := landingtest.Open(t, dsn+"&timeout=5s") // the same by another name
	homo(t, d, "1_1", "user", "100", "b", "2")
	k := landingtest.NewImport(again, d, "1_1")
	now := k.Done(t)
	require.NoError(t, now.Verdict())
	require.True(t, now.Same)
	require.Equal(t, []int64{2, 2, 2, 8}, []int64{now.Total, now.Read, now.There, now.Newest})
	require.Equal(t, map[string]string{"a": "1 v8", "b": "2 v0"}, all(t, d, someone))

	homo(t, d, "1_1", "a:b", "c", "k", "3")
	exec(t, d, "UPDATE `1_1` SET query_all_key = 'user:' WHERE `key` = 'b'")
	exec(t, d, "UPDATE `1_1` SET up_version = 9000000000000000000 WHERE `key` = 'a'")
	now = k.Done(t)
	require.ErrorContains(t, now.Verdict(), "3 of 3 rows cannot be found where they are, see above: rename the table")
	require.Equal(t, []string{`a:b:c:k: its primary_key must be ":a%3Ab:c:k" true`, "user:100:a: its up_version is 9000000000000000000, the limit is 4611686018427387904 true", `user:100:b: its query_all_key must be "user:100" true`}, k.Lines)

	exec(t, d, "RENAME TABLE `1_1` TO old")
	require.NoError(t, landingtest.NewImport(again, d, "old").Done(t).Verdict())
	require.Equal(t, map[string]string{"a": "1 v0", "b": "2 v0"}, all(t, d, someone), "what could not stay is taken over")
	exec(t, d, "DROP INDEX query_all_key ON `1_1`")
	_, err := landingtest.NewImport(again, d, "1_1").Run(ctx)
	require.ErrorContains(t, err, "CREATE INDEX query_all_key ON `1_1` (query_all_key, is_del)")
	exec(t, d, "DROP TABLE `1_1`")
	others(t, d, "1_1", "utf8")
	for _, place := range []*landingtest.Database{landingtest.Open(t, dsn), landingtest.Open(t, dsn)} {
		_, err = landingtest.NewImport(again, place, "1_1").Run(ctx)
		require.ErrorIs(t, err, codes.Storage)
		require.ErrorContains(t, err, "collation")
		require.ErrorContains(t, err, "import it from there with --app and --region")
	}
}

// A page is no larger than its limit, however large the rows are.
func TestPagesOfLargeRowsAreShort(t *testing.T) {
	from, to := mariaDB.Open(t), mariaDB.Open(t)
	var rows []field.DirtyRow
	for i := range 40 {
		rows = append(rows, row(someone, fmt.Sprint("f", i), strings.Repeat("x", kv.MaxValue), 1))
	}
	write(t, from, rows...)
	k := landingtest.NewImport(from, to, "1_1")
	now := k.Done(t)
	require.NoError(t, now.Verdict())
	require.EqualValues(t, 40, now.There)
	require.Equal(t, 5, k.Pages)
}

func TestARowOfOthersIsNotRemovedUnlessItSaysSo(t *testing.T) {
	d := mariaDB.Open(t)
	write(t, d, row(someone, "a", "1", 1))
	exec(t, d, "ALTER TABLE `1_1` MODIFY is_del INTEGER NULL")
	exec(t, d, "UPDATE `1_1` SET is_del = NULL")
	require.Equal(t, []string{"user:100"}, landingtest.Owners(t, d, player.OwnerQuery{App: "1", Region: "1", Limit: 10}))
}
