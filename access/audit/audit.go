// Package audit is the audit of a server, which the state store keeps: who did what, from where,
// when, and with what outcome. Lines about changes are written by the store itself, with the
// changes; those about all else come by [Audit.Note]. It reads, follows and checks the lines,
// removes old ones, and exports all of them.
//
// The lines form a chain: each has a number, one above that of the line before, and the SHA-256 of that line.
// So it can be proved of lines that none was changed, removed or put in: see [Checker]. A [Trail] is where the
// state store's committer takes the lines of a group of transactions, to write them with it, and where others
// learn of lines that are durable. It stores nothing.
//
// Besides the lines there is one key, which is small: how far lines were removed, and heads of the
// chain that were kept on the way.
package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json" // keeps its books in a value of the store
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/kv"
)

// Config says how an Audit works. The zero value of each field but Trail means its default.
type Config struct {
	Trail *Trail // of the store; nil: there is no audit
	Clock clock.Clock
	Log   zerolog.Logger
	// Age and Bytes are how old lines get, and how many bytes of them are kept: older ones are
	// removed. Default 90 days and 1 GiB.
	Age   time.Duration
	Bytes int64
	// Interval is for how long refusals are added up that are the same, and Often for how long
	// what is allowed and happens often. Default a minute, and an hour.
	Interval, Often time.Duration
	// MaxEvents is how many events may wait to be written, and MaxSums how many different
	// refusals are told apart in an interval, and likewise what happens often. Default 8192 and 512. Beyond it they are counted.
	MaxEvents, MaxSums int
	// Sinks get a copy of every line.
	Sinks []Sink
}

// Audit is the audit of one store. Its methods may be called from any goroutine.
type Audit struct {
	// set at open
	cfg     Config
	store   kv.Archive
	exports []*export
	damage  error // of the books; nil: there is none

	notes notes

	booking sync.Mutex
	books   books       // guarded by booking: as the state had them last; other servers on it write them, too
	booked  kv.Revision // guarded by booking: the revision that wrote these
	open    int64       // guarded by booking: bytes of lines in no stretch, of before from; below 0: to be counted
	from    uint64      // guarded by booking: bytes written since the start that are in a stretch
	deleted int64       // guarded by booking: the newest line that is gone from the disk
	quiet   time.Time   // guarded by booking: until then the log need not tell of early again

	gone   atomic.Int64  // the newest line that is no longer shown
	pruned atomic.Uint64 // lines removed since the start
	early  atomic.Uint64 // those of them that were not too old
}

// Open makes the audit of a store. What it does by itself is done by Run.
func Open(store kv.Archive, cfg Config) *Audit {
	cfg.Clock = cmp.Or(cfg.Clock, clock.Real())
	cfg.Age, cfg.Bytes = cmp.Or(cfg.Age, 90*24*time.Hour), cmp.Or(cfg.Bytes, 1<<30)
	cfg.Interval, cfg.Often = cmp.Or(cfg.Interval, time.Minute), cmp.Or(cfg.Often, time.Hour)
	cfg.MaxEvents, cfg.MaxSums = cmp.Or(cfg.MaxEvents, 8192), cmp.Or(cfg.MaxSums, 512)
	a := &Audit{cfg: cfg, store: store}
	a.notes.init(&a.cfg)
	a.open, a.damage = -1, a.readBooks()
	for _, s := range cfg.Sinks {
		a.exports = append(a.exports, &export{audit: a, sink: s})
	}
	return a
}

// On reports whether there is an audit.
func (a *Audit) On() bool { return a.cfg.Trail != nil }

func (a *Audit) refusal() error {
	if a.On() {
		return a.damage
	}
	return codes.Errorf(codes.NotImplemented, "this server keeps no audit; start it with --audit all")
}

