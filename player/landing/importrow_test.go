//go:build !race || soak

package landing

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/player/field"
)

func TestRowsThatLookOddAreReported(t *testing.T) {
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	for _, test := range []struct {
		logic, owner, name, value string
		removed                   int64
		refused, odd              string
	}{
		{"user", "1", "a", ":delFlag", 0, "", "its value is :delFlag"},
		{"user", "1", "a", ":delFlag", 1, "", ""},
		{"user", "1", "a", ":delFlag2", 0, "", ""},
		{"user", "玩\xe5\xae", "a", "1", 0, `"玩\xe5\xae" is cut inside a character`, ""},
		{"user", "1", "\xe5", "1", 0, `"\xe5" is cut inside a character`, ""},
		{"us\xf0\x9f\x98", "1", "a", "1", 0, `is cut inside a character`, ""},
		{"user", "1", "a\xff", "1", 0, `is not UTF-8`, ""},
		{"user", "1", "玩\ufffd", "1", 0, "", "stands for a character that was cut"},
		{"user", "玩家", "a", "1", 0, "", ""},
	} {
		r := foreign{logic: text(test.logic), owner: text(test.owner), name: text(test.name), value: []byte(test.value), removed: sql.NullInt64{Int64: test.removed, Valid: true}}
		r.key = text(rawKey(test.logic, test.owner, test.name))
		_, why := r.row("1", "1")
		require.Equal(t, test.refused == "", why == "", "%q", test)
		require.Contains(t, why, test.refused)
		require.Equal(t, test.odd == "", r.odd() == "", "%q", test)
		require.Contains(t, r.odd(), test.odd)
	}
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
