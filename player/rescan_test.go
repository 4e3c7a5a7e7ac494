package player

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
)

// heldOwners is a database whose lists of owners wait, once they have been read.
type heldOwners struct {
	*database
	read, goOn chan struct{}
}

func (d *heldOwners) Owners(ctx context.Context, q OwnerQuery, each func(key []byte)) error {
	err := d.database.Owners(ctx, q, each)
	select {
	case d.read <- struct{}{}:
		<-d.goOn
	case <-ctx.Done():
	}
	return err
}

// wait waits for something that another goroutine closes or sends.
func wait(t testing.TB, c <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-c:
	case <-ctx.Done():
		require.FailNow(t, "it did not come to that")
	}
}

func imported(id, name, value string) field.Row {
	return field.Row{Owner: field.Owner{App: "1", Region: "1", Logic: "user", ID: id}, Name: name, Value: []byte(value)}
}

func TestATableThatIsFilledWhileItIsScannedIsScannedAgain(t *testing.T) {
	sql := newDatabase()
	sql.insert(imported("early", "a", "1"))
	held := &heldOwners{sql, make(chan struct{}), make(chan struct{})}
	k := startOn(t, sql, func(c *Config) { c.Backing = held })
	wait(t, held.read)
	sql.insert(imported("late", "a", "2")) // which the list has not got
	require.NoError(t, k.Rescan(t.Context(), "1_1"))
	held.goOn <- struct{}{}
	wait(t, held.read)
	require.Equal(t, map[string]string{"a": "2"}, k.get(imported("late", "", "").Owner, "a"), "before it has been found")
	close(held.goOn)
	k.settle()
	k.cold.cache.empty()
	require.Equal(t, map[string]string{"a": "2"}, k.get(imported("late", "", "").Owner, "a"))
}

func TestARescanForgetsWhatWasReadBefore(t *testing.T) {
	sql := newDatabase()
	sql.insert(imported("100", "a", "old"))
	k := startOn(t, sql)
	k.settle()
	require.Equal(t, map[string]string{"a": "old"}, k.all(player), "and nothing else")
	k.update(player, map[string]string{"mine": "1"})
	sql.insert(imported("100", "a", "new"), imported("100", "b", "new"), imported("100", "mine", "new"))
	require.Equal(t, map[string]string{"a": "old"}, k.get(player, "a", "b"))
	require.NoError(t, k.Rescan(t.Context(), "1_1"))
	require.Equal(t, map[string]string{"a": "new", "b": "new", "mine": "1"}, k.get(player, "a", "b", "mine"))
	require.Equal(t, map[string]string{"a": "new", "b": "new", "mine": "1"}, k.all(player))
}

func TestWhatAQueryFoundBeforeARescanIsNotKept(t *testing.T) {
	sql := newDatabase()
	sql.insert(imported("100", "other", "1"))
	k := startOn(t, sql)
	k.settle()
	stale := &heldFields{database: sql, read: make(chan struct{}), goOn: make(chan struct{})}
	k.cold.backing = stale
	first := make(chan map[string]string, 1)
	go func() { first <- k.get(player, "a") }()
	wait(t, stale.read)
	sql.insert(imported("100", "a", "new"))
	require.NoError(t, k.Rescan(t.Context(), "1_1"))
	second := make(chan map[string]string, 1)
	go func() { second <- k.get(player, "a") }()
	require.Eventually(t, func() bool {
		k.cold.loads.mu.Lock()
		defer k.cold.loads.mu.Unlock()
		return k.cold.loads.asked == 2
	}, patience, time.Millisecond)
	close(stale.goOn)
	require.Empty(t, <-first, "which began before")
	require.Equal(t, map[string]string{"a": "new"}, <-second)
	require.Equal(t, map[string]string{"a": "new"}, k.get(player, "a"))
}

// heldFields is a database whose first answer waits, once it has been read.
type heldFields struct {
	*database
	read, goOn chan struct{}
	told       bool // loads come one after the other
}

func (d *heldFields) Fields(ctx context.Context, o field.Owner, names []string) ([]field.Row, error) {
	list, err := d.database.Fields(ctx, o, names)
	if !d.told {
		d.told = true
		close(d.read)
		<-d.goOn
	}
	return list, err
}

func TestARescanSurvivesARestart(t *testing.T) {
	sql := newDatabase()
	sql.insert(imported("100", "a", "1"))
	k := startOn(t, sql)
	k.settle()
	sql.insert(imported("200", "a", "2"))
	sql.set(func(d *database) { d.down = true }) // so that nothing is found before the end
	require.NoError(t, k.Rescan(t.Context(), "1_1"))
	k.shut()
	sql.set(func(d *database) { d.down = false })
	k.open()
	k.settle()
	require.Equal(t, map[string]string{"a": "2"}, k.get(imported("200", "", "").Owner, "a"))
}

func TestRescanRefusesWhatIsNoTable(t *testing.T) {
	k := startOn(t, newDatabase())
	err := k.Rescan(t.Context(), "players")
	require.ErrorIs(t, err, codes.BadKey)
	require.ErrorContains(t, err, `"players" is not the name of a table of fields`)
	require.ErrorIs(t, start(t).Rescan(t.Context(), "1_1"), codes.NotImplemented)
}

// The first field of all gets a version above those of the database, too.
func TestVersionsBeginAboveThoseOfTheDatabase(t *testing.T) {
	k := startOn(t, newDatabase())
	const far = 1 << 60
	require.NoError(t, k.Newer(t.Context(), far))
	require.Greater(t, k.update(player, map[string]string{"a": "1"}).Fields[0].Version, int64(far))
	k.reopen()
	require.Greater(t, k.update(player, map[string]string{"a": "2"}).Fields[0].Version, int64(far))
}
