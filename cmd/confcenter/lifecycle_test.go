package main

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
	"go.uber.org/goleak"

	"confcenter/codes"
)

// buildDir is where tests that need a process put the binary.
var buildDir string

// The event loop's library starts goroutines when it is imported; they are
// no leak of a test.
func TestMain(m *testing.M) {
	// Nothing depends on the machine's zone, so it is another than UTC. That of the process is read once.
	err := os.Setenv("TZ", "Asia/Shanghai")
	if _, east := time.Now().Zone(); err != nil || east == 0 {
		panic("there is no other time zone to test in")
	}
	if buildDir, err = os.MkdirTemp("", "confcenter-test-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

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
func (s *stub) Err() error            { return s.why }
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
		require.Equal(t, exitFailed, exitCode(err))
		if why != nil {
			require.ErrorIs(t, err, why)
		}
	}
}

func TestConnectionLimit(t *testing.T) {
	cases := []struct {
		name               string
		asked, files, want int
		refused            string
	}{
		{"derived", 0, 20000, 20000 - reservedFiles, ""},
		{"asked", 100, 20000, 100, ""},
		{"exactly all", 1000, 1000 + reservedFiles, 1000, ""},
		{"one too many", 1001, 1000 + reservedFiles, 0, "raise it (ulimit -n) to 1513"},
		{"no room at all", 0, reservedFiles, 0, "leaves none"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := connectionLimit(c.asked, c.files, reservedFiles)
			if c.refused != "" {
				require.ErrorContains(t, err, c.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFileLimitIsRaisedToTheHardOne(t *testing.T) {
	files, err := raiseFileLimit()
	require.NoError(t, err)
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.Equal(t, limit.Max, limit.Cur)
	require.EqualValues(t, min(limit.Max, 1<<30), files)
}

// Scripts take 4 for a server that cannot be reached.
func TestAServerThatCannotBeClosedHasFailed(t *testing.T) {
	hangs := errors.Join(nil, codes.Errorf(codes.Timeout, "the state store cannot be closed"))
	require.Equal(t, exitFailed, exitCode(failed(hangs)))
	require.Equal(t, exitUsage, exitCode(failed(usageError{hangs})))
	require.Equal(t, exitOK, exitCode(failed(nil)))
}
