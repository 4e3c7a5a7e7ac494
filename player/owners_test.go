package player

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/kv"
	"confcenter/player/field"
)

// A list of owners of one kind does not pass over those of others, wherever it begins.
func TestOwnersOfAKindAreListedWithoutTheOthers(t *testing.T) {
	k := start(t)
	for _, logic := range []string{"a", "m", "m:", "z"} {
		for i := range 50 {
			k.update(field.Owner{App: "1", Region: "1", Logic: logic, ID: fmt.Sprint(i)}, map[string]string{"f": "1"})
		}
	}
	k.update(field.Owner{App: "1", Region: "1", Logic: "m", ID: "with:colon"}, map[string]string{"f": "1"})
	for _, logic := range []string{"m", "m:"} {
		v := k.engine.View()
		here := &roll{view: v, ns: player.Namespace(), prefixes: prefixes(logic)}
		n := 0
		for ; ; n++ {
			key, err := here.peek()
			require.NoError(t, err)
			if key == "" {
				break
			}
			here.pop()
		}
		v.Close()
		require.Equal(t, map[string]int{"m": 51, "m:": 50}[logic], n)
		require.LessOrEqual(t, here.times, 3*n, "an owner, and one whose key its key begins with")
	}
}

// Owners without live fields are passed over, but not too many at a time.
func TestAListOfOwnersEndsEarlyAfterManyLooks(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	const dead = maxLooks + 100
	o := player
	var gone []string
	for i := range dead {
		o.ID = fmt.Sprintf("m%07d", i)
		gone = append(gone, field.Ref{Owner: o, Name: "f"}.Key())
	}
	for len(gone) > 0 { // as Remove leaves them
		txn := &kv.Txn{}
		for _, key := range gone[:min(len(gone), kv.MaxOps)] {
			txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: player.Namespace(), Key: key, Value: kv.Value{Type: kv.Removed}})
		}
		_, err := k.commit(t.Context(), txn)
		require.NoError(t, err)
		gone = gone[len(txn.Then):]
	}
	first, last := player, player
	first.ID, last.ID = "a", "z"
	k.update(first, map[string]string{"f": "1"})
	k.update(last, map[string]string{"f": "1"})
	landed := player
	landed.ID = "y" // only in the database
	sql.insert(field.Row{Owner: landed, Name: "f"})

	list, next, err := k.Owners(t.Context(), "1", "1", "", "", 10)
	require.NoError(t, err)
	require.Equal(t, []field.Owner{first}, list)
	require.Greater(t, next, "user:m")
	for len(list) == 1 || len(list) == 0 {
		require.NotEmpty(t, next)
		from := next
		list, next, err = k.Owners(t.Context(), "1", "1", "", from, 10)
		require.NoError(t, err)
		require.NotEqual(t, from, next, "it goes on")
	}
	require.Equal(t, []field.Owner{landed, last}, list)
	require.Empty(t, next)
	n, err := k.Count(t.Context(), "1", "1", "user")
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

// The database has live rows of owners that memory has removed: each costs a query.
func TestOwnersRemovedInMemoryCostFewQueriesAtATime(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	const dead = maxLooks/goneLooks + 10
	o := player
	for i := range dead {
		o.ID = fmt.Sprintf("%05d", i)
		k.update(o, map[string]string{"f": "1"})
	}
	k.land()
	for i := range dead {
		o.ID = fmt.Sprintf("%05d", i)
		k.remove(o, "f")
	}
	last := player
	last.ID = "z"
	k.update(last, map[string]string{"f": "1"})
	before := sql.queries()
	var got []field.Owner
	pages := 0
	for after := ""; pages == 0 || after != ""; pages++ {
		list, next, err := k.Owners(t.Context(), "1", "1", "", after, 0)
		require.NoError(t, err)
		got, after = append(got, list...), next
	}
	require.Equal(t, []field.Owner{last}, got)
	require.Equal(t, 2, pages)
	require.GreaterOrEqual(t, sql.queries()-before, dead)
}

// slowOwners take a second each time they are listed.
type slowOwners struct {
	*database
	k *kit
}

func (d *slowOwners) Owners(ctx context.Context, q OwnerQuery, each func(key []byte)) error {
	d.k.clock.Advance(countTime / 2)
	return d.database.Owners(ctx, q, each)
}

func TestCountingOwnersTakesOnlySoLong(t *testing.T) {
	sql := &slowOwners{database: newDatabase()}
	o := player
	for i := range 4 * maxOwners {
		o.ID = fmt.Sprint(i)
		sql.insert(field.Row{Owner: o, Name: "f"})
	}
	k := startOn(t, sql.database)
	sql.k = k
	k.settle()
	k.Storage.backing = sql
	_, err := k.Count(t.Context(), "1", "1", "")
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "were counted")
	n, err := k.Count(t.Context(), "1", "1", "other")
	require.NoError(t, err)
	require.Zero(t, n)
}

// After a lost data directory the database alone knows what can be restored: also of owners
// that have nothing else, and that are therefore not listed.
func TestAnOwnerWithOnlyRemovedRowsIsRestoredAfterALostDataDirectory(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	k.update(player, map[string]string{"a": "1"})
	k.remove(player, "a")
	k.land()
	k.shut()

	k = startOn(t, sql, moved)
	k.settle()
	list, _, err := k.Owners(t.Context(), "1", "1", "", "", 0)
	require.NoError(t, err)
	require.Empty(t, list)
	require.Empty(t, k.all(player))
	require.NoError(t, k.restore(player, "a"))
	require.Equal(t, map[string]string{"a": "1"}, k.all(player))
	list, _, err = k.Owners(t.Context(), "1", "1", "", "", 0)
	require.NoError(t, err)
	require.Equal(t, []field.Owner{player}, list)
}
