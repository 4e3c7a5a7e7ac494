package landing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/metric"
	"confcenter/kv"
	"confcenter/player"
	"confcenter/player/field"
)

// Source is where dirty fields come from: Local, or a server. What its methods mean is said at
// storage.Storage's methods of the same names.
type Source interface {
	Settings(ctx context.Context) (field.Settings, error)
	Claim(ctx context.Context, table int, who string) (field.Claim, error)
	Release(ctx context.Context, table int, fence kv.Revision) error
	Dirty(ctx context.Context, table, limit int) (*field.Batch, error)
	Landed(ctx context.Context, fence kv.Revision, b *field.Batch, failed []field.Failure) error
	Newer(ctx context.Context, version int64) error
}

// Config sets up a Lander. Source and Database must be set.
type Config struct {
	Source   Source
	Database *Database
	Prover   Prover // that the Source loads from the Database what is written to it; nil: no one asks
	// Who tells landers apart: no two that run at the same time may have the same. One that
	// takes the place of another may have its name, and then need not wait for its claims to
	// end.
	Who   string
	Clock clock.Clock // nil: the machine's
	Log   zerolog.Logger
}

// Limits of a Lander.
const (
	glance     = time.Second            // at least so often it looks whether settings have changed
	firstPause = 250 * time.Millisecond // after the first failure; each one after it doubles the pause
	longPause  = 30 * time.Second       // the longest one
	farewell   = 5 * time.Second        // for giving back a claim

	slowBatch    = 10 * queryTime // longer than a slow database takes for a batch
	maxConflicts = 10             // times that a batch is taken again before a pause
)

// Lander moves dirty fields from a Source to a Database until it is closed: the tables one after
// the other, each in batches until nothing is left in it. Several Landers share the tables of one
// Source.
type Lander struct {
	cfg    Config
	cancel context.CancelFunc
	ended  chan struct{} // closed by the goroutine
	counts counts

	// of the goroutine
	seed    int           // the table to begin with
	last    time.Time     // of the last round
	pause   time.Duration // before the next round, while something is wrong
	trouble string        // what is wrong and was logged
	proved  proved        // for what the database was proved since the last failure
	unfit   string        // why a table cannot be landed in, as it was logged last
	told    time.Time     // when that was
	breaks  map[int]int   // of dirty tables: how often in a row a batch has broken the connection
}

// stuck is the error of a dirty table whose rows cannot be written now, while the database
// answers.
type stuck struct {
	table int
	error
}

func (s *stuck) Error() string {
	return fmt.Sprintf("dirty table %d waits, and the others go on: %v", s.table, s.error)
}

func (s *stuck) Unwrap() error { return s.error }

// counts are a Lander's numbers.
type counts struct {
	Rows        atomic.Int64 `metric:"landing_rows_total" help:"Rows that the database took."`
	Refused     atomic.Int64 `metric:"landing_refused_rows_total" help:"Rows that the database refused, each time they were tried."`
	Statements  atomic.Int64 `metric:"landing_statements_total" help:"Statements that carried rows."`
	Batches     atomic.Int64 `metric:"landing_batches_total" help:"Batches of rows that are landed."`
	Failures    atomic.Int64 `metric:"landing_failures_total" help:"Rounds in which the database or the server could not be worked with, or a dirty table could not be landed."`
	Lost        atomic.Int64 `metric:"landing_lost_claims_total" help:"Batches that counted for nothing because another lander had taken over the table."`
	Newer       atomic.Int64 `metric:"landing_newer_rows_total" help:"Batches that met rows with later versions in the database, so that all versions were raised."`
	Unreachable atomic.Int64 `metric:"landing_unreachable" help:"1 while the database or the server cannot be worked with, or a dirty table cannot be landed, else 0."`
}

// Start starts a Lander.
func Start(cfg Config) *Lander {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	ctx, cancel := context.WithCancel(context.Background())
	l := &Lander{cfg: cfg, cancel: cancel, ended: make(chan struct{}), breaks: map[int]int{}}
	go l.run(ctx)
	return l
}

// Close stops landing. What is not landed stays dirty.
func (l *Lander) Close() {
	l.cancel()
	<-l.ended
}

