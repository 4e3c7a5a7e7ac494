package landing

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/storage"
)

// Many may prove the same database at the same time, and nothing is left in it.
func TestAProofFindsItsFieldAndTakesItAway(t *testing.T) {
	onEach(t, func(t *testing.T, d *Database) {
		stale := row(Proof, "of one that was killed", "", 0)
		write(t, d, stale)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 4 {
					err := d.Prove(ctx, func(name string) error {
						rows, err := d.Fields(ctx, Proof, []string{name})
						if err == nil && len(rows) != 1 {
							err = codes.Conflict
						}
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		rows, err := d.All(ctx, Proof)
		require.NoError(t, err)
		require.Empty(t, rows)
		tables, err := d.Importable(ctx)
		require.NoError(t, err)
		require.Empty(t, tables, "the table of proofs is nobody's")

		require.ErrorIs(t, d.Prove(ctx, func(string) error { return codes.Busy }), codes.Busy)
		rows, err = d.All(ctx, Proof)
		require.NoError(t, err)
		require.Empty(t, rows)
	})
}

// served is a Prover of the test's.
type served struct {
	mu         sync.Mutex
	connection int   // guarded by mu
	err        error // guarded by mu
	proofs     int   // guarded by mu
}

func (s *served) Connection() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connection
}

func (s *served) Prove(context.Context, *Database) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proofs++
	return s.err
}

func (s *served) set(connection int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connection, s.err = connection, err
}

func (s *served) proved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proofs
}

func (s *source) claimed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims
}

// Nothing is claimed before the database is proved: at the beginning, over another connection,
// and after a failure.
func TestALanderProvesItsDatabaseBeforeItClaims(t *testing.T) {
	d, s := open(t, databases["SQLite"](t)), newSource()
	other := codes.Errorf(codes.Conflict, "another database")
	by := &served{connection: 1, err: codes.Errorf(codes.Unreachable, "not yet")}
	l := &lander{clock: clock.NewFake(time.Unix(1_700_000_000, 0)), log: &said{}}
	l.Lander = Start(Config{Source: s, Database: d, Prover: by, Who: "a", Clock: l.clock, Log: zerolog.New(l.log).Level(zerolog.InfoLevel)})
	t.Cleanup(l.Close)
	says := func(text string, times int) {
		t.Helper()
		l.pass(t, text, func() bool { return strings.Count(l.log.String(), text) == times })
	}
	tries := func() {
		t.Helper()
		before := by.proved()
		l.pass(t, "it tries again", func() bool { return by.proved() > before+3 })
	}
	s.put(player, "a", "1")
	says("has to wait", 1)
	by.set(1, other)
	says("nothing is landed", 1)
	tries()
	require.Zero(t, s.claimed())
	require.Equal(t, 1, strings.Count(l.log.String(), "nothing is landed"), "it is said once")
	require.EqualValues(t, 1, l.Readings().Get("landing_unreachable"))
	by.set(1, nil)
	l.lands(t, s)
	says("landing goes on", 1)
	before := by.proved()
	s.put(player, "a", "2")
	l.lands(t, s)
	require.Equal(t, before, by.proved(), "once is enough")

	by.set(2, other)
	says("nothing is landed", 2)
	claims := s.claimed()
	s.put(player, "a", "3")
	tries()
	require.Equal(t, claims, s.claimed())
	by.set(2, nil)
	l.lands(t, s)

	s.fail(codes.Errorf(codes.Unreachable, "away"))
	says("has to wait", 2)
	before = by.proved()
	s.fail(nil)
	s.put(player, "a", "4")
	l.lands(t, s)
	require.Greater(t, by.proved(), before)
	s.agree(t, d)
}

// A batch that was written is not reported to a server that has another database by now.
func TestALanderProvesItsDatabaseBeforeItReports(t *testing.T) {
	d, by := open(t, databases["SQLite"](t)), &served{connection: 1}
	s := &swapped{source: newSource(), taken: func() { by.set(2, codes.Errorf(codes.Conflict, "another database")) }}
	s.put(player, "a", "1")
	l := &lander{clock: clock.NewFake(time.Unix(1_700_000_000, 0)), log: &said{}}
	l.Lander = Start(Config{Source: s, Database: d, Prover: by, Who: "a", Clock: l.clock, Log: zerolog.New(l.log)})
	t.Cleanup(l.Close)
	l.pass(t, "it is said", func() bool { return strings.Contains(l.log.String(), "nothing is landed") })
	require.Equal(t, 1, s.left())
}

// swapped is a source after whose batch another server is there.
type swapped struct {
	*source
	taken func()
}

func (s *swapped) Dirty(ctx context.Context, table, limit int) (*storage.Batch, error) {
	defer s.taken()
	return s.source.Dirty(ctx, table, limit)
}
