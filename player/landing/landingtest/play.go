package landingtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/kvstore"
	"confcenter/kvstore/memory"
	"confcenter/player"
	"confcenter/player/field"
	"confcenter/player/landing"
)

// play is a storage that is landed in a database.
type play struct {
	*player.Storage
	d      *Database
	asked  *asked
	l      *Lander
	engine kvstore.Engine
	clock  *clocktest.Fake // the storage's; the lander has one of its own
}

// asked is a database that remembers what it was asked for.
type asked struct {
	*landing.Database
	mu      sync.Mutex
	queries []string // guarded by mu
}

func (a *asked) Fields(ctx context.Context, o field.Owner, names []string) ([]field.Row, error) {
	a.note("fields " + strings.Join(names, " "))
	return a.Database.Fields(ctx, o, names)
}

func (a *asked) All(ctx context.Context, o field.Owner) ([]field.Row, error) {
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
	return playWith(t, d, func(s landing.Source) landing.Source { return s })
}

// playWith has the lander work with what wrap makes of its source.
func playWith(t testing.TB, d *Database, wrap func(landing.Source) landing.Source) *play {
	t.Helper()
	p := &play{d: d, asked: &asked{Database: d.Database}, clock: clocktest.NewFake(time.Unix(1_700_000_000, 0))}
	p.engine = memory.New(memory.Config{Clock: p.clock})
	t.Cleanup(func() { require.NoError(t, p.engine.Close()) })
	var err error // Moved, as another one may have landed there in the same test
	p.Storage, err = player.Open(player.Config{Store: p.engine, Backing: p.asked, Clock: p.clock, Moved: true, Log: zerolog.New(zerolog.NewTestWriter(t))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	p.l = Start(t, wrap(landing.Local(p.Storage)), d, "lander")
	return p
}

func (p *play) try(w *field.Write) (*field.Outcome, error) {
	if w.Owner == (field.Owner{}) {
		w.Owner = Player
	}
	type answer struct {
		out *field.Outcome
		err error
	}
	got := make(chan answer, 1)
	p.Do(w, func(out *field.Outcome, err error) { got <- answer{out, err} })
	a := <-got
	return a.out, a.err
}

func (p *play) do(t testing.TB, w *field.Write) *field.Outcome {
	t.Helper()
	out, err := p.try(w)
	require.NoError(t, err)
	return out
}

func (p *play) update(t testing.TB, name, value string) {
	t.Helper()
	p.updateOf(t, Player, map[string]string{name: value})
}

func (p *play) updateOf(t testing.TB, o field.Owner, fields map[string]string) {
	t.Helper()
	w := &field.Write{Owner: o, Kind: field.Update}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w.Fields = append(w.Fields, field.Field{Name: name, Value: []byte(fields[name])})
	}
	p.do(t, w)
}

func (p *play) incr(t testing.TB, name string, by int64) string {
	t.Helper()
	return string(p.do(t, &field.Write{Kind: field.Incr, Deltas: []field.Delta{{Name: name, By: by}}}).Fields[0].Value)
}

// get reads fields, from the database if need be.
func (p *play) get(t testing.TB, o field.Owner, names ...string) map[string]string {
	t.Helper()
	fields, err := p.Load(ctx, o, names)
	require.NoError(t, err)
	return texts(fields)
}

// warm reports whether memory knows of the field.
func (p *play) warm(o field.Owner, name string) bool {
	gets := []player.Get{{App: []byte(o.App), Region: []byte(o.Region), Logic: []byte(o.Logic), ID: []byte(o.ID), Names: [][]byte{[]byte(name)}}}
	p.GetEach(gets)
	return !gets[0].Cold
}

func (p *play) all(t testing.TB, o field.Owner) map[string]string {
	t.Helper()
	page, err := p.GetAll(ctx, o, field.Ask{})
	require.NoError(t, err)
	require.False(t, page.More)
	return texts(page.Fields)
}

func texts(fields []field.Field) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		m[f.Name] = string(f.Value)
	}
	return m
}

// settle waits until it is known which owners the database has: no others are asked for.
func (p *play) settle(t testing.TB) {
	t.Helper()
	stranger := field.Owner{App: "1", Region: "1", Logic: "stranger", ID: "1"}
	require.Eventually(t, func() bool {
		p.clock.Advance(100 * time.Millisecond) // what could not be asked is asked again after a while
		return p.warm(stranger, "a")
	}, Patience, 10*time.Millisecond)
}

// chill lands everything and waits until no owner is in memory any more.
func (p *play) chill(t testing.TB) {
	t.Helper()
	p.settle(t)
	p.land(t)
	require.Eventually(t, func() bool {
		p.clock.Advance(p.Settings().Idle)
		return p.engine.Stats().Namespaces == 1 // ours of landing
	}, Patience, 20*time.Millisecond) // what leaves memory is written down first, and must not run out of the clock's time
	p.asked.since()
}

// land has all dirty fields landed.
func (p *play) land(t testing.TB) {
	t.Helper()
	p.l.Pass(t, "nothing is dirty", func() bool {
		return !slices.ContainsFunc(p.Status(), func(table field.TableStatus) bool { return table.Dirty > 0 })
	})
}

// in is the player's field in the database.
func (p *play) in(t testing.TB, name string) field.Row {
	t.Helper()
	rows, err := p.d.Fields(ctx, Player, []string{name})
	require.NoError(t, err)
	require.Len(t, rows, 1, name)
	return rows[0]
}