// Readings are the Lander's numbers.
func (l *Lander) Readings() metric.Readings { return metric.Of(&l.counts) }

func (l *Lander) run(ctx context.Context) {
	defer close(l.ended)
	timer := l.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		timer.Reset(l.turn(ctx))
	}
}

// turn does a round if it is time for one, and returns when to look again.
func (l *Lander) turn(ctx context.Context) time.Duration {
	set, err := l.cfg.Source.Settings(ctx)
	if err == nil {
		now := l.cfg.Clock.Now()
		if wait := l.last.Add(set.Delay).Sub(now); wait > 0 && l.pause == 0 && !l.last.IsZero() {
			return min(wait, glance)
		}
		l.last = now
		err = l.round(ctx, set)
	}
	if ctx.Err() != nil {
		return longPause // no one waits for it
	}
	if err == nil {
		l.works()
		return min(set.Delay, glance)
	}
	l.fails(err)
	return l.pause
}

// What is wrong.
const (
	hasToWait = "landing has to wait, and goes on by itself: "
	isWrong   = "nothing is landed until this is put right: "
)

// fails tells once that it has to wait, and once that waiting does not help.
func (l *Lander) fails(err error) {
	l.counts.Failures.Add(1)
	l.counts.Unreachable.Store(1)
	l.pause = min(max(2*l.pause, firstPause), longPause)
	l.proved = proved{} // the database may be another one when it is back
	trouble, event := hasToWait, l.cfg.Log.Warn()
	if errors.As(err, new(elsewhere)) || errors.As(err, new(*player.Unusable)) {
		trouble, event = isWrong, l.cfg.Log.Error()
	}
	if l.trouble == "" || l.trouble == hasToWait && trouble == isWrong {
		l.trouble = trouble
		event.Str("database", l.cfg.Database.Name()).Msg(trouble + err.Error())
	}
}

func (l *Lander) works() {
	l.pause = 0
	l.counts.Unreachable.Store(0)
	if l.trouble != "" {
		l.trouble = ""
		l.cfg.Log.Info().Str("database", l.cfg.Database.Name()).Msg("landing goes on")
	}
}

