package landing

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/storage"
	"confcenter/storage/landing/dbtest"
)

// lander is a Lander on a clock of the test's.
type lander struct {
	*Lander
	clock *clock.Fake
	log   *said
}

// said keeps what is logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func start(t testing.TB, s Source, d *Database, who string) *lander {
	t.Helper()
	l := &lander{clock: clock.NewFake(time.Unix(1_700_000_000, 0)), log: &said{}}
	l.Lander = Start(Config{Source: s, Database: d, Who: who, Clock: l.clock, Log: zerolog.New(l.log).Level(zerolog.InfoLevel)})
	t.Cleanup(l.Close)
	return l
}

// pass lets time pass, second by second, until something is so.
func (l *lander) pass(t testing.TB, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		l.clock.BlockUntil(1) // it waits
		if is() {
			return
		}
		l.clock.Advance(time.Second)
	}
	require.FailNow(t, "it did not become so: "+what, "%s", l.log)
}

func (l *lander) lands(t testing.TB, s *source) {
	t.Helper()
	l.pass(t, "everything is landed", func() bool { return s.left() == 0 })
}

func TestH24ManyDirtyFieldsNeedFewStatements(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		s := newSource()
		s.settings.Batch = 10
		for i := range 95 {
			s.put(player, fmt.Sprint("f", i), fmt.Sprint(i))
		}
		l := start(t, s, d, "a")
		l.lands(t, s)
		s.agree(t, d)
		require.Equal(t, 10, s.taken)
		require.EqualValues(t, 10, l.Readings().Get("landing_statements_total"))
		require.EqualValues(t, 95, l.Readings().Get("landing_rows_total"))
		require.EqualValues(t, 10, l.Readings().Get("landing_batches_total"))
	})
}

func TestH26AHealedDatabaseTakesTheRefusedRow(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		poison(t, d)
		s := newSource()
		for i := range 100 {
			s.put(player, fmt.Sprint("f", i), "good")
		}
		s.put(player, "bad", "poison")
		l := start(t, s, d, "a")
		l.pass(t, "all but one are landed", func() bool { return s.left() == 1 })
		require.Contains(t, s.reasons["user:100:bad"], "antidote")
		require.NotZero(t, l.Readings().Get("landing_refused_rows_total"))
		require.Zero(t, l.Readings().Get("landing_unreachable"), "it is the row's fault")
		heal(t, d)
		s.mu.Lock()
		s.due = true
		s.mu.Unlock()
		l.lands(t, s)
		s.agree(t, d)
	})
}

// H27, with the database killed as kill -9 does.
func TestH27ADatabaseThatIsAwayCostsBacklogOnly(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *dbtest.Server{"MariaDB": dbtest.MariaDB, "PostgreSQL": dbtest.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			instance := server(t)
			d := open(t, instance.Database(t))
			s := newSource()
			s.put(player, "before", "1")
			l := start(t, s, d, "a")
			l.lands(t, s)
			instance.Kill(t)
			for i := range 50 {
				s.put(player, fmt.Sprint("f", i), "written while it was away")
			}
			l.pass(t, "it has tried often", func() bool { return l.Readings().Get("landing_failures_total") >= 10 })
			require.EqualValues(t, 1, l.Readings().Get("landing_unreachable"))
			require.Equal(t, 50, s.left())
			instance.Start(t)
			l.lands(t, s)
			s.agree(t, d)
			require.Zero(t, l.Readings().Get("landing_unreachable"))
			require.Equal(t, 2, strings.Count(l.log.String(), "\n"), "it is told once that it is away, and once that it is back: %s", l.log)
		})
	}
}

// H28: the database dies in the middle of batches, again and again.
func TestH28TheDatabaseIsKilledInTheMiddleOfABatch(t *testing.T) {
	for name, server := range map[string]func(testing.TB) *dbtest.Server{"MariaDB": dbtest.MariaDB, "PostgreSQL": dbtest.PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			instance := server(t)
			d := open(t, instance.Database(t))
			s := newSource()
			s.settings.Batch = 500
			l := start(t, s, d, "a")
			for round := range 3 {
				before := l.Readings().Get("landing_batches_total")
				for i := range 5000 {
					s.put(player, fmt.Sprint("f", i), fmt.Sprint(round, " ", i, strings.Repeat("x", 100)))
				}
				l.clock.BlockUntil(1)
				l.clock.Advance(10 * time.Second)
				require.Eventually(t, func() bool { return l.Readings().Get("landing_batches_total") > before }, time.Minute, time.Millisecond)
				instance.Kill(t)
				instance.Start(t)
			}
			l.lands(t, s)
			s.agree(t, d)
		})
	}
}

