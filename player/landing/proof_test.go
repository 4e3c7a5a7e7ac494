//go:build !race || soak

package landing_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"confcenter/codes"
	"confcenter/player/field"
	"confcenter/player/landing"
	"confcenter/player/landing/landingtest"
)

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

func (s *served) Prove(context.Context, *landing.Database) error {
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

// Nothing is claimed before the database is proved: at the beginning, over another connection,
// and after a failure.
func TestALanderProvesItsDatabaseBeforeItClaims(t *testing.T) {
	d, s := landingtest.SQLite.Open(t), landingtest.NewSource()
	other := codes.Errorf(codes.Conflict, "another database")
	by := &served{connection: 1, err: codes.Errorf(codes.Unreachable, "not yet")}
	l := landingtest.StartWith(t, landing.Config{Source: s, Database: d.Database, Prover: by, Who: "a"})
	says := func(text string, times int) {
		t.Helper()
		l.Pass(t, text, func() bool { return strings.Count(l.Log.String(), text) == times })
	}
	tries := func() {
		t.Helper()
		before := by.proved()
		l.Pass(t, "it tries again", func() bool { return by.proved() > before+3 })
	}
	s.Put(someone, "a", "1")
	says("has to wait", 1)
	by.set(1, other)
	says("nothing is landed", 1)
	tries()
	require.Zero(t, s.Asked())
	require.Equal(t, 1, strings.Count(l.Log.String(), "nothing is landed"), "it is said once")
	require.EqualValues(t, 1, l.Readings().Get("landing_unreachable"))
	by.set(1, nil)
	l.Lands(t, s)
	says("landing goes on", 1)
	before := by.proved()
	s.Put(someone, "a", "2")
	l.Lands(t, s)
	require.Equal(t, before, by.proved(), "once is enough")

	by.set(2, other)
	says("nothing is landed", 2)
	claims := s.Asked()
	s.Put(someone, "a", "3")
	tries()
	require.Equal(t, claims, s.Asked())
	by.set(2, nil)
	l.Lands(t, s)

	s.Fail(codes.Errorf(codes.Unreachable, "away"))
	says("has to wait", 2)
	before = by.proved()
	s.Fail(nil)
	s.Put(someone, "a", "4")
	l.Lands(t, s)
	require.Greater(t, by.proved(), before)
	s.Agree(t, d)
}

// A batch that was written is not reported to a server that has another database by now.
func TestALanderProvesItsDatabaseBeforeItReports(t *testing.T) {
	d, by := landingtest.SQLite.Open(t), &served{connection: 1}
	s := &swapped{Source: landingtest.NewSource(), then: func() { by.set(2, codes.Errorf(codes.Conflict, "another database")) }}
	s.Put(someone, "a", "1")
	l := landingtest.StartWith(t, landing.Config{Source: s, Database: d.Database, Prover: by, Who: "a"})
	l.Pass(t, "it is said", func() bool { return strings.Contains(l.Log.String(), "nothing is landed") })
	require.Equal(t, 1, s.Left())
}

// swapped is a source after whose batch another server is there.
type swapped struct {
	*landingtest.Source
	then func()
}

func (s *swapped) Dirty(ctx context.Context, table, limit int) (*field.Batch, error) {
	defer s.then()
	return s.Source.Dirty(ctx, table, limit)
}

// The built-in lander proves that what one connection writes another one reads: before it lands
// anything, and once there is a new connection.
func TestWhatOneConnectionWritesAnotherOneReads(t *testing.T) {
	d, s := landingtest.SQLite.Open(t), landingtest.NewSource()
	require.NoError(t, landing.Self().Prove(ctx, d.Database)) // makes the table
	spoil := map[string]string{
		"it is gone":    `CREATE TRIGGER spoil AFTER INSERT ON confcenter_proof BEGIN DELETE FROM confcenter_proof; END`,
		"it is another": `CREATE TRIGGER spoil AFTER INSERT ON confcenter_proof BEGIN UPDATE confcenter_proof SET value = CAST('x' AS BLOB); END`,
	}
	l := landingtest.StartWith(t, landing.Config{Source: s, Database: d.Database, Prover: landing.Self(), Who: "a"})
	said := 0
	for what, trigger := range spoil {
		landingtest.Exec(t, d, trigger)
		l.Clock.BlockUntil(1)   // its round is over: it holds no connection
		d.DB.SetMaxIdleConns(0) // as when it was away
		d.DB.SetMaxIdleConns(2)
		s.Put(someone, "a", what)
		said++
		l.Pass(t, what, func() bool { return strings.Count(l.Log.String(), "nothing is landed until this is put right") == said })
		require.Contains(t, l.Log.String(), "what one connection has written")
		require.Equal(t, 1, s.Left())
		landingtest.Exec(t, d, "DROP TRIGGER spoil")
		l.Lands(t, s)
		s.Agree(t, d)
	}
	rows, err := d.All(ctx, landing.Proof)
	require.NoError(t, err)
	require.Empty(t, rows)
}
