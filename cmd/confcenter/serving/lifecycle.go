package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// running is what the lifecycle needs of a started server.
type running interface {
	// Done is closed when its HTTP side has ended, which it does not do by itself; nil
	// without one. The event loops of TCP cannot tell: /livez sees them stand still.
	Done() <-chan struct{}
	// Err says why HTTP has ended; it may be nil.
	Err() error
	// Shutdown stops accepting connections, finishes what has begun, and returns when ctx
	// ends at the latest.
	Shutdown(ctx context.Context) error
}

// lifecycle runs a server from its start to its end.
type lifecycle struct {
	server  running
	reload  func() // for SIGHUP
	signals <-chan os.Signal
	limit   time.Duration // of the drain
	log     zerolog.Logger
}

// sameStop is how long after the first stop signal further ones count as the same: GNU
// timeout, for example, signals its child and then the child's process group.
const sameStop = time.Second

var (
	errEnded    = errors.New("HTTP ended by itself")
	errCutShort = errors.New("a second signal cut the drain short")
)

// wait returns when the server has stopped: nil after an orderly stop, even if the time
// for draining ran out.
func (l *lifecycle) wait(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			l.log.Info().Msg("stopping")
			return l.drain(time.Time{})
		case <-l.server.Done():
			return errors.Join(l.ended(), l.drain(time.Time{}))
		case sig := <-l.signals:
			if sig == syscall.SIGHUP {
				l.log.Info().Msg("SIGHUP: reading the configuration directory again")
				l.reload()
				continue
			}
			asked := time.Now()
			l.log.Info().Stringer("signal", sig).Dur("limit", l.limit).Msg("stopping; a second signal, after a second or more, stops at once")
			return l.drain(asked)
		}
	}
}

// ended says why HTTP ended by itself.
func (l *lifecycle) ended() error {
	if err := l.server.Err(); err != nil {
		return fmt.Errorf("%w: %w", errEnded, err)
	}
	return errEnded
}

// drain shuts the server down. It needs a context of its own, because the caller's may
// have ended. asked is the time of the first signal, zero if there was none.
func (l *lifecycle) drain(asked time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.limit)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- l.server.Shutdown(ctx) }() // ended by ctx, waited for below
	cutShort := false
	for {
		select {
		case err := <-stopped:
			return l.drained(err, cutShort)
		case sig := <-l.signals:
			if sig != syscall.SIGHUP && time.Since(asked) >= sameStop {
				cutShort = true
				cancel()
			}
		}
	}
}

func (l *lifecycle) drained(err error, cutShort bool) error {
	switch {
	case cutShort:
		return errCutShort
	case errors.Is(err, context.DeadlineExceeded):
		// Acknowledged writes are on disk, so only replies are lost.
		l.log.Warn().Dur("limit", l.limit).Msg("not everything could be sent before the limit; stopping anyway")
	case err != nil:
		return fmt.Errorf("the server did not stop cleanly: %w", err)
	}
	l.log.Info().Msg("stopped")
	return nil
}
