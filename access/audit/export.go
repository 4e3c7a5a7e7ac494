package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sync/atomic"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
)

// Sink is where lines are copied to. One goroutine uses it.
type Sink interface {
	// Name is that of the sink in metrics and the log: "file".
	Name() string
	// Last is the head of the newest line that is there; the zero Head: the sink cannot tell.
	Last() (Head, error)
	// Write takes lines, each with a line feed. If it fails it may have taken some of them, which
	// are written again.
	Write(b Block) error
	// Settle has what was written survive a crash.
	Settle() error
	// Close gives up what the sink has open.
	Close() error
}

// Attempts to reach a sink that fails are made at growing distances.
const (
	firstPause = time.Second
	mostPause  = time.Minute
)

// export copies lines to one sink. A sink that fails holds up nothing else: the lines wait in the
// store.
type export struct {
	audit *Audit // set at open
	sink  Sink   // set at open

	at      atomic.Int64 // the newest line that the sink has
	settled atomic.Int64 // the newest one that it has for good
	failed  atomic.Uint64
}

// run copies until the context ends.
func (e *export) run(ctx context.Context) {
	a := e.audit
	a.booking.Lock()
	from := a.books.Exported[e.sink.Name()]
	a.booking.Unlock()
	e.at.Store(from)
	e.settled.Store(from)
	news, stop := a.cfg.Trail.Follow()
	defer stop()
	pause := time.Duration(0)
	for begun := false; ; {
		err := error(nil)
		if !begun {
			begun, err = e.begin(ctx)
		}
		if err == nil {
			err = e.copy(ctx)
		}
		var timer clock.Timer
		if err != nil && ctx.Err() == nil {
			e.failed.Add(1)
			if pause == 0 {
				a.cfg.Log.Error().Err(err).Str("sink", e.sink.Name()).Msg("lines of the audit cannot be exported; they are kept, and it is tried again")
			}
			pause = min(max(firstPause, 2*pause), mostPause)
			timer = a.cfg.Clock.NewTimer(pause)
		} else if pause > 0 {
			pause = 0
			a.cfg.Log.Info().Str("sink", e.sink.Name()).Msg("lines of the audit are exported again")
		}
		if !e.wait(ctx, news, timer) {
			_ = e.sink.Settle()
			_ = e.sink.Close()
			return
		}
	}
}

// wait waits for new lines, or if there is a timer for that. It is false when the context has ended.
func (e *export) wait(ctx context.Context, news <-chan struct{}, timer clock.Timer) bool {
	var over <-chan time.Time
	if timer != nil {
		defer timer.Stop()
		news, over = nil, timer.C()
	}
	select {
	case <-news:
	case <-over:
	case <-ctx.Done():
		return false
	}
	return true
}

// begin finds out where to go on. Behind the lines of another audit ours would be no chain.
func (e *export) begin(ctx context.Context) (begun bool, err error) {
	last, err := e.sink.Last()
	if err != nil || last.Seq == 0 {
		return err == nil, err
	}
	b, err := e.audit.Read(ctx, last.Seq-1)
	if err != nil {
		return false, err
	}
	line, _, _ := bytes.Cut(b.Lines, []byte("\n"))
	ours := b.First > last.Seq+1 // it is too old to be compared
	switch b.First {
	case last.Seq:
		ours = sha256.Sum256(line) == last.Hash
	case last.Seq + 1:
		next, err := ParseLine(line)
		ours = err == nil && next.Prev == hex.EncodeToString(last.Hash[:])
	}
	if !ours {
		return false, codes.Errorf(codes.Conflict, "%v ends with a line of another audit; move it away", e.sink)
	}
	e.at.Store(last.Seq)
	return true, nil
}

// copy writes what is new.
func (e *export) copy(ctx context.Context) error {
	for ctx.Err() == nil {
		b, err := e.audit.Read(ctx, e.at.Load())
		if err != nil {
			return err
		}
		if len(b.Lines) == 0 {
			break
		}
		if err := e.sink.Write(b); err != nil {
			return err
		}
		e.at.Store(b.Last)
	}
	at := e.at.Load()
	if err := e.sink.Settle(); err != nil {
		return err
	}
	e.settled.Store(at)
	return nil
}

// exported is what each sink has for good, here or, as books say that were read, at another server.
func (a *Audit) exported(known map[string]int64) map[string]int64 {
	at := make(map[string]int64, len(a.exports))
	maps.Copy(at, known)
	for _, e := range a.exports {
		at[e.sink.Name()] = max(at[e.sink.Name()], e.settled.Load())
	}
	return at
}
