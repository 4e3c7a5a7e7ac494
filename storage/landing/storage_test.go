package landing

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
	"confcenter/kvstore"
	"confcenter/kvstore/kvtest"
	"confcenter/storage"
	"confcenter/storage/field"
	"confcenter/storage/landing/dbtest"
)

// play is a storage that is landed in a database.
type play struct {
	*storage.Storage
	d      *Database
	asked  *asked
	l      *lander
	engine kvstore.Engine
	clock  *clock.Fake // the storage's; the lander has one of its own
}

// asked is a database that remembers what it was asked for.
type asked struct {
	*Database
	mu      sync.Mutex
	queries []string // guarded by mu
}

func (a *asked) Fields(ctx context.Context, o storage.Owner, names []string) ([]storage.Row, error) {
	a.note("fields " + strings.Join(names, " "))
	return a.Database.Fields(ctx, o, names)
}

func (a *asked) All(ctx context.Context, o storage.Owner) ([]storage.Row, error) {
	a.note("all")
	return a.Database.All(ctx, o)
}

func (a *asked) note(query string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queries = append(a.queries, query)
}

// since returns the queries since it was called last.
func (a *asked) since() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.queries
	a.queries = nil
	return list
}

func playOn(t testing.TB, d *Database) *play {
	t.Helper()
	return playWith(t, d, func(s Source) Source { return s })
}

// playWith has the lander work with what wrap makes of its source.
func playWith(t testing.TB, d *Database, wrap func(Source) Source) *play {
	t.Helper()
	p := &play{d: d, asked: &asked{Database: d}, clock: clock.NewFake(time.Unix(1_700_000_000, 0))}
	p.engine = kvtest.NewMemory(kvtest.MemoryConfig{Clock: p.clock})
	t.Cleanup(func() { require.NoError(t, p.engine.Close()) })
	var err error
	p.Storage, err = storage.Open(storage.Config{Store: p.engine, Backing: p.asked, Clock: p.clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	p.l = start(t, wrap(Local(p.Storage)), d, "lander")
	return p
}

func (p *play) try(w *storage.Write) (*storage.Outcome, error) {
	if w.Owner == (storage.Owner{}) {
		w.Owner = player
	}
	type answer struct {
		out *storage.Outcome
		err error
	}
	got := make(chan answer, 1)
	p.Do(w, func(out *storage.Outcome, err error) { got <- answer{out, err} })
	a := <-got
	return a.out, a.err
}

func (p *play) do(t testing.TB, w *storage.Write) *storage.Outcome {
	t.Helper()
	out, err := p.try(w)
	require.NoError(t, err)
	return out
}

func (p *play) update(t testing.TB, name, value string) {
	t.Helper()
	p.updateOf(t, player, map[string]string{name: value})
}

func (p *play) updateOf(t testing.TB, o storage.Owner, fields map[string]string) {
	t.Helper()
	w := &storage.Write{Owner: o, Kind: storage.Update}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w.Fields = append(w.Fields, storage.Field{Name: name, Value: []byte(fields[name])})
	}
	p.do(t, w)
}

func (p *play) incr(t testing.TB, name string, by int64) string {
	t.Helper()
	return string(p.do(t, &storage.Write{Kind: storage.Incr, Deltas: []storage.Delta{{Name: name, By: by}}}).Fields[0].Value)
}

// get reads fields, from the database if need be.
func (p *play) get(t testing.TB, o storage.Owner, names ...string) map[string]string {
	t.Helper()
	fields, err := p.Load(ctx, o, names)
	require.NoError(t, err)
	return texts(fields)
}

// warm reports whether memory knows of the field.
func (p *play) warm(o storage.Owner, name string) bool {
	gets := []storage.Get{{App: []byte(o.App), Region: []byte(o.Region), Logic: []byte(o.Logic), ID: []byte(o.ID), Names: [][]byte{[]byte(name)}}}
	p.GetEach(gets)
	return !gets[0].Cold
}

func (p *play) all(t testing.TB, o storage.Owner) map[string]string {
	t.Helper()
	page, err := p.GetAll(ctx, o, storage.Ask{})
	require.NoError(t, err)
	require.False(t, page.More)
	return texts(page.Fields)
}

func texts(fields []storage.Field) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		m[f.Name] = string(f.Value)
	}
	return m
}

