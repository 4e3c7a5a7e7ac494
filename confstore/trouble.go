package confstore

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"confcenter/codes"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
)

// troubles are why the store takes no writes. Any goroutine may read them.
type troubles struct {
	// set at open
	cfg *Config
	dir string // cfg.Dir, absolute

	writing, root atomic.Pointer[health.Trouble] // written by the store's goroutine
	turn          atomic.Int64                   // when its turn began, in ns since 1970; 0: it waits
	ofData        atomic.Int64                   // likewise, when it began to wait for the data directory
	panics        atomic.Uint64                  // of the code that writes

	ofState bool // store's goroutine only: writing is the state store's trouble

	// watching goroutine only
	troubled bool // at the last look
	reminder health.Reminder
}

// Trouble returns why the store takes no writes, nil if it does. It is cheap and may be called
// from any goroutine.
func (s *Store) Trouble() *health.Trouble { return s.troubles.now() }

func (t *troubles) now() *health.Trouble {
	if trouble := t.writing.Load(); trouble != nil {
		return trouble
	}
	if trouble := t.hanging(); trouble != nil {
		return trouble
	}
	return t.root.Load()
}

// hanging is the trouble of a turn that does not end: what it waits for is one of the two
// directories.
func (t *troubles) hanging() *health.Trouble {
	trouble := &health.Trouble{Kind: health.Hanging, Dir: t.dir, Err: errDirHanging}
	began := t.turn.Load()
	if data := t.ofData.Load(); data != 0 {
		began, trouble.Dir, trouble.Err = data, t.cfg.DataDir, errDataHanging
	}
	if trouble.Since = time.Unix(0, began); began == 0 || t.cfg.Clock.Now().Sub(trouble.Since) < 3*t.cfg.DiskPatience {
		return nil
	}
	return trouble
}

var (
	errDirHanging  = codes.Errorf(codes.Storage, "the disk of the configuration directory does not answer; files are read and written again when it does")
	errDataHanging = codes.Errorf(codes.Storage, "the disk of the data directory does not answer; files are read and written again when it does")
)

// during does what may have to wait for the data directory.
func (t *troubles) during(step func() error) error {
	t.ofData.Store(t.cfg.Clock.Now().UnixNano())
	defer t.ofData.Store(0)
	return step()
}

// panicked counts a panic, logs what it left and returns it as an error that peers may see.
func (t *troubles) panicked(what any) error {
	t.panics.Add(1)
	t.cfg.Log.Error().Str("panic", fmt.Sprint(what)).Bytes("stack", debug.Stack()).Msg("the configuration store panicked; it takes no changes until a restart")
	return errPanicked
}

// ofLog takes note of why the log cannot be written; nil: it can.
func (t *troubles) ofLog(err error) {
	if err == nil {
		t.writing.Store(nil)
		return
	}
	trouble := &health.Trouble{Kind: kindOf(err), Dir: t.cfg.DataDir, Since: t.cfg.Clock.Now(), Err: err}
	trouble.Restart = trouble.Kind == health.Stopped || codes.Of(err) == codes.Timeout
	t.ofState = false
	if trouble.Kind == health.Failed {
		if of := t.cfg.State.Trouble(); of != nil {
			trouble.Kind, trouble.Restart, t.ofState = of.Kind, of.Restart, true
		}
	}
	if was := t.writing.Load(); was != nil {
		trouble.Since = was.Since
	}
	t.writing.Store(trouble)
}

// stillFailed returns why a write would fail as the last one did, if that is known without trying;
// nil: it may succeed.
func (t *troubles) stillFailed() error {
	if was := t.writing.Load(); was != nil && t.ofState && !t.over() {
		return was.Err
	}
	return nil
}

// over reports whether what the last write failed of is over.
func (t *troubles) over() bool { return t.ofState && t.cfg.State.Trouble() == nil }

// ofRoot takes note of whether the directory of the documents is there.
func (t *troubles) ofRoot(there bool) {
	switch {
	case there:
		t.root.Store(nil)
	case t.root.Load() == nil:
		t.root.Store(&health.Trouble{Kind: health.Missing, Dir: t.dir, Since: t.cfg.Clock.Now(), Err: errDirGone})
	}
}

// errPanicked is why nothing is written after a panic of the store's goroutine: what it leaves is
// not to be used.
var errPanicked = codes.Errorf(codes.Storage, "the configuration store has failed and takes no changes until a restart; the server's log says why")

var errDirGone = codes.Errorf(codes.Storage, "the configuration directory is gone; put it back and write again")

func kindOf(err error) health.Kind {
	switch {
	case errors.Is(err, errPanicked):
		return health.Stopped
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return health.Full
	case atomicfile.IsReadOnly(err):
		return health.ReadOnly
	}
	return health.Failed
}

// remind logs the trouble that stays, and the one that the store's goroutine cannot log because
// it hangs.
func (t *troubles) remind() {
	trouble := t.now()
	begins := trouble != nil && !t.troubled && trouble != t.writing.Load() && trouble != t.root.Load()
	t.troubled = trouble != nil
	if t.reminder.Due(t.cfg.Clock.Now(), trouble) || begins {
		t.cfg.Log.Warn().Str("kind", string(trouble.Kind)).Str("dir", trouble.Dir).Time("since", trouble.Since).
			Msg("configurations are served, but not written: " + trouble.Err.Error())
	}
}

// watchPeriod is how often to look for what takes too long.
const watchPeriod = 250 * time.Millisecond

// watch answers requests that a disk holds up for too long and logs the trouble, which the
// store's goroutine cannot do if it hangs itself.
func (s *Store) watch() {
	timer := s.cfg.Clock.NewTimer(watchPeriod)
	defer timer.Stop()
	for {
		select {
		case <-s.closing:
			return
		case <-timer.C():
			timer.Reset(watchPeriod)
			for _, j := range s.queue.overdue() {
				s.queue.giveUp(j)
			}
			s.troubles.remind()
		}
	}
}

// The kinds of problems, each of a part of the store.
const (
	OfFile      = "file"      // a document that does not parse or cannot be read
	OfMeta      = "meta"      // what _meta.json says
	OfDirectory = "directory" // what is in the directory but cannot be served
	OfWatch     = "watch"     // events that may be missed
	OfRoot      = "root"      // the directory itself
	OfLog       = "log"       // what cannot be remembered: nothing can be written
)
