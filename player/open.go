package player

import (
	"cmp"
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"confcenter/codes"
	"confcenter/internal/clock"
	"confcenter/internal/memory"
	"confcenter/kv"
	"confcenter/player/field"
)

// Config sets up a Storage. Only Store must be set.
type Config struct {
	Store kv.Store
	// Backing is the database that fields are landed in. Without one nothing is dirty, and
	// nothing leaves memory; but a Store that has landed in one answers for what is in memory
	// only.
	Backing Backing
	// Moved says that the Backing may be another database than the one before, or one that
	// another store lands in, or that there is none any more. What is in memory is landed there
	// again.
	Moved    bool
	Settings field.Settings // the zero value: Defaults
	Clock    clock.Clock    // nil: the machine's
	Log      zerolog.Logger
	// Memory is what the Store may take. Near its limit owners that are landed leave, those used
	// longest ago first, unless Settings.Idle says that none shall. nil: there is no limit.
	Memory *memory.Pool
	// Cold is what loaded rows may take in memory; nil: one of 16 MiB.
	Cold *memory.Pool
}

func (c Config) withDefaults() Config {
	c.Settings = cmp.Or(c.Settings, field.Defaults())
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.Cold = c.Cold.Or(16 << 20)
	c.Memory = c.Memory.Or(math.MaxInt64)
	return c
}

// Storage keeps the fields of owners in a store. Make it with Open. Its methods may be called
// from any goroutine.
type Storage struct {
	// set at open
	store    kv.Store
	backing  Backing // may be nil; then so are dirty, cold and purge
	identity *identity
	clock    *clock.Record
	log      zerolog.Logger
	base     *base
	names    *regions
	lines    *lines
	pages    *pages
	dirty    *ledger
	cold     *cold
	purge    *purge

	set     atomic.Pointer[field.Settings]
	setting sync.Mutex // held while they change

	background
}

// background is what runs beside the callers.
type background struct {
	life     context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	unfollow func() // nil without a Backing
}

// Open makes a Storage. It reads what is in the store's memory, and must be closed before the
// store.
func Open(cfg Config) (*Storage, error) {
	cfg = cfg.withDefaults()
	s := &Storage{store: cfg.Store, clock: clock.NewRecord(cfg.Clock), log: cfg.Log, names: &regions{}, lines: newLines(), base: &base{store: cfg.Store, clock: cfg.Clock}}
	s.life, s.end = context.WithCancel(context.Background())
	s.pages = &pages{pool: cfg.Cold, clock: cfg.Clock}
	s.set.Store(&cfg.Settings)
	if err := s.base.load(); err != nil {
		return nil, err
	}
	if err := s.identify(&cfg); err != nil {
		return nil, err
	}
	if s.backing == nil {
		return s, nil
	}
	s.cold = newCold(s, &cfg)
	s.dirty = &ledger{store: cfg.Store, clock: cfg.Clock, names: s.names, most: maxNotes}
	s.unfollow = cfg.Store.Follow(s.dirty.follow)
	err := s.dirty.load()
	if err == nil {
		err = s.divide(s.life, cfg.Settings.Tables)
	}
	if err != nil {
		_ = s.Close() // nothing runs yet
		return nil, err
	}
	s.purge = &purge{s: s, changed: make(chan struct{}, 1)}
	if _, none := s.backing.(nowhere); none {
		return s, nil // and nothing leaves memory
	}
	s.running.Go(s.cold.scanning)
	s.running.Go(s.purge.run)
	if forgetter, ok := cfg.Store.(kv.Forgetter); ok {
		s.running.Go(func() { s.cold.evicting(forgetter, cfg.Memory) })
	}
	return s, nil
}