// settle waits until it is known which owners the database has: nobody else is asked for.
func (p *play) settle(t testing.TB) {
	t.Helper()
	stranger := storage.Owner{App: "1", Region: "1", Logic: "stranger", ID: "1"}
	require.Eventually(t, func() bool { return p.warm(stranger, "a") }, patience, time.Millisecond)
}

// chill lands everything and waits until no owner is in memory any more.
func (p *play) chill(t testing.TB) {
	t.Helper()
	p.settle(t)
	p.land(t)
	require.Eventually(t, func() bool {
		p.clock.Advance(p.Settings().Idle)
		return p.engine.Stats().Namespaces == 1 // ours of landing
	}, patience, 20*time.Millisecond) // what leaves memory is written down first, and must not run out of the clock's time
	p.asked.since()
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
					p.incr(t, "n", 1)
				}
			})
		}
		clients.Wait()
		p.land(t)
		require.Equal(t, "10000", string(p.in(t, "n").Value))
	})
}

func TestH23AThousandUpdatesAreOneRow(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		p.l.clock.BlockUntil(1) // its first round is over
		for i := range 1000 {
			p.update(t, "a", fmt.Sprint(i))
		}
		p.land(t)
		require.Equal(t, "999", string(p.in(t, "a").Value))
		require.EqualValues(t, 1, p.l.Readings().Get("landing_rows_total"))
	})
}

// away takes a database away until the function is called that it returns: it is killed or, a
// file, moved.
func away(t testing.TB, d *Database) (back func()) {
	t.Helper()
	server := map[string]func(testing.TB) *dbtest.Server{"mysql": dbtest.MariaDB, "postgres": dbtest.PostgreSQL}[d.address.kind]
	if server != nil {
		server(t).Kill(t)
		return func() { server(t).Start(t) }
	}
	d.db.SetMaxIdleConns(0) // which would keep the file
	moved := d.address.path + " is away"
	require.NoError(t, os.Rename(d.address.path, moved))
	require.NoError(t, os.Mkdir(d.address.path, 0o755)) // else a new file is made
	return func() {
		require.NoError(t, os.Remove(d.address.path))
		require.NoError(t, os.Rename(moved, d.address.path))
	}
}

func TestH27ReadsNeverFailWhileTheDatabaseIsAway(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		p.settle(t)
		p.update(t, "before", "1")
		p.land(t)
		back := away(t, d)
		for i := range 60 {
			name := fmt.Sprint("f", i)
			p.updateOf(t, player, map[string]string{name: "while it was away", "last": name})
			p.incr(t, "n", 1)
			if i%3 == 0 {
				p.do(t, &storage.Write{Kind: storage.Remove, Names: []string{name}})
			}
			require.Equal(t, map[string]string{"last": name, "n": fmt.Sprint(i + 1)}, p.get(t, player, "last", "n"))
			p.clock.Advance(time.Second)
		}
		p.l.pass(t, "it has tried", func() bool { return p.l.Readings().Get("landing_failures_total") >= 3 })
		require.EqualValues(t, 62, p.Status()[0].Dirty)
		require.Zero(t, p.Status()[0].Refused)
		back()
		p.land(t)
		require.Equal(t, "60", string(p.in(t, "n").Value))
		require.Equal(t, "f59", string(p.in(t, "last").Value))
		for i := range 60 {
			row := p.in(t, fmt.Sprint("f", i))
			require.Equal(t, i%3 == 0, row.Removed)
			require.Equal(t, "while it was away", string(row.Value))
		}
	})
}

// between has functions called each when a batch was taken, before it is written.
type between struct {
	Source
	next []func()
}

func (b *between) Dirty(ctx context.Context, table, limit int) (*storage.Batch, error) {
	batch, err := b.Source.Dirty(ctx, table, limit)
	if batch != nil && len(b.next) > 0 {
		do := b.next[0]
		b.next = b.next[1:]
		do()
	}
	return batch, err
}

