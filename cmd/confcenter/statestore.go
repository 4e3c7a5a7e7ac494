package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"confcenter/access/trail"
	"confcenter/codes"
	"confcenter/confstore"
	"confcenter/internal/atomicfile"
	"confcenter/internal/health"
	"confcenter/internal/memory"
	"confcenter/internal/roster"
	"confcenter/kvlock"
	"confcenter/kvstore/pebblekv"
	"confcenter/kvstore/pebblekv/disk"
	"confcenter/kvstore/replica"
	"confcenter/server/tcp"
	"confcenter/state/auth"
	"confcenter/state/history"
	"confcenter/state/host"
	"confcenter/state/review"
	"confcenter/storage"
)

// stateOptions are the settings of the state store.
type stateOptions struct {
	memory          byteSize
	logBytes        byteSize
	logAge          time.Duration
	historyVersions int
	historyBytes    byteSize
	historyAge      time.Duration
	quota           byteSize
	reserve         byteSize
	ackBeforeDisk   bool
	acceptLoss      bool
}

func (o *stateOptions) define(f *pflag.FlagSet) {
	o.logBytes, o.historyBytes, o.reserve = 512<<20, 1<<30, 256<<20
	f.Var(&o.memory, "kv-memory", "memory that keys and values of the state store may take; beyond it only deletes are accepted; 0 = its share of --memory, 26 %")
	f.Var(&o.logBytes, "kv-log-bytes", "changes kept for watches that were away, in bytes")
	f.DurationVar(&o.logAge, "kv-log-age", 24*time.Hour, "how long changes are kept for watches that were away")
	f.IntVar(&o.historyVersions, "kv-history-versions", 100, "older versions kept per key; -1 = none")
	f.Var(&o.historyBytes, "kv-history-bytes", "older versions kept of all keys together, in bytes")
	f.DurationVar(&o.historyAge, "kv-history-age", 7*24*time.Hour, "how long older versions are kept")
	f.Var(&o.quota, "kv-quota", "disk space at which the state store accepts only deletes; 0 = no limit")
	f.Var(&o.reserve, "kv-reserve", "free disk space that writes to the state store must leave")
	f.BoolVar(&o.ackBeforeDisk, "kv-ack-before-disk-may-lose-writes", false,
		"acknowledge writes of keys before they are on disk: faster, but a crash of the machine loses the last ones, although their writers were told they succeeded")
	f.BoolVar(&o.acceptLoss, "kv-accept-loss", false,
		"for one start: serve what is left of a state store that has lost acknowledged writes")
}

// leastReserve is what the database may write, background writes included, before the
// free space is checked again.
var leastReserve = byteSize(64 << 20)

// check reports values that a store cannot run with.
func (o *stateOptions) check(refuse func(format string, args ...any)) {
	for _, size := range []struct {
		name  string
		value byteSize
	}{{"kv-log-bytes", o.logBytes}, {"kv-history-bytes", o.historyBytes}, {"kv-reserve", o.reserve}} {
		if size.value < 1 {
			refuse("%s = %s: must be above 0", size.name, &size.value)
		}
	}
	if o.reserve < leastReserve {
		refuse("kv-reserve = %s: must be at least %s, since the store writes tens of MiB at once", &o.reserve, &leastReserve)
	}
	if o.historyVersions < -1 || o.historyVersions == 0 {
		refuse("kv-history-versions = %d: must be above 0, or -1 for none", o.historyVersions)
	}
}

// stateDir is the state store's directory in --data.
func stateDir(data string) string { return filepath.Join(data, "state") }

// stateIsNew reports whether there is no state store yet, or not any more.
func stateIsNew(data string) bool { return disk.New(nil, stateDir(data)) }

// stateMark is a file in --data that says that a state store was made there. Without it a
// store that was removed would look like one that is yet to be made.
const stateMark = "state.made"

// checkState returns why the state store must not be opened: there was one, and it is gone.
func (o *stateOptions) checkState(data string) error {
	_, err := os.Stat(filepath.Join(data, stateMark))
	if err != nil || !stateIsNew(data) || o.acceptLoss {
		return nil
	}
	return codes.Errorf(codes.Storage, "the state store is gone: %s is missing or empty, although it held one. Mount it or restore it from a copy, or start once with --kv-accept-loss to begin with an empty one", stateDir(data))
}

// markState leaves the mark of a state store that was opened, unless it is there or nothing can
// be written.
func markState(data string) error {
	root, err := atomicfile.OS().OpenRoot(data)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(stateMark); err == nil {
		return nil
	}
	text := []byte("There is a state store beside this file. Without the store, but with this file, the server does not start.\n")
	if err := atomicfile.Write(root, stateMark, text, atomicfile.Attr{Perm: 0o600}); err != nil && !atomicfile.IsReadOnly(err) {
		return codes.Errorf(codes.Storage, "data directory: %w", err)
	}
	return nil
}

