package landing

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/codes"
	"confcenter/storage"
	"confcenter/storage/field"
)

// foreignTable is the DDL of homo's landers.
const foreignTable = "CREATE TABLE IF NOT EXISTS `%s` (`primary_key` VARCHAR(255) NOT NULL, `logic_type` VARCHAR(255), `owner_id` VARCHAR(255), `key` VARCHAR(100), " +
	"`value` %s, `up_version` BIGINT, `is_del` INTEGER, `del_time` BIGINT DEFAULT 0, `query_all_key` VARCHAR(255), " +
	"`create_time` BIGINT DEFAULT 0, `update_time` BIGINT DEFAULT 0, PRIMARY KEY (`primary_key`)) ENGINE=InnoDB DEFAULT CHARSET=%s"

// others makes a table as homo's landers do.
func others(t testing.TB, d *Database, name, charset string) {
	t.Helper()
	exec(t, d, fmt.Sprintf(foreignTable, name, "BLOB", charset))
}

// homo writes a row as homo's landers do.
func homo(t testing.TB, d *Database, table, logic, owner, key string, value any) {
	t.Helper()
	exec(t, d, "INSERT INTO "+d.dialect.quote(table)+" ("+quoteAll(d.dialect, []string{"primary_key", "logic_type", "owner_id", "key", "value", "is_del", "query_all_key", "create_time", "update_time"})+
		") VALUES (?, ?, ?, ?, ?, 0, ?, 11, 12)", logic+":"+owner+":"+key, logic, owner, key, value, logic+":"+owner)
}

// importKit is an import in a test.
type importKit struct {
	Import
	listed []string
	pages  int
}

func newImport(from, to *Database, table string) *importKit {
	k := &importKit{Import: Import{From: from, To: to, Table: table, App: "1", Region: "1"}}
	k.Told = func(*Imported) error { k.pages++; return nil }
	k.Listed = func(key, why string, refused bool) {
		k.listed = append(k.listed, fmt.Sprintf("%.40s: %s %v", key, why, refused))
	}
	return k
}

func (k *importKit) run(t testing.TB) *Imported {
	t.Helper()
	now, err := k.Run(ctx)
	require.NoError(t, err)
	return now
}

func TestAnImportTakesOverTheFrameworksTable(t *testing.T) {
	for _, charset := range []string{"utf8", "utf8mb4", "latin1"} {
		t.Run(charset, func(t *testing.T) {
			from, to := open(t, databases["MariaDB"](t)), open(t, databases["MariaDB"](t))
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
			k := newImport(from, to, "1_1")
			now := k.run(t)
			require.NoError(t, now.Verdict())
			require.Equal(t, &Imported{Target: "1_1", Total: 8, Read: 8, There: 8, Converted: 1, Newest: 7000}, now)
			require.Equal(t, []string{`a:b:c:k: it is ":a%3Ab:c:k" from now on false`}, k.listed)
			require.Equal(t, map[string]string{"name": "Änn v0", "zero": "\x00\xff v0", "nothing": " v0", "gone": "last v0 removed 77"}, all(t, to, player))
			require.Equal(t, map[string]string{"k": "colon v0"}, all(t, to, storage.Owner{App: "1", Region: "1", Logic: "a:b", ID: "c"}))
			rows, err := to.Fields(ctx, player, []string{"zero", "name"})
			require.NoError(t, err)
			for _, r := range rows {
				require.Equal(t, map[string][2]int64{"zero": {11, 12}, "name": {0, 0}}[r.Name], [2]int64{r.Created, r.Updated})
			}
		})
	}
}

func TestAnImportReplacesNothingThatWasLanded(t *testing.T) {
	from, to := open(t, databases["MariaDB"](t)), open(t, databases["MariaDB"](t))
	others(t, from, "1_1", "utf8")
	for _, name := range []string{"a", "b", "c"} {
		homo(t, from, "1_1", "user", "100", name, "theirs")
	}
	exec(t, from, "UPDATE `1_1` SET up_version = 9000")
	removed := row(player, "b", "mine", 6)
	removed.Removed, removed.RemovedAt = true, 5
	write(t, to, row(player, "a", "mine", 5), removed)
	require.NoError(t, newImport(from, to, "1_1").run(t).Verdict())
	require.Equal(t, map[string]string{"a": "mine v5", "b": "mine v6 removed 5", "c": "theirs v0"}, all(t, to, player))

	exec(t, from, "UPDATE `1_1` SET value = 'later'")
	homo(t, from, "1_1", "user", "100", "d", "later")
	require.NoError(t, newImport(from, to, "1_1").run(t).Verdict(), "once more")
	require.Equal(t, map[string]string{"a": "mine v5", "b": "mine v6 removed 5", "c": "later v0", "d": "later v0"}, all(t, to, player))
}