// identify has connections to the Backing be judged. One that is missing is nowhere.
func (s *Storage) identify(cfg *Config) error {
	s.identity = &identity{s: s}
	s.identity.moved.Store(cfg.Moved)
	if cfg.Moved {
		if err := s.identity.forget(s.life); err != nil {
			return err
		}
	}
	landed, err := s.identity.landed()
	if err != nil {
		return err
	}
	if cfg.Backing == nil && landed {
		name := cmp.Or(s.identity.text(databaseKey), "of an earlier version")
		why := Unusablef("this store has landed in the database %s, and the server was started without one: start it with --landing; or, if there is no database any more, once with --landing-moved", name)
		cfg.Backing = nowhere{why}
		s.identity.closed.Store(why)
		s.identity.say(why, why)
	}
	if s.backing = cfg.Backing; s.backing != nil {
		s.backing.Admit(s.identity.judge, cfg.Moved)
	}
	return nil
}

// Close ends what is under way in the background. Writes that wait for the database fail with
// codes.Closed.
func (s *Storage) Close() error {
	if s.cold != nil {
		s.cold.loads.close()
	}
	s.end()
	s.running.Wait()
	if s.unfollow != nil {
		s.unfollow()
	}
	s.pages.close()
	if s.cold != nil {
		s.cold.cache.empty()
	}
	return nil
}

// Base is what the revision of an entry is added to for the version of its field; 0 as long
// as there are no fields.
func (s *Storage) Base() int64 { return s.base.now.Load() }

// commit applies a transaction of the Storage's own, and waits for it.
func (s *Storage) commit(ctx context.Context, txn *kv.Txn) (*kv.Result, error) {
	txn.System = true
	return kv.Commit(ctx, s.store, txn)
}

// base is what versions are counted from.
type base struct {
	store kv.Store     // set at open
	clock clock.Clock  // set at open
	now   atomic.Int64 // 0: there is no field yet
	open  atomic.Bool  // it is there, and no write waits for it

	mu      sync.Mutex
	waiting []func(error) // writes that wait for the first base; guarded by mu
	asked   bool          // the first base is being written; guarded by mu

	raising sync.Mutex // held while it is raised
}

const baseKey = "base"

// maxBase leaves room for all revisions to come.
const maxBase = 1 << 62

func (b *base) load() error {
	e, _ := b.store.Get([]byte(field.Landing), []byte(baseKey))
	if e == nil {
		return nil
	}
	n, err := e.Value.Int()
	if err != nil {
		return codes.Errorf(codes.Internal, "%s in namespace %s: %w", baseKey, field.Landing, err)
	}
	b.now.Store(n)
	b.open.Store(true)
	return nil
}

// wait waits until there is a base.
func (b *base) wait(ctx context.Context) error {
	got := make(chan error, 1)
	b.whenThere(func(err error) { got <- err })
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// whenThere calls fn once there is a base, in the order of the calls.
func (b *base) whenThere(fn func(error)) {
	b.mu.Lock()
	if b.open.Load() {
		b.mu.Unlock()
		fn(nil)
		return
	}
	b.waiting = append(b.waiting, fn)
	first := !b.asked
	b.asked = true
	b.mu.Unlock()
	if !first {
		return
	}
	now := b.clock.Now().UnixMicro()
	txn := kv.PutTxn(field.Landing, baseKey, kv.IntValue(now))
	txn.System = true
	if err := b.store.Commit(txn, func(_ *kv.Result, err error) { b.written(now, err) }); err != nil {
		b.written(0, err)
	}
}

// written lets those go on who wait. Only when there are none left is the base open: who sees
// that does not wait, and must not overtake them.
func (b *base) written(now int64, err error) {
	if err == nil {
		b.now.Store(now)
	}
	for {
		b.mu.Lock()
		if len(b.waiting) == 0 {
			b.asked = false
			b.open.Store(err == nil)
			b.mu.Unlock()
			return
		}
		list := b.waiting
		b.waiting = nil
		b.mu.Unlock()
		for _, fn := range list {
			fn(err)
		}
	}
}
