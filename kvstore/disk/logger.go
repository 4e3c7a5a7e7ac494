package disk

import (
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/rs/zerolog"
)

// logger receives the database's messages. Its informational ones are of no interest to
// the operator of a server.
type logger struct {
	*log
	errors *sparing
}

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.errors.say(l.cfg.Clock.Now(), l.cfg.Log.Error()).Msg("database: " + fmt.Sprintf(format, args...))
}

// Fatalf is called when the database cannot go on. It returns, so no one may rely on what
// the database says afterwards: the fence lets nothing of it reach the disk.
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = fmt.Errorf("%s: %w", err, cause)
		}
	}
	l.fence.fail(err)
}

// sparing says something at most once a minute: the database tries again all the time what
// fails, and says so each time.
type sparing struct {
	mu     sync.Mutex
	next   time.Time // guarded by mu
	unsaid int       // guarded by mu
}

// say returns the event, or nil, which says nothing.
func (s *sparing) say(now time.Time, event *zerolog.Event) *zerolog.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.unsaid++
		event.Discard()
		return nil
	}
	if s.unsaid > 0 {
		event = event.Int("unsaid", s.unsaid)
	}
	s.next, s.unsaid = now.Add(time.Minute), 0
	return event
}

// fullStart returns what says that a store waits for space before it is open. Later its Trouble says
// so; until then a server has no port to ask for it.
func (d *database) fullStart() func(error) {
	waiting := &sparing{}
	return func(err error) {
		if !d.opened.Load() {
			waiting.say(d.cfg.Clock.Now(), d.cfg.Log.Error()).Err(err).Str("dir", d.cfg.Dir).
				Msg("the disk is full, and opening the state store waits for space; a server opens no port until then: free space on the disk, it goes on by itself")
		}
	}
}

func (l *log) listener() *pebble.EventListener {
	background := &sparing{}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			background.say(l.cfg.Clock.Now(), l.cfg.Log.Error()).Err(err).Msg("the database failed in the background")
			if !isFull(err) && l.damage.Load() == nil {
				l.fence.fail(err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { l.unreadable(fmt.Errorf("%s: %w", info.Path, info.Details)) },
	}
}
