package player

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
)

// limit is one of the limits of Stats.
func (k *kit) limit(name string) Limit {
	k.t.Helper()
	limits := k.Stats().Limits
	i := slices.IndexFunc(limits, func(l Limit) bool { return l.Name == name })
	require.GreaterOrEqual(k.t, i, 0, name)
	return limits[i]
}

// hold stops the database until what it returns is called.
func (k *kit) hold() (goOn func()) {
	hold := make(chan struct{})
	k.sql.set(func(d *database) { d.hold = hold })
	return func() { close(hold) }
}

// startWaiting has a write wait for the database.
func startWaiting(t *testing.T) (k *kit, first chan outcome, goOn func()) {
	k = startCold(t, newDatabase())
	k.settle()
	k.update(player, map[string]string{"n": "1"})
	k.chill()
	goOn = k.hold()
	first = make(chan outcome, 1)
	k.Do(&field.Write{Owner: player, Kind: field.Incr, Deltas: []field.Delta{{Name: "n", By: 1}}}, func(out *field.Outcome, err error) { first <- outcome{out, err} })
	return k, first, goOn
}

func TestWritesThatWaitAreLimitedInNumber(t *testing.T) {
	k, first, goOn := startWaiting(t)
	answers := make(chan error, maxWaiting)
	for range maxWaiting {
		k.Do(&field.Write{Owner: player, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte("1")}}}, func(_ *field.Outcome, err error) { answers <- err })
	}
	require.Equal(t, Limit{Name: "waiting_writes", Use: maxWaiting, Most: maxWaiting}, k.limit("waiting_writes"))
	_, err := k.try(&field.Write{Owner: player, Kind: field.Update, Fields: []field.Field{{Name: "a", Value: []byte("2")}}})
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "16384 writes wait for earlier ones to the same owners, which is the limit; try again")
	require.EqualValues(t, 1, k.limit("waiting_writes").Met)
	other := player
	other.ID = "other"
	k.update(other, map[string]string{"a": "1"}) // no other owner is held up
	goOn()
	require.NoError(t, (<-first).err)
	for range maxWaiting {
		require.NoError(t, <-answers)
	}
	require.Zero(t, k.limit("waiting_writes").Use)
	require.Equal(t, map[string]string{"a": "1", "n": "2"}, k.all(player))
}

func TestWritesThatWaitAreLimitedInBytes(t *testing.T) {
	k, first, goOn := startWaiting(t)
	var fields []field.Field
	for i := range 7 {
		fields = append(fields, field.Field{Name: fmt.Sprint(i), Value: make([]byte, kv.MaxValue)})
	}
	answers := make(chan error, 100)
	for range 100 {
		k.Do(&field.Write{Owner: player, Kind: field.Update, Fields: fields}, func(_ *field.Outcome, err error) { answers <- err })
	}
	limit := k.limit("waiting_bytes")
	require.LessOrEqual(t, limit.Use, limit.Most)
	require.Greater(t, limit.Use, limit.Most/2)
	require.EqualValues(t, 91, limit.Met)
	goOn()
	require.NoError(t, (<-first).err)
	refused := 0
	for range 100 {
		if err := <-answers; err != nil {
			refused++
			require.ErrorIs(t, err, codes.Busy)
			require.ErrorContains(t, err, "try again")
		}
	}
	require.Equal(t, 91, refused)
	require.Zero(t, k.limit("waiting_bytes").Use)
}

func TestRequestsThatWaitForAnOwnerAreLimited(t *testing.T) {
	k := startCold(t, newDatabase())
	k.settle()
	k.update(player, map[string]string{"a": "1"})
	k.chill()
	goOn := k.hold()
	id := player.Namespace() + "/" + player.Key()
	answers := make(chan error, maxLoadAsked)
	for range maxLoadAsked {
		k.cold.loads.ask(id, player, []string{"a"}, false, func(_ *rowSet, err error) { answers <- err })
	}
	_, err := k.Load(t.Context(), player, []string{"a"})
	require.ErrorIs(t, err, codes.Busy)
	require.ErrorContains(t, err, "16384 requests wait for owners to be loaded from the database, which is the limit; try again")
	require.Equal(t, Limit{Name: "loading_requests", Use: maxLoadAsked, Most: maxLoadAsked, Met: 1}, k.limit("loading_requests"))
	require.EqualValues(t, 1, k.limit("loading_owners").Use)
	require.EqualValues(t, 1, k.limit("loading_queries").Use)
	goOn()
	for range maxLoadAsked {
		require.NoError(t, <-answers)
	}
	require.Equal(t, map[string]string{"a": "1"}, k.get(player, "a"))
	require.Zero(t, k.limit("loading_requests").Use)
	require.LessOrEqual(t, k.Stats().Queries, uint64(2))
}