func TestAnImportNamesTheRowsItRefuses(t *testing.T) {
	from, to := open(t, databases["MariaDB"](t)), open(t, databases["MariaDB"](t))
	exec(t, from, fmt.Sprintf(foreignTable, "1_1", "LONGBLOB", "utf8"))
	homo(t, from, "1_1", "user", "100", "fine", "1")
	homo(t, from, "1_1", "user", "100", "", "1")
	homo(t, from, "1_1", "user", "200", "long", strings.Repeat("x", maxValue+1))
	homo(t, from, "1_1", "user", "200", "most", strings.Repeat("x", maxValue))
	homo(t, from, "1_1", strings.Repeat("玩", 80), "300", "long", "1") // 240 characters, but 255 bytes are the limit of a column
	homo(t, from, "1_1", strings.Repeat("玩", 100), "300", "long", "1")
	homo(t, from, "1_1", "null", "1", "a", "1")
	exec(t, from, "UPDATE `1_1` SET owner_id = NULL WHERE logic_type = 'null'")
	homo(t, from, "1_1", "other", "1", "a", "1")
	exec(t, from, "UPDATE `1_1` SET owner_id = '2' WHERE logic_type = 'other'")
	homo(t, from, "1_1", "a:b", "c", "k", "old")
	exec(t, from, "INSERT INTO `1_1` SELECT ':a%3Ab:c:k', logic_type, owner_id, `key`, 'new', 5, 0, 0, ':a%3Ab:c', 0, 0 FROM `1_1` WHERE logic_type = 'a:b'")
	k := newImport(from, to, "1_1")
	now := k.run(t)
	err := now.Verdict()
	require.ErrorIs(t, err, codes.Conflict)
	require.ErrorContains(t, err, "6 of 10 rows were refused, see above; all others are there: correct those in the source")
	require.Equal(t, []int64{10, 4, 6, 0}, []int64{now.Read, now.There, now.Refused, now.Missing})
	text := strings.Join(k.listed, "\n")
	for _, want := range []string{
		`user:100:: key is empty true`, `user:200:long: its value has 1048577 bytes, the limit is 1048576 true`, `logic_type "玩玩`, `null:1:a: owner_id is empty true`,
		`other:1:a: its logic_type, owner_id and key make "other:2:a" true`, `a:b:c:k: the table has the same field as ":a%3Ab:c:k", which counts true`,
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, map[string]string{"k": "new v0"}, all(t, to, storage.Owner{App: "1", Region: "1", Logic: "a:b", ID: "c"}))
}

func TestAnInterruptedImportGoesOnWhereItWas(t *testing.T) {
	for name := range databases {
		t.Run(name, func(t *testing.T) {
			from, to := open(t, databases[name](t)), open(t, databases[name](t))
			var rows []storage.DirtyRow
			for i := range 3*pageRows + 5 {
				o := player
				o.ID = fmt.Sprint(i)
				rows = append(rows, row(o, "a", "1", 9))
			}
			write(t, from, rows...)
			over := errors.New("over")
			k := newImport(from, to, "1_1")
			for _, at := range []int{pageRows, 2 * pageRows} {
				k.Told = func(now *Imported) error {
					require.EqualValues(t, at, now.Read)
					require.EqualValues(t, at-pageRows, now.Before)
					return over
				}
				_, err := k.Run(ctx)
				require.ErrorIs(t, err, over)
			}
			k.Told = func(now *Imported) error { require.EqualValues(t, 2*pageRows, now.Before); return nil }
			now := k.run(t)
			require.NoError(t, now.Verdict())
			require.EqualValues(t, len(rows), now.There)
			k.Told = func(now *Imported) error { require.Zero(t, now.Before); return nil }
			require.NoError(t, k.run(t).Verdict(), "it begins anew")
			canceled, cancel := context.WithCancel(ctx)
			k.Told = func(*Imported) error { cancel(); return nil }
			_, err := k.Run(canceled)
			require.ErrorIs(t, err, context.Canceled)
			k.Restart, k.Told = true, func(now *Imported) error { require.Zero(t, now.Before); return nil }
			require.NoError(t, k.run(t).Verdict())
		})
	}
}