// Run writes what is noted, removes old lines and exports new ones, until the context ends.
func (a *Audit) Run(ctx context.Context) error {
	if !a.On() {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := a.begin(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, e := range a.exports {
		running.Go(func() { e.run(ctx) })
	}
	defer running.Wait()
	defer cancel()
	tick := a.cfg.Clock.NewTicker(tidyEvery)
	defer tick.Stop()
	retry := a.cfg.Clock.NewTicker(time.Second)
	defer retry.Stop()
	for {
		select {
		case <-a.notes.wake:
			a.writeNotes(ctx, false)
		case <-retry.C():
			a.writeNotes(ctx, false)
		case <-tick.C():
			if err := a.tidy(ctx); err != nil && ctx.Err() == nil {
				a.cfg.Log.Warn().Err(err).Msg("old lines of the audit could not be removed; it is tried again")
			}
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastGrace)
			defer cancel()
			a.writeNotes(last, true)
			return ctx.Err()
		}
	}
}

// lastGrace is how long the last notes may take to be written when the server ends.
const lastGrace = 2 * time.Second

// mostRead is how many bytes of lines are read at a time, about.
const mostRead = 1 << 20

// Read returns lines behind the one with number after, at most about a MiB: none if there are no
// newer ones. They may begin later if lines in between were removed. It may wait for a disk.
// codes.NotImplemented: there is no audit.
func (a *Audit) Read(ctx context.Context, after int64) (Block, error) {
	if err := a.refusal(); err != nil {
		return Block{}, err
	}
	after = max(after, a.gone.Load())
	if b, ok := a.cfg.Trail.Since(after); ok {
		return behind(b, after), nil
	}
	page, err := a.store.ListArchive(ctx, kv.List{NS: kv.AuditLines, After: KeyOf(after), Limit: 4096, MaxBytes: mostRead})
	if err != nil {
		return Block{}, err
	}
	var all Block
	for _, e := range page.Entries {
		b, _, err := ParseBlock(e.Key, e.Value.Data)
		if err != nil {
			return Block{}, err
		}
		if b = behind(b, after); all.Lines == nil {
			all = b
			continue
		}
		if b.First != all.Last+1 { // what is missing shows to those who check
			break
		}
		all = Block{First: all.First, Last: b.Last, Lines: append(all.Lines[:len(all.Lines):len(all.Lines)], b.Lines...)}
	}
	return all, nil
}

// behind is what a block has behind a line.
func behind(b Block, after int64) Block {
	for b.First <= after && len(b.Lines) > 0 {
		b.Lines = b.Lines[bytes.IndexByte(b.Lines, '\n')+1:]
		b.First++
	}
	return b
}

// Follow returns a channel that has a value whenever there may be new lines, until stop.
// codes.NotImplemented: there is no audit.
func (a *Audit) Follow() (news <-chan struct{}, stop func(), err error) {
	if err := a.refusal(); err != nil {
		return nil, nil, err
	}
	news, stop = a.cfg.Trail.Follow()
	return news, stop, nil
}

// Figures are what is told of an audit in metrics.
type Figures struct {
	Lines, Bytes, Pruned uint64 // since the start
	Early                uint64 // those of Pruned that were not too old
	Lost                 uint64 // events that there was no room for
	Seq                  int64  // of the newest line
	Exports              []ExportFigures
}

// ExportFigures are those of one sink.
type ExportFigures struct {
	Name   string
	Lag    int64 // lines that it has not got yet
	Failed uint64
}

// Figures is cheap.
func (a *Audit) Figures() Figures {
	f := Figures{Pruned: a.pruned.Load(), Early: a.early.Load(), Lost: a.notes.lost.Load()}
	if a.On() {
		f.Lines, f.Bytes = a.cfg.Trail.Written()
		f.Seq = a.cfg.Trail.Head().Seq
	}
	for _, e := range a.exports {
		f.Exports = append(f.Exports, ExportFigures{e.sink.Name(), max(0, f.Seq-e.at.Load()), e.failed.Load()})
	}
	return f
}

// bookKey is where the books are kept, in kv.AuditNamespace.
const bookKey = "books"

// books are what is known of the lines besides themselves.
type books struct {
	Pruned   mark             `json:"pruned"`   // the newest line that was removed, or is about to be
	Segments []mark           `json:"segments"` // the lines behind it, in stretches, oldest first
	Exported map[string]int64 `json:"exported,omitempty"`
}

// mark is the end of a stretch of lines.
type mark struct {
	Head  string `json:"head,omitempty"` // as trail.Head writes it
	Time  int64  `json:"time,omitempty"` // when it ended, in ms since 1970
	Bytes int64  `json:"bytes,omitempty"`
}

// head is zero if there is none.
func (m *mark) head() Head {
	h, _ := ParseHead(m.Head)
	return h
}

// readBooks reads the books unless they are as they were. booking is held.
func (a *Audit) readBooks() error {
	e, _ := a.store.Get([]byte(kv.AuditNamespace), []byte(bookKey))
	if e == nil || e.Mod == a.booked {
		return nil
	}
	var b books
	if err := json.Unmarshal(e.Value.Data, &b); err != nil {
		return codes.Errorf(codes.Storage, "the books of the audit are damaged: %w; restore the data directory from a backup", err)
	}
	a.books, a.booked, a.open = b, e.Mod, -1
	a.gone.Store(b.Pruned.head().Seq)
	return nil
}

// booksNow are the books as they are now.
func (a *Audit) booksNow() (books, error) {
	a.booking.Lock()
	defer a.booking.Unlock()
	err := a.readBooks()
	return a.books, err
}

// begin is the beginning of Run.
func (a *Audit) begin(ctx context.Context) error {
	a.booking.Lock()
	defer a.booking.Unlock()
	return a.count(ctx)
}

// count counts the lines that are in no stretch. booking is held.
func (a *Audit) count(ctx context.Context) error {
	open := int64(0)
	_, a.from = a.cfg.Trail.Written()
	for at := a.books.last().Seq; ; {
		block, err := a.Read(ctx, at)
		if err != nil {
			return err
		}
		if len(block.Lines) == 0 {
			a.open = open
			return nil
		}
		at = block.Last
		open += int64(len(block.Lines))
	}
}

// last is the newest head that is kept.
func (b *books) last() Head {
	if n := len(b.Segments); n > 0 {
		return b.Segments[n-1].head()
	}
	return b.Pruned.head()
}

// saveBooks keeps the books, with what else is to be done together with that. booking is held. codes.Conflict:
// another server has written them.
func (a *Audit) saveBooks(ctx context.Context, b books, txn kv.Txn) error {
	text, err := json.Marshal(&b)
	if err != nil {
		return err
	}
	txn.If = []kv.Compare{{NS: kv.AuditNamespace, Key: bookKey, Target: kv.CompareMod, Relation: kv.Equal, Number: int64(a.booked)}}
	txn.System, txn.Must = true, true
	txn.Then = append(txn.Then, kv.Op{Kind: kv.OpPut, NS: kv.AuditNamespace, Key: bookKey, Value: kv.JSONValue(text)})
	res, err := kv.Commit(ctx, a.store, &txn)
	if err != nil {
		return err
	}
	a.books, a.booked = b, res.Revision
	return nil
}