// More tables than are remembered work all the same.
func TestTablesBeyondThoseThatAreRemembered(t *testing.T) {
	sql := newDatabase()
	k := startOn(t, sql)
	for i := range maxRegions {
		k.names.of(field.Prefix + field.Owner{App: fmt.Sprint("a", i), Region: "r"}.Table())
	}
	require.Equal(t, Limit{Name: "tables", Use: maxRegions, Most: maxRegions}, k.limit("tables"))
	for range 3 {
		k.update(player, map[string]string{"a": "1"})
	}
	k.remove(player, "a")
	limit := k.limit("tables")
	require.EqualValues(t, maxRegions, limit.Use)
	require.Positive(t, limit.Met)
	require.EqualValues(t, 1, k.Status()[0].Dirty, "one field, whatever was done to it")
	k.land()
	require.True(t, sql.row(player, "a").Removed)
}

func TestPagesAreKeptForSoManyReaders(t *testing.T) {
	k := start(t)
	o := player
	var pages []field.Page
	for i := range maxPages + 1 {
		o.ID = fmt.Sprint(i)
		k.update(o, map[string]string{"a": "1", "b": "2"})
		page, err := k.GetAll(t.Context(), o, field.Ask{Limit: 1})
		require.NoError(t, err)
		require.True(t, page.More)
		pages = append(pages, page)
	}
	require.Equal(t, Limit{Name: "pages", Use: maxPages, Most: maxPages, Met: 1}, k.limit("pages"))
	next := func(i int) error {
		o.ID = fmt.Sprint(i)
		page, err := k.GetAll(t.Context(), o, field.Ask{Limit: 1, After: "a", Revision: pages[i].Revision})
		if err == nil {
			require.Equal(t, map[string]string{"b": "2"}, texts(page.Fields))
		}
		return err
	}
	err := next(0)
	require.ErrorIs(t, err, codes.Compacted)
	require.ErrorContains(t, err, "begin again without it")
	for i := 1; i <= maxPages; i++ {
		require.NoError(t, next(i))
	}
	require.Zero(t, k.limit("pages").Use)
}

// A client that comes back within the time is served; one that comes later is not, as soon as others
// read.
func TestPagesAreKeptForSomeTime(t *testing.T) {
	k := start(t)
	other := player
	other.ID = "other"
	for _, o := range []field.Owner{player, other} {
		k.update(o, map[string]string{"a": "1", "b": "2", "c": "3"})
	}
	ask := func(o field.Owner, rev kv.Revision) (field.Page, error) {
		return k.GetAll(context.Background(), o, field.Ask{Limit: 1, Revision: rev})
	}
	page, err := ask(player, 0)
	require.NoError(t, err)
	k.clock.Advance(pageTime * time.Second)
	_, err = ask(other, 0)
	require.NoError(t, err)
	_, err = ask(player, page.Revision)
	require.NoError(t, err)
	k.clock.Advance((pageTime + 1) * time.Second)
	_, err = ask(other, 0)
	require.NoError(t, err)
	_, err = ask(player, page.Revision)
	require.ErrorIs(t, err, codes.Compacted)
	require.Zero(t, k.limit("pages").Met, "time is no limit that is met")
}

func TestPagesTakeHalfOfTheCache(t *testing.T) {
	pool := memory.NewPool(32 << 10)
	sql := newDatabase()
	k := startOn(t, sql, func(c *Config) { c.Settings, c.Cold = field.Defaults(), pool })
	k.settle()
	o := player
	for i := range 6 {
		o.ID = fmt.Sprint(i)
		k.update(o, map[string]string{"a": strings.Repeat("x", 4<<10), "b": "2"})
	}
	k.chill()
	for i := range 6 {
		o.ID = fmt.Sprint(i)
		_, err := k.GetAll(t.Context(), o, field.Ask{Limit: 1})
		require.NoError(t, err)
	}
	limit := k.limit("page_bytes")
	require.EqualValues(t, pool.Limit()/2, limit.Most)
	require.LessOrEqual(t, limit.Use, limit.Most)
	require.Positive(t, limit.Met)
	require.Positive(t, k.limit("cache_bytes").Met)
	require.LessOrEqual(t, k.limit("cache_bytes").Use, pool.Limit())
	filter := k.limit("filter_bytes")
	require.Positive(t, filter.Use)
	require.EqualValues(t, 32<<20+4096, filter.Most)
	require.EqualValues(t, 12, k.Stats().Evicted)
}