func TestH34AFieldRemovedWhileItIsBeingLanded(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		var p *play
		var halfWay storage.Row
		removed := make(chan struct{})
		steps := []func(){
			func() {
				p.do(t, &storage.Write{Kind: storage.Remove, Names: []string{"a"}})
				close(removed)
			},
			func() { halfWay = p.in(t, "a") },
		}
		p = playWith(t, d, func(s Source) Source { return &between{s, steps} })
		p.l.clock.BlockUntil(1) // its first round is over
		p.update(t, "a", "last")
		p.l.clock.Advance(10 * time.Second)
		<-removed
		p.land(t)
		require.Equal(t, "last false 0", fmt.Sprint(string(halfWay.Value), " ", halfWay.Removed, " ", halfWay.RemovedAt))
		gone := p.in(t, "a")
		require.Equal(t, fmt.Sprint("last true ", p.clock.Now().UnixMilli()), fmt.Sprint(string(gone.Value), " ", gone.Removed, " ", gone.RemovedAt))
	})
}

func TestH36AValueOfAMebibyteIsLandedWholeAndALongerOneRefused(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		for _, letter := range []string{"x", "'", "\x00"} { // quoted, they are longer
			whole := strings.Repeat(letter, kv.MaxValue)
			p.update(t, "a", whole)
			p.land(t)
			require.True(t, whole == string(p.in(t, "a").Value))
			_, err := p.try(&storage.Write{Kind: storage.Update, Fields: []storage.Field{{Name: "a", Value: []byte(whole + letter)}}})
			require.ErrorIs(t, err, codes.TooLarge)
		}
		require.Equal(t, 1<<20, kv.MaxValue)
		require.Zero(t, p.Status()[0].Refused)
	})
}

// H15, H17 and H34, with the storage's own rows.
func TestH34RemovedFieldsAreLandedWithTheirLastValue(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		p := playOn(t, d)
		p.update(t, "a", "1")
		p.update(t, "binary", "\x00\xff")
		p.clock.Advance(time.Second)
		p.do(t, &storage.Write{Kind: storage.Remove, Names: []string{"a", "nope"}})
		p.land(t)
		gone := p.in(t, "a")
		require.True(t, gone.Removed)
		require.Equal(t, p.clock.Now().UnixMilli(), gone.RemovedAt)
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
		require.Equal(t, "1", string(p.in(t, "good").Value))
		list, _ := p.Errors(field.Ref{}, 10)
		require.Len(t, list, 1)
		require.Equal(t, "bad", list[0].Name)
		require.Contains(t, list[0].Reason, "antidote")
		heal(t, d)
		p.l.pass(t, "it is landed", func() bool {
			p.clock.Advance(time.Second)
			return p.Status()[0].Refused == 0
		})
		require.Equal(t, "poison", string(p.in(t, "bad").Value))
	})
}

// Anybody may read what a peer is answered.
func TestPeersAreNotToldWhereTheDatabaseIs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // nobody listens there
	for _, kind := range []string{"mysql", "postgres"} {
		log := &said{}
		d := open(t, kind+"://keeper:secret@"+listener.Addr().String()+"/players")
		store := kvtest.NewMemory(kvtest.MemoryConfig{})
		s, err := storage.Open(storage.Config{Store: store, Backing: d, Log: zerolog.New(log)})
		require.NoError(t, err)
		_, err = s.Load(ctx, player, []string{"a"})
		_, _, list := s.Owners(ctx, "1", "1", "", "", 0)
		require.NoError(t, s.Close())
		require.NoError(t, store.Close())
		for _, err := range []error{err, list} {
			require.ErrorIs(t, err, codes.Unreachable)
			for _, internal := range []string{"keeper", "127.0.0.1", "players", "dial"} {
				require.NotContains(t, err.Error(), internal)
			}
		}
		require.Contains(t, log.String(), listener.Addr().String())
		require.NotContains(t, log.String(), "secret")
	}
}
