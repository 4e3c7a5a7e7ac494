package landingtest

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/internal/clock/clocktest"
	"confcenter/player/field"
	"confcenter/player/landing"
)

var landerChecks = []check{
	{"H24ManyDirtyFieldsNeedFewStatements", h24ManyDirtyFieldsNeedFewStatements},
	{"H26AHealedDatabaseTakesTheRefusedRow", h26AHealedDatabaseTakesTheRefusedRow},
	{"VersionsRiseAboveTheDatabases", versionsRiseAboveTheDatabases},
	{"ARowBeyondAllVersionsHoldsUpNoOther", aRowBeyondAllVersionsHoldsUpNoOther},
}

// Lander is a landing.Lander on a clock of the test's.
type Lander struct {
	*landing.Lander
	Clock *clocktest.Fake
	Log   *Log
}

// Log keeps what is logged.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Start starts a lander, which ends with the test.
func Start(t testing.TB, s landing.Source, d *Database, who string) *Lander {
	t.Helper()
	return StartWith(t, landing.Config{Source: s, Database: d.Database, Who: who})
}

// StartWith is Start for more than a source and a database. Clock and Log are the test's.
func StartWith(t testing.TB, cfg landing.Config) *Lander {
	t.Helper()
	l := &Lander{Clock: clocktest.NewFake(time.Unix(1_700_000_000, 0)), Log: &Log{}}
	cfg.Clock, cfg.Log = l.Clock, zerolog.New(l.Log).Level(zerolog.InfoLevel)
	l.Lander = landing.Start(cfg)
	t.Cleanup(l.Close)
	return l
}

// Pass lets time pass, second by second, until something is so.
func (l *Lander) Pass(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		l.Clock.BlockUntil(1) // it waits
		if is() {
			return
		}
		l.Clock.Advance(time.Second)
	}
	require.FailNow(t, "it did not become so: "+what, "%s", l.Log)
}

// Lands lets time pass until everything is landed.
func (l *Lander) Lands(t testing.TB, s *Source) {
	t.Helper()
	l.Pass(t, "everything is landed", func() bool { return s.Left() == 0 })
}

func h24ManyDirtyFieldsNeedFewStatements(t *testing.T, d *Database) {
	s := NewSource()
	s.Change(func(set *field.Settings) { set.Batch = 10 })
	for i := range 95 {
		s.Put(Player, fmt.Sprint("f", i), fmt.Sprint(i))
	}
	l := Start(t, s, d, "a")
	l.Lands(t, s)
	s.Agree(t, d)
	require.Equal(t, 10, s.Taken())
	require.EqualValues(t, 10, l.Readings().Get("landing_statements_total"))
	require.EqualValues(t, 95, l.Readings().Get("landing_rows_total"))
	require.EqualValues(t, 10, l.Readings().Get("landing_batches_total"))
}

func h26AHealedDatabaseTakesTheRefusedRow(t *testing.T, d *Database) {
	poison(t, d)
	s := NewSource()
	for i := range 100 {
		s.Put(Player, fmt.Sprint("f", i), "good")
	}
	s.Put(Player, "bad", "poison")
	l := Start(t, s, d, "a")
	l.Pass(t, "all but one are landed", func() bool { return s.Left() == 1 })
	require.Contains(t, s.Reasons()["user:100:bad"], "antidote")
	require.NotZero(t, l.Readings().Get("landing_refused_rows_total"))
	require.Zero(t, l.Readings().Get("landing_unreachable"), "it is the row's fault")
	heal(t, d)
	s.Retry()
	l.Lands(t, s)
	s.Agree(t, d)
}

// No version is greater than some that a row may have: it is refused, and can be read.
func aRowBeyondAllVersionsHoldsUpNoOther(t *testing.T, d *Database) {
	for i, version := range []int64{1 << 62, 1<<63 - 1} {
		Write(t, d, Row(Player, fmt.Sprint("a", i), "beyond", version))
	}
	p := playOn(t, d)
	for _, name := range []string{"a0", "a1", "b", "c"} {
		p.update(t, name, "1")
	}
	p.land(t)
	list, _ := p.Errors(field.Ref{}, 10)
	require.Len(t, list, 2)
	for i, name := range []string{"a0", "a1"} {
		require.Equal(t, name, list[i].Name)
		require.Contains(t, list[i].Reason, "the limit is 4611686018427387904: correct up_version there")
	}
	require.Equal(t, "1", string(p.in(t, "b").Value))
	require.EqualValues(t, 2, p.l.Readings().Get("landing_rows_total"))
	Exec(t, d, "UPDATE "+d.Dialect.Quote("1_1")+" SET up_version = 7 WHERE "+d.Dialect.Quote("key")+" IN ('a0', 'a1')")
	_, err := p.Retry(ctx, nil)
	require.NoError(t, err)
	p.l.Pass(t, "it is landed", func() bool { return p.Status()[0].Refused == 0 })
	require.Equal(t, "1", string(p.in(t, "a1").Value))

	other := Player
	other.ID = "other"
	Write(t, d, Row(other, "a", "beyond", 1<<62))
	q := playOn(t, d)
	require.Equal(t, map[string]string{"a": "beyond"}, q.get(t, other, "a"))
	require.Equal(t, map[string]string{"a": "beyond"}, q.all(t, other))
}

// A row with a greater version, of an earlier data directory or an import.
func versionsRiseAboveTheDatabases(t *testing.T, d *Database) {
	Write(t, d, Row(Player, "a", "of an earlier life", 1_000_000))
	s := NewSource()
	s.Put(Player, "a", "of this life")
	s.Put(Player, "b", "b")
	l := Start(t, s, d, "a")
	l.Lands(t, s)
	s.Agree(t, d)
	require.EqualValues(t, 1, l.Readings().Get("landing_newer_rows_total"))
	require.Equal(t, "of this life v1000001", All(t, d, Player)["a"])
}
