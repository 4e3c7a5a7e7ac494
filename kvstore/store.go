package kvstore

import (
	"context"
	"sync"
	"time"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/health"
	"confcenter/kv"
)

// Store implements kvstore.Engine. Make it with Open.
type Store struct {
	// set at open
	cfg       Config
	log       Log
	shared    SharedLog // the log; nil: it is the store's own
	index     *index
	leases    *leases
	tokens    *tokens
	queue     *queue
	followers followers
	forgets   forgets
	committer *committer
	count     count
	beating   sync.WaitGroup  // the goroutines that notice pauses, of the process and of the log
	life      context.Context // of what waits for the log
	end       context.CancelFunc

	reading reading
}

// reading is held for reading by all that uses the log, so that Close can wait for it.
type reading struct {
	sync.RWMutex
	closed bool          // guarded by the mutex
	slow   chan struct{} // has one for each read of the log that may wait for the disk
}

// Open loads the contents of the log and serves them. Close also closes the log; if Open
// fails, the log is as its Load left it.
func Open(ctx context.Context, cfg Config, log Log) (*Store, error) {
	s, err := load(ctx, cfg.withDefaults(), log)
	if err != nil {
		return nil, err
	}
	go s.committer.run()
	guarding := s.cfg.Clock.NewTicker(s.cfg.WriteTimeout / 10)
	s.beating.Go(func() { s.every(guarding, func() { s.committer.answerLate(s.cfg.WriteTimeout) }) })
	if s.cfg.PauseAfter > 0 {
		const perPause = 5
		ticker := s.cfg.Clock.NewTicker(max(s.cfg.PauseAfter/perPause, 1))
		s.beating.Go(func() { s.every(ticker, s.running) })
	}
	return s, nil
}

// every does something at each tick, until the committer has ended.
func (s *Store) every(ticker clock.Ticker, do func()) {
	defer ticker.Stop()
	for {
		select {
		case <-s.committer.ended:
			return
		case <-ticker.C():
			do()
		}
	}
}

// running shows that the process is running, also while the committer waits for the disk. If
// a slow disk counted as a pause, the leases of dead clients would never end.
func (s *Store) running() {
	if stood := s.leases.running(); stood > 0 {
		s.cfg.Log.Warn().Dur("pause", stood).Msg("the process stood still: all leases get their full time again")
	}
}

// load makes a store from the log; its committer is not running yet.
func load(ctx context.Context, cfg Config, log Log) (*Store, error) {
	x := newIndex()
	known := newTokens(cfg.MaxTokens, cfg.Tokens)
	s := &Store{
		cfg:     cfg,
		log:     log,
		index:   x,
		leases:  newLeases(cfg.Clock, cfg.PauseAfter),
		tokens:  known,
		queue:   newQueue(cfg.MaxQueue, cfg.Queues, known),
		reading: reading{slow: make(chan struct{}, cfg.MaxSlowReads)},
	}
	s.shared, _ = log.(SharedLog)
	if s.shared != nil {
		s.leases.here = cfg.Name
	}
	s.life, s.end = context.WithCancel(context.WithoutCancel(ctx))
	b := &counters{index: x, leases: s.leases, expiry: newExpiry(), held: account{pool: cfg.Store}}
	x.keptHeld.pool = cfg.Queues
	l := &loading{counters: b, tokens: s.tokens}
	newest, err := log.Load(ctx, l.loader())
	if err == nil {
		err = s.resumeTrail(l.lines)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	l.done(newest)
	s.leases.running()
	s.committer = newCommitter(s, b, newest)
	return s, nil
}

// closeGrace is how long Close waits for a log that does not answer. lastGrace is how long
// once it is known that the log is late, or has been told to hurry.
const closeGrace, lastGrace = 5 * time.Second, time.Second

// tidyWrites is how many times as long as for a group a log may take to close: on a slow disk
// or a busy machine it takes a while to write what has not got into tables yet.
const tidyWrites = 4

// Close implements kvstore.Engine. It must not be called by a function given to
// Commit or Follow. If the log hangs, accepted transactions are answered with
// codes.Timeout, and Close fails without having closed the log.
func (s *Store) Close() error {
	s.queue.close(errClosed())
	if s.late() != nil || !clock.Within(s.cfg.Clock, closeGrace, s.committer.ended) {
		s.end()
		if !clock.Within(s.cfg.Clock, lastGrace, s.committer.ended) {
			s.committer.answerLate(0)
			return codes.Errorf(codes.Timeout, "the state store cannot be closed: %w", s.hanging())
		}
	}
	s.end()
	s.beating.Wait()
	s.leases.close()
	closed := make(chan struct{})
	var err error
	go func() {
		defer close(closed)
		err = s.closeLog()
	}()
	if grace := tidyWrites * min(s.cfg.WriteTimeout, time.Hour); !clock.Within(s.cfg.Clock, grace, closed) {
		return codes.Errorf(codes.Timeout, "the state store cannot be closed: its log has not come to an end for %s", grace)
	}
	return err
}

func (s *Store) closeLog() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.reading.closed {
		return nil
	}
	s.reading.closed = true
	for _, held := range []*account{&s.committer.group.counters.held, &s.tokens.held, &s.index.keptHeld} {
		held.tell(0)
	}
	return s.log.Close()
}

