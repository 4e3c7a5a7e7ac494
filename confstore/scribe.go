package confstore

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// scribe carries out the steps of the log on a goroutine of its own, one at a time, so that
// a disk that hangs holds up what is recorded and nothing else. Only the store's goroutine gives
// it steps.
type scribe struct {
	// set at open
	clock    clock.Clock
	troubles *troubles
	patience time.Duration
	steps    chan func() error
	done     chan error // of capacity 1: the result of the step under way
	running  sync.WaitGroup

	// store's goroutine only
	late time.Time // when the step under way was given, if that is too long ago; zero: none is late
}

// errHanging is the result of a step that has not ended yet and may still succeed, and of all
// that would have to wait for it.
var errHanging = codes.Errorf(codes.Storage, "the disk of the data directory does not answer; writes go on when it does")

// errPanicked is the result of a step that panicked: what it leaves is not to be used.
var errPanicked = codes.Errorf(codes.Storage, "the configuration store has failed and takes no changes until a restart; the server's log says why")

func newScribe(cfg *Config, troubles *troubles) *scribe {
	s := &scribe{clock: cfg.Clock, troubles: troubles, patience: cfg.DiskPatience, steps: make(chan func() error), done: make(chan error, 1)}
	s.running.Go(s.run)
	return s
}

// do returns the result of step, or errHanging if it takes too long or another one still does.
// A step that was begun is finished at any rate; its result then comes from caughtUp.
func (s *scribe) do(step func() error) error {
	if s.hangs() {
		return errHanging
	}
	given := s.clock.Now()
	timer := s.clock.NewTimer(s.patience)
	defer timer.Stop()
	s.steps <- step
	select {
	case err := <-s.done:
		return err
	case <-timer.C():
		s.late = given
		return errHanging
	}
}

func (s *scribe) hangs() bool { return !s.late.IsZero() }

// caughtUp is where the result of a step that was late comes from; nil if none is.
func (s *scribe) caughtUp() <-chan error {
	if s.hangs() {
		return s.done
	}
	return nil
}

// end waits for the step under way. No more may be given.
func (s *scribe) end() {
	close(s.steps)
	s.running.Wait()
}

func (s *scribe) run() {
	for step := range s.steps {
		s.done <- s.guarded(step)
	}
}

func (s *scribe) guarded(step func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = s.troubles.panicked(what)
		}
	}()
	return step()
}

// panicked counts a panic, logs what it left and returns it as an error that peers may see.
func (t *troubles) panicked(what any) error {
	t.panics.Add(1)
	t.log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("the configuration store panicked; it takes no changes until a restart")
	return errPanicked
}
