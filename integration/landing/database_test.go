package landing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/integration/dbtest"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing/landingtest"
)

// Homo's own tables compare keys without case: rows would overwrite each other.
func TestATableThatCannotHoldFieldsIsRefusedByName(t *testing.T) {
	d := mariaDB.Open(t)
	homo := "(primary_key VARCHAR(255) PRIMARY KEY, logic_type VARCHAR(255), owner_id VARCHAR(255), `key` VARCHAR(100), value BLOB, up_version BIGINT, is_del INTEGER, del_time BIGINT DEFAULT 0, query_all_key VARCHAR(255), create_time BIGINT DEFAULT 0, update_time BIGINT DEFAULT 0)"
	for _, test := range []struct{ table, why string }{
		{homo + " DEFAULT CHARSET utf8", "under which different keys are equal"},
		{homo + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin", "under which different keys are equal"},
		{homo + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_nopad_bin", "value is a blob, which is too short"},
		{strings.Replace(strings.Replace(homo, " PRIMARY KEY", "", 1), "value BLOB", "value LONGBLOB", 1) + " DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_nopad_bin", "is not the primary key"},
		{"(query_all_key VARCHAR(255), is_del INT)", "it has no column primary_key"},
	} {
		exec(t, d, "CREATE TABLE `1_1` "+test.table)
		other := row(field.Owner{App: "2", Region: "1", Logic: "l", ID: "o"}, "k", "v", 1)
		w, err := d.Write(ctx, []field.DirtyRow{row(someone, "a", "1", 1), other})
		require.NoError(t, err)
		require.Equal(t, 1, w.Rows, "the other table's")
		require.Len(t, w.Failed, 1)
		require.Contains(t, w.Failed[0].Reason, test.why)
		require.Contains(t, w.Failed[0].Reason, "1_1")
		require.Contains(t, w.Failed[0].Reason, "alter it")
		_, err = d.All(ctx, someone)
		if strings.Contains(test.why, "keys are equal") {
			require.ErrorAs(t, err, new(*player.Unusable))
			require.Contains(t, codes.Message(err), test.why)
			_, err = d.Fields(ctx, someone, []string{"a"})
			require.ErrorAs(t, err, new(*player.Unusable))
		} else if strings.Contains(test.table, "owner_id") {
			require.NoError(t, err, "it can be read")
		}
		exec(t, d, "DROP TABLE `1_1`")
	}
	write(t, d, row(someone, "a", "1", 1))
}

// A change of a user's rights makes no row a bad one.
func TestMissingRightsAreNoFaultOfTheRows(t *testing.T) {
	admin := dbtest.MariaDB(t).DB(t)
	dsn := mariaDB.New(t)
	database := strings.TrimPrefix(dsn[:strings.Index(dsn, "?")], "mysql://root@/")
	for _, statement := range []string{"CREATE USER IF NOT EXISTS poor IDENTIFIED BY 'se+cret%'", "GRANT SELECT ON " + database + ".* TO poor"} {
		_, err := admin.Exec(statement)
		require.NoError(t, err)
	}
	for _, password := range []string{"se+cret%25", "wrong"} {
		d := landingtest.Open(t, strings.Replace(dsn, "root@", "poor:"+password+"@", 1))
		_, err := d.Write(ctx, []field.DirtyRow{row(someone, "a", "1", 1)})
		require.ErrorIs(t, err, codes.Unreachable)
		require.Contains(t, err.Error(), "denied")
		require.NotContains(t, err.Error(), "cret%")
	}
}
