//go:build !race || soak

package landing

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"confcenter/storage/field"
)

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