func TestASourceThatIsAwayIsToldOnce(t *testing.T) {
	d := open(t, databases["SQLite"](t))
	s := newSource()
	s.fail(codes.Errorf(codes.Unreachable, "no server answers"))
	s.put(player, "a", "1")
	l := start(t, s, d, "a")
	l.pass(t, "it has tried", func() bool { return l.Readings().Get("landing_failures_total") >= 5 })
	s.fail(nil)
	l.lands(t, s)
	require.Equal(t, 2, strings.Count(l.log.String(), "\n"), l.log)
}

func TestH31ATableHasOneLanderAtATime(t *testing.T) {
	d := open(t, databases["SQLite"](t))
	s := newSource()
	s.settings.Tables = 4
	owner := player
	s.holders[1], s.fences[1] = "another", 7 // that died with it
	for i := range 4 {
		owner.ID = strings.Repeat("x", 4+i)
		s.put(owner, "a", "1")
	}
	l := start(t, s, d, "a")
	l.pass(t, "the others are landed", func() bool { return s.left() == 1 })
	require.Equal(t, "another", s.holders[1])
	for _, i := range []int{0, 2, 3} {
		require.Empty(t, s.holders[i], "given back")
	}
	b := start(t, s, d, "another")
	b.lands(t, s)
	s.agree(t, d)
}

func TestH32AClaimThatIsLostCountsForNothing(t *testing.T) {
	d := open(t, databases["SQLite"](t))
	s := newSource()
	s.put(player, "a", "1")
	s.steal = true
	l := start(t, s, d, "a")
	l.lands(t, s)
	s.agree(t, d)
	require.EqualValues(t, 1, l.Readings().Get("landing_lost_claims_total"))
}

// A lock time may be shorter than a slow database takes for a batch.
func TestAClaimIsKeptWhileTheDatabaseTakesItsTime(t *testing.T) {
	d := open(t, databases["SQLite"](t))
	write(t, d, row(player, "there", "1", 1))
	other, err := d.db.Conn(ctx)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.ExecContext(ctx, "BEGIN IMMEDIATE") // the database takes no other rows for now
	require.NoError(t, err)
	s := newSource()
	s.settings.LockTime = 3 * time.Second
	s.put(player, "a", "1")
	claims := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.claims
	}
	l := start(t, s, d, "a")
	for want := 2; want <= 5; want++ {
		l.clock.BlockUntil(1)
		l.clock.Advance(time.Second)
		require.Eventually(t, func() bool { return claims() >= want }, patience, time.Millisecond)
	}
	s.mu.Lock()
	s.holders[len(player.ID)%s.settings.Tables] = "another" // as if this lander had been stopped
	s.fences[0] = 0
	s.mu.Unlock()
	require.Eventually(t, func() bool {
		l.clock.Advance(time.Second)
		return l.Readings().Get("landing_lost_claims_total") == 1
	}, patience, time.Millisecond, "it does not wait for the database for nothing")
	_, err = other.ExecContext(ctx, "ROLLBACK")
	require.NoError(t, err)
	s.mu.Lock()
	s.holders[0] = ""
	s.mu.Unlock()
	require.Eventually(t, func() bool {
		l.clock.Advance(time.Second)
		return s.left() == 0
	}, patience, time.Millisecond)
	s.agree(t, d)
}

// A row with a greater version, of an earlier data directory or an import.
func TestVersionsRiseAboveTheDatabases(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		write(t, d, row(player, "a", "of an earlier life", 1_000_000))
		s := newSource()
		s.put(player, "a", "of this life")
		s.put(player, "b", "b")
		l := start(t, s, d, "a")
		l.lands(t, s)
		s.agree(t, d)
		require.EqualValues(t, 1, l.Readings().Get("landing_newer_rows_total"))
		require.Equal(t, "of this life v1000001", all(t, d, player)["a"])
	})
}

func TestH37SettingsCountAtOnce(t *testing.T) {
	d := open(t, databases["SQLite"](t))
	s := newSource()
	s.settings.Delay = time.Hour
	l := start(t, s, d, "a")
	l.clock.BlockUntil(1) // its first round is over
	s.put(player, "a", "1")
	l.clock.Advance(time.Minute)
	l.clock.BlockUntil(1)
	require.Equal(t, 1, s.left(), "it is not yet time")
	s.change(func(set *storage.Settings) { set.Delay = 10 * time.Second })
	l.clock.Advance(time.Second)
	l.clock.BlockUntil(1)
	require.Zero(t, s.left(), "more than ten seconds have passed since the first round")
	s.change(func(set *storage.Settings) { set.Batch, set.Tables = 2, 3 })
	for i := range 9 {
		owner := player
		owner.ID = strings.Repeat("x", 3+i)
		s.put(owner, "a", "1")
	}
	taken := s.taken
	l.lands(t, s)
	require.Equal(t, 6, s.taken-taken, "three tables, in two batches each")
}