func (o *stateOptions) config(data string, budget *memory.Budget, log zerolog.Logger) pebblekv.Config {
	return pebblekv.Config{
		Disk: disk.Config{
			Dir:             stateDir(data),
			AckBeforeDisk:   o.ackBeforeDisk,
			AcceptLoss:      o.acceptLoss,
			LogBytes:        int64(o.logBytes),
			LogAge:          o.logAge,
			HistoryVersions: o.historyVersions,
			HistoryBytes:    int64(o.historyBytes),
			HistoryAge:      o.historyAge,
			QuotaBytes:      int64(o.quota),
			ReserveBytes:    int64(o.reserve),
			Engine:          budget.Engine,
		},
		Replica: replica.Config{Store: budget.Store, Tokens: budget.Tokens, Queues: budget.Queues, Log: log},
	}
}

// state is the state store of a running server.
type state struct {
	store   *replica.Store
	edge    *review.Store // the same for whoever writes on behalf of peers
	locks   *kvlock.Manager
	players *storage.Storage
	models  *host.Host
	server  *tcp.Server // set before it starts
	landed  landed
	restart restartDue

	closing  chan struct{}
	watching sync.WaitGroup
}

// openEngine opens the state store; --data exists and belongs to this process. lines are those of
// the audit; nil: there is none.
func openEngine(o *options, budget *memory.Budget, log zerolog.Logger) (store *replica.Store, lines *trail.Trail, err error) {
	if o.state.ackBeforeDisk {
		log.Warn().Msg("writes to the state store are acknowledged before they are on disk: a crash of the machine loses some (--kv-ack-before-disk-may-lose-writes)")
	}
	cfg := o.state.config(o.data, budget, log)
	if o.audit.level(o.access.on) != auditOff {
		lines = trail.New(recentAudit)
	}
	cfg.Replica.Trail, cfg.Replica.TrailNotesOnly = lines, o.audit.level(o.access.on) == auditNoKeys
	if store, err = pebblekv.Open(cfg); err != nil {
		return nil, nil, err
	}
	if err := markState(o.data); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, lines, nil
}

// openState opens what lives on the state store, which stays the caller's.
func openState(o *options, lines *trail.Trail, store *replica.Store, config *confstore.Store, budget *memory.Budget, log zerolog.Logger) (*state, error) {
	landed, settings, err := o.landing.open(config, log)
	if err != nil {
		return nil, err
	}
	cfg := storage.Config{Store: store, Settings: settings, Moved: o.landing.moved, Memory: budget.Store, Log: log}
	if landed.db != nil {
		cfg.Backing = landed.db
	}
	players, err := storage.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, landed.close())
	}
	s := &state{store: store, players: players, landed: landed, closing: make(chan struct{})}
	s.restart.troubles = []func() *health.Trouble{store.Trouble, config.Trouble}
	s.restart.probe = func() error { return disk.Probe(disk.Config{Dir: stateDir(o.data)}) }
	s.models = host.Open(store, host.Config{Pool: budget.Queues, Log: log, Audit: o.audit.config(lines), Auth: auth.Config{Sessions: o.access.signIn.limits(), Names: o.audit.names(), Waiting: o.access.reviews.keep}, History: history.Config{
		Memory: budget.Bodies, Documents: config, Staged: budget.Staged,
		Clients: func(after int32, most int) ([]roster.Client, int32) { return s.server.Clients(after, most) },
	}, Secret: o.secret.config(log), Review: o.access.reviews.config(config, budget.Bodies)})
	s.edge = s.models.Reviews().Guard(store)
	s.locks = kvlock.New(s.edge, kvlock.Config{Queues: budget.Queues})
	s.watching.Go(func() { s.remind(log) })
	s.startLanding(&o.landing, config, log)
	return s, nil
}

// remind logs trouble that stays, and has the disk probed while a restart is due.
func (s *state) remind(log zerolog.Logger) {
	ticker, probes := time.NewTicker(time.Second), time.NewTicker(probeEvery)
	defer ticker.Stop()
	defer probes.Stop()
	var reminder health.Reminder
	for {
		select {
		case <-s.closing:
			return
		case <-probes.C:
			s.restart.look()
		case now := <-ticker.C:
			if trouble := s.store.Trouble(); reminder.Due(now, trouble) {
				log.Warn().Str("kind", string(trouble.Kind)).Str("dir", trouble.Dir).Time("since", trouble.Since).
					Msg("the state store is served, but takes no writes: " + trouble.Err.Error())
			}
		}
	}
}

func (s *state) close() error {
	if s.landed.follow != nil {
		s.landed.follow()
	}
	close(s.closing)
	s.watching.Wait()
	s.landed.stop()
	s.models.Close()
	s.locks.Close()
	return errors.Join(s.players.Close(), s.landed.close())
}

// serve adds the state store to stores.
func (s *state) serve(stores tcp.Stores) tcp.Stores {
	stores.State, stores.Locks, stores.StateStats, stores.Storage = s.edge, s.locks, s.store.Stats, s.players
	stores.Models = s.models.Models()
	return stores
}