// round lands what is dirty in all tables that no other lander is landing. A table whose rows cannot
// be written holds the others up only if the database does not answer.
func (l *Lander) round(ctx context.Context, set field.Settings) (failed error) {
	l.seed++ // so that several landers do not run after each other
	for i := range set.Tables {
		err := l.table(ctx, set, (l.seed+i)%set.Tables)
		if only := new(stuck); err != nil && !errors.As(err, &only) {
			return err
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

func (l *Lander) table(ctx context.Context, set field.Settings, table int) (err error) {
	if err := l.prove(ctx); err != nil {
		return err
	}
	claim, err := l.cfg.Source.Claim(ctx, table, l.cfg.Who)
	if err != nil || claim.Fence == 0 {
		return err // nothing is dirty in it, or another lander has it
	}
	since := l.cfg.Clock.Now()
	defer func() {
		if err != nil && !errors.Is(err, codes.FenceLost) && codes.Of(err) == codes.Closed {
			return // the source has gone
		}
		l.release(ctx, table, claim.Fence)
		if errors.Is(err, codes.FenceLost) {
			l.counts.Lost.Add(1)
			l.cfg.Log.Info().Int("table", table).Msg("the claim of the dirty table has ended in the middle of a batch; the one that has the table now writes its rows again")
			err = nil
		}
	}()
	conflicts := 0
	for {
		if l.cfg.Clock.Now().Sub(since) >= set.LockTime/3 {
			if err := l.prolong(ctx, table, claim.Fence); err != nil {
				return err
			}
			since = l.cfg.Clock.Now()
		}
		b, err := l.batch(ctx, set, table, claim.Fence)
		if errors.Is(err, codes.Conflict) && conflicts < maxConflicts {
			conflicts++
			continue
		} else if err != nil || b == nil {
			return err
		}
		conflicts = 0
		now, err := l.cfg.Source.Settings(ctx)
		if err != nil || now.Tables != set.Tables || !b.More {
			return err
		}
		set = now
	}
}

// release gives back a claim, also when the Lander is being closed.
func (l *Lander) release(ctx context.Context, table int, fence kv.Revision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	_ = l.cfg.Source.Release(ctx, table, fence) // else it ends by itself
}

// prolong renews a claim that must still be there.
func (l *Lander) prolong(ctx context.Context, table int, fence kv.Revision) error {
	claim, err := l.cfg.Source.Claim(ctx, table, l.cfg.Who)
	if err != nil {
		return err
	}
	if claim.Fence != fence && !claim.Idle {
		return codes.Errorf(codes.FenceLost, "the claim of dirty table %d has ended", table)
	}
	return nil
}

// write has the database write rows. If the claim may end before that is done it is prolonged
// meanwhile: a slow database and a short lock time would have every batch written for nothing.
func (l *Lander) write(ctx context.Context, set field.Settings, table int, fence kv.Revision, rows []field.DirtyRow) (Written, error) {
	write := l.cfg.Database.Write
	if l.breaks[table] >= MaxBreaks {
		write = l.cfg.Database.Isolate
	}
	if set.LockTime/3*2 > slowBatch {
		return write(ctx, rows)
	}
	ctx, stop := context.WithCancelCause(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() {
		ticker := l.cfg.Clock.NewTicker(set.LockTime / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
			if err := l.prolong(ctx, table, fence); errors.Is(err, codes.FenceLost) {
				stop(err)
				return
			}
		}
	})
	w, err := write(ctx, rows)
	stop(nil)
	keeper.Wait()
	if lost := context.Cause(ctx); errors.Is(lost, codes.FenceLost) {
		return w, lost
	}
	return w, err
}

// batch lands one batch, nil if there is none. codes.Conflict asks for taking it again.
func (l *Lander) batch(ctx context.Context, set field.Settings, table int, fence kv.Revision) (*field.Batch, error) {
	// Before it is known what is to be written: rows that are purged meanwhile must not come
	// back.
	ctx, cancel := context.WithTimeout(ctx, field.MaxBatchTime)
	defer cancel()
	b, err := l.cfg.Source.Dirty(ctx, table, set.Batch)
	if err != nil || b == nil {
		return nil, err
	}
	w, err := l.write(ctx, set, table, fence, b.Rows)
	l.counts.Rows.Add(int64(w.Rows))
	l.counts.Refused.Add(int64(len(w.Failed)))
	l.counts.Statements.Add(int64(w.Statements))
	l.tell(w.Unfit)
	switch {
	case err == nil:
		delete(l.breaks, table)
	case w.Answers:
		if w.Broke {
			l.breaks[table]++
		}
		return nil, &stuck{table, err}
	default:
		return nil, err
	}
	if w.Newer > 0 {
		// Rows of another data directory or of an import, or those of the lander that has
		// taken over.
		if err := l.prolong(ctx, table, fence); err != nil {
			return nil, err
		}
		l.counts.Newer.Add(1)
		if err := l.cfg.Source.Newer(ctx, w.Newer); err != nil {
			return nil, err
		}
		return nil, codes.Errorf(codes.Conflict, "the database has a later version, %d", w.Newer)
	}
	if err := l.prove(ctx); err != nil { // nothing to do, unless the connection is another one
		return nil, err
	}
	if err := l.cfg.Source.Landed(ctx, fence, b, w.Failed); err != nil {
		return nil, err
	}
	l.counts.Batches.Add(1)
	l.cfg.Log.Debug().Int("table", table).Int("rows", w.Rows).Int("refused", len(w.Failed)).Msg("landed")
	return b, nil
}

// tell logs once in a while that a table cannot be landed in.
func (l *Lander) tell(unfit error) {
	now := l.cfg.Clock.Now()
	if unfit == nil || unfit.Error() == l.unfit && now.Sub(l.told) < checkTime {
		return
	}
	l.unfit, l.told = unfit.Error(), now
	l.cfg.Log.Error().Str("database", l.cfg.Database.Name()).Msg("what is to be landed in a table is in the list of errors until this is put right: " + l.unfit)
}

// Local is the Source of a storage in this process.
func Local(s *player.Storage) Source { return local{s} }

type local struct{ *player.Storage }

func (l local) Settings(context.Context) (field.Settings, error) { return l.Storage.Settings(), nil }