func TestTwoImportsOfATableAreFound(t *testing.T) {
	from, to := open(t, databases["SQLite"](t)), open(t, databases["SQLite"](t))
	write(t, from, row(player, "a", "1", 1), row(player, "b", "1", 1))
	k := newImport(from, to, "1_1")
	second := newImport(from, to, "1_1")
	second.Told = func(*Imported) error {
		_, err := to.db.Exec("UPDATE " + importTable + " SET read_rows = read_rows + 1")
		return errors.Join(err, errors.New("over"))
	}
	_, err := second.Run(ctx)
	require.ErrorContains(t, err, "over")
	run := &importing{Import: &k.Import, now: Imported{Target: "1_1"}}
	require.NoError(t, run.begin(ctx))
	run.at.Read--
	require.ErrorContains(t, run.advance(ctx, "x"), "another import of table 1_1 is running")
}

func TestACountThatDoesNotMatchIsTold(t *testing.T) {
	from, to := open(t, databases["MariaDB"](t)), open(t, databases["MariaDB"](t))
	others(t, from, "1_1", "utf8")
	homo(t, from, "1_1", "user", "100", "b", "1")
	k := newImport(from, to, "1_1")
	k.Told = func(*Imported) error { homo(t, from, "1_1", "user", "100", "a", "1"); return nil } // where it has been already
	require.ErrorContains(t, k.run(t).Verdict(), "1 rows were read, but the table has 2 now: somebody writes to it; stop the landers that do; import again")
	k.Told = func(*Imported) error { return nil }
	require.NoError(t, k.run(t).Verdict())

	exec(t, to, "CREATE TRIGGER thief BEFORE INSERT ON `1_1` FOR EACH ROW SET NEW.primary_key = CONCAT('x', NEW.primary_key)")
	homo(t, from, "1_1", "user", "100", "c", "1")
	now := k.run(t)
	require.ErrorContains(t, now.Verdict(), "rows that were written are not in table 1_1 any more")
	require.Contains(t, strings.Join(k.listed, "\n"), "user:100:c: it was written, but the database has not got it true")
	exec(t, to, "DROP TRIGGER thief")

	k.Told = func(*Imported) error { exec(t, to, "DELETE FROM `1_1`"); return nil }
	require.ErrorContains(t, k.run(t).Verdict(), "3 of the 6 rows that were written are not in table 1_1 any more")
}

func TestATableInItsPlaceIsOnlyChecked(t *testing.T) {
	dsn := databases["MariaDB"](t)
	d := open(t, dsn)
	write(t, d, row(player, "a", "1", 8))
	again := open(t, dsn+"&timeout=5s") // the same by another name
	homo(t, d, "1_1", "user", "100", "b", "2")
	k := newImport(again, d, "1_1")
	now := k.run(t)
	require.NoError(t, now.Verdict())
	require.True(t, now.Same)
	require.Equal(t, []int64{2, 2, 2, 8}, []int64{now.Total, now.Read, now.There, now.Newest})
	require.Equal(t, map[string]string{"a": "1 v8", "b": "2 v0"}, all(t, d, player))

	homo(t, d, "1_1", "a:b", "c", "k", "3")
	exec(t, d, "UPDATE `1_1` SET query_all_key = 'user:' WHERE `key` = 'b'")
	exec(t, d, "UPDATE `1_1` SET up_version = 9000000000000000000 WHERE `key` = 'a'")
	now = k.run(t)
	require.ErrorContains(t, now.Verdict(), "3 of 3 rows cannot be found where they are, see above: rename the table")
	require.Equal(t, []string{`a:b:c:k: its primary_key must be ":a%3Ab:c:k" true`, "user:100:a: its up_version is 9000000000000000000, the limit is 4611686018427387904 true", `user:100:b: its query_all_key must be "user:100" true`}, k.listed)

	exec(t, d, "RENAME TABLE `1_1` TO old")
	require.NoError(t, newImport(again, d, "old").run(t).Verdict())
	require.Equal(t, map[string]string{"a": "1 v0", "b": "2 v0"}, all(t, d, player), "what could not stay is taken over")
	exec(t, d, "DROP INDEX query_all_key ON `1_1`")
	_, err := newImport(again, d, "1_1").Run(ctx)
	require.ErrorContains(t, err, "CREATE INDEX query_all_key ON `1_1` (query_all_key, is_del)")
	exec(t, d, "DROP TABLE `1_1`")
	others(t, d, "1_1", "utf8")
	for _, place := range []*Database{open(t, dsn), open(t, dsn)} {
		_, err = newImport(again, place, "1_1").Run(ctx)
		require.ErrorIs(t, err, codes.Storage)
		require.ErrorContains(t, err, "collation")
		require.ErrorContains(t, err, "import it from there with --app and --region")
	}
}

