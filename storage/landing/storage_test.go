package landing

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"confcenter/internal/clock"
	"confcenter/kvstore/kvtest"
	"confcenter/storage"
)

// play is a storage that is landed in a database.
type play struct {
	*storage.Storage
	d *Database
	l *lander
}

func playOn(t testing.TB, d *Database) *play {
	t.Helper()
	engine := kvtest.NewMemory(kvtest.MemoryConfig{Clock: clock.Real()})
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	s, err := storage.Open(storage.Config{Store: engine, Backing: d})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &play{s, d, start(t, Local(s), d, "lander")}
}

func (p *play) do(t testing.TB, w *storage.Write) *storage.Outcome {
	t.Helper()
	w.Owner = player
	type answer struct {
		out *storage.Outcome
		err error
	}
	got := make(chan answer, 1)
	p.Do(w, func(out *storage.Outcome, err error) { got <- answer{out, err} })
	a := <-got
	require.NoError(t, a.err)
	return a.out
}

func (p *play) update(t testing.TB, name, value string) {
	t.Helper()
	p.do(t, &storage.Write{Kind: storage.Update, Fields: []storage.Put{{Name: name, Value: []byte(value)}}})
}

// land has all dirty fields landed.
func (p *play) land(t testing.TB) {
	t.Helper()
	p.l.pass(t, "nothing is dirty", func() bool {
		for _, table := range p.Status() {
			if table.Dirty > 0 {
				return false
			}
		}
		return true
	})
}

// in is the player's field in the database.
func (p *play) in(t testing.TB, name string) storage.Row {
	t.Helper()
	rows, err := p.d.Fields(ctx, player, []string{name})
	require.NoError(t, err)
	require.Len(t, rows, 1, name)
	return rows[0]
}

func TestH12ManyIncrementsAreLandedAsTheirSum(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				for range 200 {
					p.do(t, &storage.Write{Kind: storage.Incr, Deltas: []storage.Delta{{Name: "n", By: 1}}})
				}
			})
		}
		clients.Wait()
		p.land(t)
		require.Equal(t, "10000", string(p.in(t, "n").Value))
	})
}

// H15, H17 and H34, with the storage's own rows.
func TestH34RemovedFieldsAreLandedWithTheirLastValue(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		p.update(t, "a", "1")
		p.update(t, "binary", "\x00\xff")
		before := time.Now().UnixMilli()
		p.do(t, &storage.Write{Kind: storage.Remove, Names: []string{"a", "nope"}})
		p.land(t)
		gone := p.in(t, "a")
		require.True(t, gone.Removed)
		require.GreaterOrEqual(t, gone.RemovedAt, before)
		require.Equal(t, "1", string(gone.Value))
		require.Equal(t, "\x00\xff", string(p.in(t, "binary").Value))
		p.update(t, "a", "new")
		p.land(t)
		back := p.in(t, "a")
		require.Equal(t, "new 0 false", fmt.Sprint(string(back.Value), " ", back.RemovedAt, " ", back.Removed))
		require.Greater(t, back.Version, gone.Version)
		require.Equal(t, gone.Created, back.Created, "when it came into the database")
	})
}

// A data directory that is lost begins anew above what the database has.
func TestALostDataDirectoryLandsAboveTheDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		const future = int64(1) << 61
		write(t, d, row(player, "a", "of an earlier life", future))
		p := playOn(t, d)
		p.update(t, "a", "of this life")
		p.land(t)
		require.Equal(t, "of this life", string(p.in(t, "a").Value))
		require.Greater(t, p.in(t, "a").Version, future)
	})
}

func TestH26ARefusedFieldIsRetriedByItself(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		poison(t, d)
		p := playOn(t, d)
		p.update(t, "good", "1")
		p.update(t, "bad", "poison")
		p.land(t)
		require.EqualValues(t, 1, p.Status()[0].Refused)
		list, _ := p.Errors(storage.FieldName{}, 10)
		require.Len(t, list, 1)
		require.Contains(t, list[0].Reason, "antidote")
		heal(t, d)
		n, err := p.Retry(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		p.l.pass(t, "it is landed", func() bool { return p.Status()[0].Refused == 0 })
		require.Equal(t, "poison", string(p.in(t, "bad").Value))
	})
}
