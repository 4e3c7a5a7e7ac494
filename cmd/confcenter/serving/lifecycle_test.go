package serving

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"confcenter/codes"
)

// stub is a server whose Shutdown ends when the test says or its context ends.
type stub struct {
	ended   chan struct{}
	why     error
	called  chan struct{}
	drained chan error
}

func newStub() *stub {
	return &stub{ended: make(chan struct{}), called: make(chan struct{}), drained: make(chan error, 1)}
}

func (s *stub) Done() <-chan struct{} { return s.ended }

func (s *stub) Err() error { return s.why }

func (s *stub) Shutdown(ctx context.Context) error {
	close(s.called)
	select {
	case err := <-s.drained:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start runs a lifecycle; the test sends signals and reads the result.
func start(ctx context.Context, s *stub, limit time.Duration) (signals chan os.Signal, reloads chan struct{}, result chan error) {
	signals, reloads, result = make(chan os.Signal), make(chan struct{}), make(chan error, 1)
	l := &lifecycle{server: s, reload: func() { reloads <- struct{}{} }, signals: signals, limit: limit, log: zerolog.Nop()}
	go func() { result <- l.wait(ctx) }()
	return signals, reloads, result
}

func TestSignalDrains(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := newStub()
			signals, _, result := start(t.Context(), s, time.Hour)
			signals <- sig
			<-s.called
			s.drained <- nil
			require.NoError(t, <-result)
		})
	}
}

func TestEndOfContextDrains(t *testing.T) {
	s := newStub()
	ctx, cancel := context.WithCancel(t.Context())
	_, _, result := start(ctx, s, time.Hour)
	cancel()
	<-s.called
	s.drained <- nil
	require.NoError(t, <-result)
}

func TestDrainIsBounded(t *testing.T) {
	s := newStub()
	signals, _, result := start(t.Context(), s, time.Millisecond)
	signals <- syscall.SIGTERM
	require.NoError(t, <-result, "a stop that ran out of time is still a stop that was asked for")
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		signals, _, result := start(t.Context(), s, time.Hour)
		signals <- syscall.SIGTERM
		<-s.called
		<-time.After(sameStop)
		signals <- syscall.SIGHUP // not a stop signal
		signals <- syscall.SIGINT
		require.ErrorIs(t, <-result, errCutShort)
	})
}

func TestSecondSignalWithinASecondIsTheSameOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		signals, _, result := start(t.Context(), s, time.Hour)
		signals <- syscall.SIGTERM
		<-s.called
		signals <- syscall.SIGTERM
		<-time.After(sameStop - 1)
		signals <- syscall.SIGINT
		synctest.Wait() // until it has been judged
		s.drained <- nil
		require.NoError(t, <-result, "the drain goes on")
	})
}

func TestSignalAfterAStopWithoutOneStopsAtOnce(t *testing.T) {
	s := newStub()
	ctx, cancel := context.WithCancel(t.Context())
	signals, _, result := start(ctx, s, time.Hour)
	cancel()
	<-s.called
	signals <- syscall.SIGTERM
	require.ErrorIs(t, <-result, errCutShort)
}

func TestFailedShutdownIsTold(t *testing.T) {
	s := newStub()
	signals, _, result := start(t.Context(), s, time.Hour)
	signals <- syscall.SIGTERM
	cause := errors.New("listener")
	s.drained <- cause
	require.ErrorIs(t, <-result, cause)
}

func TestHangupReloadsAndServesOn(t *testing.T) {
	s := newStub()
	signals, reloads, result := start(t.Context(), s, time.Hour)
	for range 3 {
		signals <- syscall.SIGHUP
		<-reloads
	}
	select {
	case <-s.called:
		t.Fatal("SIGHUP stopped the server")
	default:
	}
	signals <- syscall.SIGTERM
	s.drained <- nil
	require.NoError(t, <-result)
}

// A server without half of itself must not look alive, and what it has taken is finished.
func TestHTTPThatEndsByItselfIsAFailure(t *testing.T) {
	for _, why := range []error{nil, errors.New("accept: bad file descriptor")} {
		s := newStub()
		s.why = why
		_, _, result := start(t.Context(), s, time.Hour)
		close(s.ended)
		<-s.called
		s.drained <- nil
		err := <-result
		require.ErrorIs(t, err, errEnded)
		require.Equal(t, codes.Internal, codes.Of(err), "which has exit code 1")
		if why != nil {
			require.ErrorIs(t, err, why)
		}
	}
}