func errClosed() error { return codes.Errorf(codes.Closed, "the store is closed") }

// Stats implements kvstore.Engine.
func (s *Store) Stats() kv.Stats {
	c, x := &s.count, s.index
	stats := kv.Stats{
		Revision: x.revision(), Namespaces: x.count.Load(), Keys: x.keys.Load(), Bytes: x.bytes.Load(),
		Memory: s.cfg.Store.Held(), MemoryLimit: s.cfg.Store.Limit(),
		Leases: int64(s.leases.size()), Tokens: s.tokens.count.Load(),
		Queue:   int64(s.queue.waiting()),
		Commits: c.commits.Load(), Groups: c.groups.Load(), Failed: c.failed.Load(), Busy: c.busy.Load(), Reserved: s.queue.reserved.Load(),
		Refused: c.refused.Load(), Replayed: c.replayed.Load(), Expired: c.expired.Load(),
		Views: int64(x.views.count()), ViewsCut: c.viewsCut.Load(), Panics: c.panics.Load(),
	}
	if documents := x.seen(kv.ConfigNamespace); documents.keys > 0 {
		stats.Namespaces, stats.Keys, stats.Bytes = stats.Namespaces-1, stats.Keys-documents.keys, stats.Bytes-documents.bytes
	}
	s.reading.RLock()
	defer s.reading.RUnlock()
	if !s.reading.closed {
		d := s.log.Stats()
		stats.DiskBytes, stats.FreeBytes = d.DiskBytes, d.FreeBytes
		stats.LogFloor, stats.HistoryFloor = s.log.Floors()
	}
	return stats
}

// Writable says why writes are not taken at the moment: the store has ended, or there
// is no room on the disk. nil: they are. It may be called from any goroutine and is
// cheap.
func (s *Store) Writable() error {
	if err := s.queue.ended(); err != nil {
		return err
	}
	if t := s.Trouble(); t != nil {
		return t.Err
	}
	return nil
}

// Damage implements kvstore.Engine.
func (s *Store) Damage() *health.Trouble { return s.log.Damage() }

// Trouble implements kvstore.Engine: the store's own, or else that of the log.
func (s *Store) Trouble() *health.Trouble {
	if t := s.committer.trouble.Load(); t != nil {
		return t
	}
	if t := s.late(); t != nil {
		return t
	}
	return s.log.Trouble()
}

// Commit implements kv.Store.
func (s *Store) Commit(txn *kv.Txn, done func(*kv.Result, error)) error {
	one := queued{txn: txn, done: done}
	if err := s.prepare(&one); err != nil {
		return err
	}
	_, err := s.queue.add(one)
	return s.noted(err)
}

// CommitEach implements kv.Store.
func (s *Store) CommitEach(caller kv.Caller, writes []*kv.Write) (taken int, err error) {
	var some [32]queued
	for len(writes) > 0 && err == nil {
		n := 0
		for n < min(len(writes), len(some)) && err == nil {
			some[n] = queued{txn: writes[n].Txn, write: writes[n], caller: caller}
			if err = s.prepare(&some[n]); err == nil {
				n++
			}
		}
		added, full := s.queue.add(some[:n]...)
		if full != nil {
			err = full
		}
		taken += added
		writes = writes[added:]
	}
	return taken, s.noted(err)
}

// prepare does what can be done before a transaction is queued. An error means that it
// must not be queued.
func (s *Store) prepare(one *queued) error {
	if err := one.txn.Check(); err != nil {
		return s.counted(one.txn, err)
	}
	one.size = sizeOf(one.txn)
	if one.txn.Token != "" {
		one.digest = digestOf(one.txn)
	}
	return nil
}

// counted adds to the refusal of a deletion that was not confirmed how much is at stake.
func (s *Store) counted(txn *kv.Txn, err error) error {
	if codes.Of(err) != codes.Unconfirmed {
		return err
	}
	for _, ops := range [2][]kv.Op{txn.Then, txn.Else} {
		for i := range ops {
			if ops[i].Unconfirmed() {
				return codes.Errorf(codes.Unconfirmed, "%w; nothing was deleted (keys in the namespace: %d)", err, s.index.keysOf(ops[i].NS))
			}
		}
	}
	return err
}

func (s *Store) noted(err error) error {
	if err != nil && codes.Of(err) == codes.Busy {
		s.count.busy.Add(1)
	}
	return err
}

// Follow implements kv.Store.
func (s *Store) Follow(fn func(*kv.Batch)) (stop func()) { return s.followers.add(fn) }

// KeepAlive implements kv.Store.
func (s *Store) KeepAlive(_ context.Context, id kv.LeaseID) (kv.Lease, error) {
	return s.leases.get(id, true)
}

// Lease implements kv.Store.
func (s *Store) Lease(id kv.LeaseID) (kv.Lease, error) { return s.leases.get(id, false) }