func TestAnImportRefusesWhatIsNoTableOfFields(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		to := open(t, databases["SQLite"](t))
		_, err := newImport(d, to, "none").Run(ctx)
		require.ErrorIs(t, err, codes.NotFound)
		exec(t, d, "CREATE TABLE less (primary_key VARCHAR(20), logic_type VARCHAR(20), owner_id VARCHAR(20))")
		_, err = newImport(d, to, "less").Run(ctx)
		require.ErrorContains(t, err, "has no column key")
		exec(t, d, "CREATE TABLE bare ("+quoteAll(d.dialect, []string{"primary_key"})+" VARCHAR(20) PRIMARY KEY, logic_type VARCHAR(20), owner_id VARCHAR(20), "+quoteAll(d.dialect, []string{"key"})+" VARCHAR(20), value "+map[string]string{"mysql": "BLOB", "sqlite": "BLOB", "postgres": "BYTEA"}[d.address.kind]+")")
		exec(t, d, "INSERT INTO bare VALUES ('user:100:a', 'user', '100', 'a', NULL)")
		require.NoError(t, newImport(d, to, "bare").run(t).Verdict())
		require.Equal(t, map[string]string{"a": " v0"}, all(t, to, player))
		names, err := d.Importable(ctx)
		require.NoError(t, err)
		require.Empty(t, names)
	})
}

// A page is no larger than its limit, however large the rows are.
func TestPagesOfLargeRowsAreShort(t *testing.T) {
	from, to := open(t, databases["MariaDB"](t)), open(t, databases["MariaDB"](t))
	var rows []storage.DirtyRow
	for i := range 40 {
		rows = append(rows, row(player, fmt.Sprint("f", i), strings.Repeat("x", maxValue), 1))
	}
	write(t, from, rows...)
	k := newImport(from, to, "1_1")
	now := k.run(t)
	require.NoError(t, now.Verdict())
	require.EqualValues(t, 40, now.There)
	require.Equal(t, 5, k.pages)
}

// Whatever a row of others has in its columns: it is taken over whole, or refused for a reason.
func TestRowsOfOthersAreTakenOrRefused(t *testing.T) {
	part := rapid.OneOf(rapid.SampledFrom([]string{"", "a", ":", "a:b", "%", "\x00", "\xff", strings.Repeat("x", 101), "玩家"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		text := func(name string) sql.NullString {
			return sql.NullString{String: part.Draw(t, name), Valid: true}
		}
		r := foreign{logic: text("logic"), owner: text("owner"), name: text("name"), value: []byte("v")}
		r.key.String = rapid.OneOf(rapid.Just(rawKey(r.logic.String, r.owner.String, r.name.String)), part).Draw(t, "key")
		got, why := r.row("1", "1")
		if why != "" {
			return
		}
		require.Equal(t, []string{r.logic.String, r.owner.String, r.name.String}, []string{got.Owner.Logic, got.Owner.ID, got.Name})
		back, ok := field.ParseField(got.Table(), got.Key())
		require.True(t, ok)
		require.Equal(t, field.Ref{Owner: got.Owner, Name: got.Name}, back)
		require.LessOrEqual(t, len(got.Key()), 255)
	})
}

func TestARowOfOthersIsNotRemovedUnlessItSaysSo(t *testing.T) {
	d := open(t, databases["MariaDB"](t))
	write(t, d, row(player, "a", "1", 1))
	exec(t, d, "ALTER TABLE `1_1` MODIFY is_del INTEGER NULL")
	exec(t, d, "UPDATE `1_1` SET is_del = NULL")
	owners := ownersOf(t, d, storage.OwnerQuery{App: "1", Region: "1", Limit: 10})
	require.Equal(t, []string{"user:100"}, owners)
}
